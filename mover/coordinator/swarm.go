package coordinator

import (
	"crypto/rand"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/location"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/task"
)

// Many nodes that stage one version of a dataset to their own tiers read it once: they give it to each other. The coordinator sends
// each of them the list of members, and moves no byte. It derives swarms from its leads and the ledger, so that a restart costs
// a new ticket and nothing else.

// tracked is one version that is being staged to nodes. scheduler.mu guards it.
type tracked struct {
	digest     string
	uid        uint32 // of the owner of the stagings: a swarm serves one user
	ticket     string
	pieceBytes int64
	stagers    map[string]berth  // by task
	seeds      map[string]string // agent -> location of the replica
	homes      [][]string
	older      bool      // there were homes before those
	waits      bool      // members are told nothing until the stagers of before a restart are back
	came, last time.Time // since homes: the first new member, and the last one
	left       bool      // a home is gone since then
	news       bool      // members have not been told of all yet
	told       time.Time // when they were
}

// berth is where a task brings a version.
type berth struct{ agent, location string }

const (
	// settling is the time without a new member after which the members become homes, and settlingMost the longest wait for that. The nodes of one
	// job come together, and a home asks all homes before it.
	settling     = 200 * time.Millisecond
	settlingMost = 2 * time.Second
	// returning is how long after a start the coordinator waits for the stagers of before. An agent tries again at least every 5 seconds.
	returning = 6 * time.Second
	homesMost = 64
	seedsMost = 64
)

// basis is what the ledger says of a version that a task stages to a node; a nil one is of another task.
type basis struct {
	digest string
	uid    uint32
	bytes  int64
	seeds  map[string]string
}

// joinSwarm makes the agent of a lead a member, and tells all members. It is a home when it has settled. mu is held.
func (s *scheduler) joinSwarm(l *lead, b *basis) {
	l.swarm = ""
	if n := s.agents[l.agent]; b == nil || n == nil || n.hello.GetPeerPort() == 0 {
		return
	}
	id := swarmID(b.digest, b.uid)
	x := s.swarms[id]
	if x == nil {
		x = &tracked{digest: b.digest, uid: b.uid, ticket: rand.Text(), pieceBytes: p2p.PieceBytes(b.bytes), stagers: map[string]berth{}, seeds: b.seeds}
		s.swarms[id] = x
	}
	x.stagers[l.task.GetId()] = berth{l.agent, l.task.GetSpec().GetTarget()}
	x.older = x.older || l.resumed // the homes of before a restart are unknown
	delete(x.seeds, l.agent)
	if now := s.now(); len(x.homes) > 0 {
		x.last = now
		if x.came.IsZero() {
			x.came = now
		}
	}
	if !s.tellAll(x) && !x.waits {
		s.tellSwarm(x, l.agent) // before it begins
	}
	time.AfterFunc(settling, s.c.hurry)
}

// swarmID tells swarms apart.
func swarmID(digest string, uid uint32) string { return fmt.Sprint(digest, " ", uid) }

// swarmOf is the id of the swarm that a task would be in; "" is none.
func swarmOf(t *pb.Task) string {
	l, err := location.Parse("dataset:" + t.GetDataset())
	if !task.Of(t.GetSpec()).Shared || t.GetDataset() == "" || err != nil {
		return ""
	}
	return swarmID(l.Digest, t.GetOwner().GetUid())
}

// awaits says that a stager of before a restart is not back yet. A member with a list without it would read from the source
// what it has. mu is held.
func (s *scheduler) awaits(id string) bool {
	if id == "" || s.clock.Steady() > returning {
		return false
	}
	for _, l := range s.leads {
		if l.swarm == id && !l.closing {
			return true
		}
	}
	return false
}

// leaveSwarm ends the membership of a task; done says that its node has all of it now. mu is held.
func (s *scheduler) leaveSwarm(t *pb.Task, done bool) {
	for id, x := range s.swarms {
		b, member := x.stagers[t.GetId()]
		if !member {
			continue
		}
		delete(x.stagers, t.GetId())
		if done && len(x.seeds) < seedsMost {
			x.seeds[b.agent] = b.location
		}
		if x.left = true; len(x.stagers) == 0 {
			x.ticket = ""
			delete(s.swarms, id)
		}
		s.tellAll(x)
		if !done {
			over := &tracked{digest: x.digest, uid: x.uid}
			s.tellSwarm(over, b.agent)
		}
	}
}

// settle makes the agents that stage the homes. Earlier homes are kept: they may have pieces that no other agent has.
func (x *tracked) settle() {
	x.came, x.last, x.left = time.Time{}, time.Time{}, false
	names := x.agents()
	if n := len(x.homes); n > 0 && slices.Equal(x.homes[n-1], names) {
		return
	}
	x.homes = append(x.homes, names)
	if len(x.homes) > homesMost {
		x.homes, x.older = slices.Clone(x.homes[1:]), true
	}
}

