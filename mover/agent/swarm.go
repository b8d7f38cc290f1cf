package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"sync"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/replicadir"
	"datamove.dev/mover/beneath"
	"datamove.dev/mover/location"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/task/convert"
)

// Peers is how this node gives pieces of datasets to others.
type Peers struct {
	Server      *peer.Server
	Port        int             // where it is served
	Host        string          // where others reach that; "" is where the coordinator sees this agent
	Authorities func() [][]byte // of the certificates of other agents, in DER
}

// swarms are those that this node is in, by swarmID.
type swarms struct {
	mu     sync.Mutex
	orders map[string]*agentv1.Swarm // guarded by mu
}

// swarmID tells swarms apart: one version is staged by many users, and each of them trusts his own processes only.
func swarmID(digest string, uid uint32) string { return fmt.Sprint(digest, " ", uid) }

func idOf(o *agentv1.Swarm) string {
	if o == nil {
		return ""
	}
	return swarmID(o.GetDigest(), o.GetUid())
}

// swarmed takes over the members of a swarm; an order without a ticket ends it.
func (a *Agent) swarmed(o *agentv1.Swarm) {
	if a.o.Peers == nil {
		return
	}
	id := idOf(o)
	a.swarms.mu.Lock()
	if a.swarms.orders == nil {
		a.swarms.orders = map[string]*agentv1.Swarm{}
	}
	if o.GetTicket() == "" {
		delete(a.swarms.orders, id)
		a.o.Peers.Server.Shut(id)
	} else {
		a.swarms.orders[id] = o
		a.o.Peers.Server.Open(id, o.GetTicket(), &tree{a, id, o.GetUid(), o.GetLocation()})
	}
	a.swarms.mu.Unlock()
	if p := a.bringing(id); p != nil && o.GetTicket() != "" {
		p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Swarm{Swarm: o}})
	}
}

// joins makes a process that has not begun part of the swarm of its dataset, if there is one.
func (a *Agent) joins(p *process) {
	l, err := location.Parse("dataset:" + p.task.GetDataset())
	if a.o.Peers == nil || p.task.GetDataset() == "" || err != nil {
		return
	}
	a.swarms.mu.Lock()
	defer a.swarms.mu.Unlock()
	if o := a.swarms.orders[swarmID(l.Digest, p.task.GetOwner().GetUid())]; o != nil {
		p.job.Swarm, p.job.Self, p.job.Authorities = proto.CloneOf(o), a.o.Name, a.o.Peers.Authorities()
	}
}

// bringing is the process that brings a version here for a swarm; nil is none.
func (a *Agent) bringing(id string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p := range maps.Values(a.procs) {
		if p.lead != nil && idOf(p.job.GetSwarm()) == id {
			return p
		}
	}
	return nil
}

// tree is what this node has of a version. It is a peer.Tree.
type tree struct {
	agent    *Agent
	swarm    string // its id
	uid      uint32 // of the user that may read it
	location string
}

// Published implements peer.Tree. The names come from other nodes: nothing outside of the replica is read.
func (t *tree) Published(p *p2p.Piece, into []byte) error {
	l, err := convert.Locate(t.location)
	tier, known := t.agent.conf().Tiers[l.Tier]
	folder, isReplica := replicadir.At(tier.Path, l.Path)
	if err != nil || !l.InTier() || !known || tier.Path == "" || !isReplica {
		return mover.ErrNotExist
	}
	if passes, err := folder.Passes(t.uid); err != nil || !passes { // root gets in, and the user may not
		return cmp.Or(err, errGate)
	}
	root, err := unix.Open(tier.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(root)
	fd, err := beneath.SameMount.Open(root, l.Path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	r := replica{fd: fd, uid: t.uid}
	for _, s := range p.Segments {
		if err := r.read(s.Name, s.Off, into[:s.Length]); err != nil {
			return err
		}
		into = into[s.Length:]
	}
	return nil
}

// errGate refuses the replica on this node to a user that may read the source, but was not let in here.
var errGate = fmt.Errorf("%w: they were not let in to the replica on this node", mover.ErrPermission)

// Ask implements peer.Tree.
func (t *tree) Ask(ctx context.Context, p *p2p.Piece, atHome bool) ([]byte, error) {
	who := t.agent.bringing(t.swarm)
	if who == nil {
		return nil, mover.ErrNotExist
	}
	return who.want(ctx, p, atHome)
}

// wanted are pieces that a process was asked for.
type wanted struct {
	mu   sync.Mutex
	last uint64
	all  map[uint64]chan<- given // by id; guarded by mu, as last
}

type given struct {
	data []byte
	err  error
}

func (w *wanted) add() (id uint64, answer <-chan given) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil {
		w.all = map[uint64]chan<- given{}
	}
	w.last++
	c := make(chan given, 1)
	w.all[w.last] = c
	return w.last, c
}

// take ends the waiting for a piece; nil when no caller waits for it.
func (w *wanted) take(id uint64) chan<- given {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.all[id]
	delete(w.all, id)
	return c
}

// want asks the process for a piece.
func (p *process) want(ctx context.Context, piece *p2p.Piece, atHome bool) ([]byte, error) {
	id, answer := p.wanted.add()
	defer p.wanted.take(id)
	want := &agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Want{Want: &agentv1.WantPiece{Id: id, Piece: peer.Encode(piece), AtHome: atHome}}}
	select {
	case p.asks <- want: // one that is stopped for a while is not stuck: others only have to do without it
	case <-p.ctx.Done():
		return nil, mover.ErrNotExist
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	select {
	case g := <-answer:
		return g.data, g.err
	case <-p.ctx.Done():
		return nil, mover.ErrNotExist
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Give implements agentv1.WorkerServiceServer.
func (p *process) Give(in agentv1.WorkerService_GiveServer) error {
	first, err := in.Recv()
	if err != nil {
		return err
	}
	if first.GetErrorKind() != "" {
		kind := mover.KindNamed(first.GetErrorKind())
		if kind == nil {
			kind = mover.ErrTransient
		}
		p.answer(first.GetId(), given{err: fmt.Errorf("%w: %s", kind, first.GetError())})
		return in.SendAndClose(&agentv1.GiveAnswer{})
	}
	data := first.GetData()
	for {
		part, err := in.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if data = append(data, part.GetData()...); len(data) > p2p.PieceMost {
			return fmt.Errorf("%w: a piece of more than %d bytes", mover.ErrUsage, p2p.PieceMost)
		}
	}
	if first.GetId() != 0 {
		p.answer(first.GetId(), given{data: data})
		return in.SendAndClose(&agentv1.GiveAnswer{})
	}
	piece, err := peer.Decode(first.GetPiece())
	if err != nil || piece.Bytes() != int64(len(data)) {
		return fmt.Errorf("%w: a piece that is none: %w", mover.ErrUsage, err)
	}
	if peers := p.agent.o.Peers; peers != nil {
		peers.Server.Keep(idOf(p.job.GetSwarm()), piece.Key(), data)
	}
	return in.SendAndClose(&agentv1.GiveAnswer{})
}

func (p *process) answer(id uint64, g given) {
	if c := p.wanted.take(id); c != nil {
		c <- g
	}
}