// agents are the agents that stage, sorted.
func (x *tracked) agents() []string {
	unique := map[string]bool{}
	for _, b := range x.stagers {
		unique[b.agent] = true
	}
	return slices.Sorted(maps.Keys(unique))
}

// tendSwarms makes settled members homes, and the agents of leads from before a restart members.
func (s *scheduler) tendSwarms() {
	s.mu.Lock()
	var late []*lead
	for _, l := range s.leads {
		if n := s.agents[l.agent]; l.swarm != "" && n != nil && n.orders != nil && !l.closing {
			late = append(late, l)
		}
	}
	now := s.now()
	for _, x := range s.swarms {
		settled := !x.came.IsZero() && (now.Sub(x.last) >= settling || now.Sub(x.came) >= settlingMost)
		if settled {
			x.settle()
		}
		if settled || x.waits || x.news {
			s.tellAll(x)
		}
	}
	s.mu.Unlock()
	for _, l := range late {
		var b *basis
		err := s.ledger.View(func(tx *state.Tx) (err error) {
			b, err = s.basisOf(tx, l.task)
			return err
		})
		s.mu.Lock()
		if err == nil && s.leads[l.task.GetId()] == l && !l.closing {
			s.joinSwarm(l, b)
		}
		s.mu.Unlock()
	}
}

// tellAll sends all members the list of members, unless it awaits a stager. With two members or fewer it sends at once: a lone member reads what the other
// will read, too. With more it sends once per settling: members come and go together, and these lists are most of what the coordinator
// sends. False says that it sends later. mu is held.
func (s *scheduler) tellAll(x *tracked) bool {
	if x.waits = s.awaits(swarmID(x.digest, x.uid)); x.waits {
		return false
	}
	now := s.now()
	if x.news = x.ticket != "" && len(x.stagers)+len(x.seeds) > 2 && now.Sub(x.told) < settling; x.news {
		time.AfterFunc(settling, s.c.hurry)
		return false
	}
	if x.told = now; x.left || len(x.homes) == 0 {
		x.settle()
	}
	for _, agent := range x.agents() {
		s.tellSwarm(x, agent)
	}
	for _, agent := range slices.Sorted(maps.Keys(x.seeds)) {
		s.tellSwarm(x, agent)
	}
	return true
}

// tellSwarms tells an agent that has begun anew of the swarms that it is in. mu is held.
func (s *scheduler) tellSwarms(agent string) {
	for _, x := range s.swarms {
		if _, seed := x.seeds[agent]; !x.waits && (seed || slices.Contains(x.agents(), agent)) {
			s.tellSwarm(x, agent)
		}
	}
}

// tellSwarm sends one member the list of members and homes. mu is held.
func (s *scheduler) tellSwarm(x *tracked, agent string) {
	o := &agentv1.Swarm{Digest: x.digest, Uid: x.uid, Ticket: x.ticket, PieceBytes: x.pieceBytes, Location: x.seeds[agent], OlderHomes: x.older}
	for _, b := range x.stagers {
		if b.agent == agent {
			o.Location = b.location
		}
	}
	for _, name := range x.agents() {
		if m := s.swarmMember(name, false); m != nil {
			o.Members = append(o.Members, m)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(x.seeds)) {
		if m := s.swarmMember(name, true); m != nil && !slices.Contains(x.agents(), name) {
			o.Members = append(o.Members, m)
		}
	}
	for _, names := range x.homes {
		o.Homes = append(o.Homes, &agentv1.SwarmHomes{Agents: names})
	}
	s.send(agent, &agentv1.Order{What: &agentv1.Order_Swarm{Swarm: o}})
}

// swarmMember is an agent as others reach it; nil is one that they can not.
func (s *scheduler) swarmMember(name string, seed bool) *agentv1.SwarmMember {
	n := s.agents[name]
	if n == nil || n.orders == nil && seed || n.hello.GetPeerPort() == 0 {
		return nil
	}
	host := n.hello.GetPeerHost()
	if host == "" {
		host = n.address
	}
	if host == "" {
		return nil
	}
	return &agentv1.SwarmMember{Agent: name, Address: net.JoinHostPort(host, strconv.Itoa(int(n.hello.GetPeerPort()))), Seed: seed}
}

// basisOf finds the basis of a task's swarm; nil is none.
func (s *scheduler) basisOf(tx *state.Tx, t *pb.Task) (*basis, error) {
	digest, bytes, seeds, err := s.c.datasets.SharedVersion(tx, t, seedsMost)
	if digest == "" || err != nil {
		return nil, err
	}
	return &basis{digest: digest, uid: t.GetOwner().GetUid(), bytes: bytes, seeds: seeds}, nil
}
