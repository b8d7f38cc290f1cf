package agent

import (
	"context"
	"crypto/rand"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/engine/rate"
)

const (
	statusEvery  = time.Second // while something is in work; leases are longer
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
	hurryPause   = 20 * time.Millisecond // what changes together is told together
)

func newInstance() string { return rand.Text() }

// bootID is the kernel's name for this boot.
func bootID() string {
	b, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // without one it differs from nothing
	return strings.TrimSpace(string(b))
}

// attend keeps the conversation with the coordinator until ctx ends.
func (a *Agent) attend(ctx context.Context) {
	for pause := reconnectMin; ctx.Err() == nil; {
		begun := time.Now()
		err := a.converse(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > reconnectMax {
			pause = reconnectMin
		}
		a.log.Warn("the coordinator can not be heard; work goes on", "err", err, "again in", pause)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMax)
	}
}

// converse is one conversation. What it has the agent begin goes on when it ends: the next
// one tells of it.
func (a *Agent) converse(ctx context.Context) error {
	talking, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := a.link.Attend(talking)
	if err != nil {
		return err
	}
	first := a.status(1)
	first.Hello = a.hello()
	if err := stream.Send(first); err != nil {
		_, err = stream.Recv()
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- a.listen(ctx, stream) }()
	return a.speak(stream, first.Hello, ended)
}

func (a *Agent) listen(ctx context.Context, stream agentv1.LinkService_AttendClient) error {
	for {
		o, err := stream.Recv()
		if err != nil {
			return err
		}
		a.order(ctx, o)
	}
}

// speak sends the state now and then, and when something changes. What this agent is, it
// says again when that is another one than was said: after a reload, or when a file system
// was mounted.
func (a *Agent) speak(stream agentv1.LinkService_AttendClient, said *agentv1.Hello, ended <-chan error) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	for seq := uint64(2); ; seq++ {
		select {
		case err := <-ended:
			return err
		case <-tick.C:
		case <-a.changed:
			select { // a moment, so that what changes together is told together
			case err := <-ended:
				return err
			case <-time.After(hurryPause):
			}
		}
		st := a.status(seq)
		if h := a.hello(); !proto.Equal(h, said) {
			st.Hello, said = h, h
		}
		if err := stream.Send(st); err != nil {
			return <-ended
		}
	}
}

// hello is what this agent is.
func (a *Agent) hello() *agentv1.Hello {
	h := &agentv1.Hello{
		Name: a.o.Name, Version: a.o.Version, Boot: a.boot, Instance: a.instance, Root: os.Geteuid() == 0, Uid: uint32(os.Geteuid()),
		Cores: int32(runtime.NumCPU()), Reaches: []*agentv1.Reach{{NodeLocal: false}}, Resolves: true,
	}
	if p := a.o.Peers; p != nil {
		h.PeerPort, h.PeerHost = int32(p.Port), p.Host
	}
	tiers := a.conf().Tiers
	for _, name := range slices.Sorted(maps.Keys(tiers)) {
		if t := tiers[name]; t.S3 != nil || a.pathProbes.at(name, t).there {
			h.Reaches = append(h.Reaches, &agentv1.Reach{Tier: name, NodeLocal: t.NodeLocal})
		}
	}
	return h
}

// status is the state of this moment.
func (a *Agent) status(seq uint64) *agentv1.Status {
	s := &agentv1.Status{Seq: seq, Room: a.room()}
	a.journals.tell(s, seq == 1)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rate.Add(time.Now(), rate.Work{Bytes: a.passed.Load()})
	if s.BytesPerSecond = a.rate.Read().Bytes; len(a.procs) == 0 {
		s.BytesPerSecond, a.rate = 0, rate.Meter{} // no process is left that could move
	}
	leads, batches := 0, 0
	for key, ses := range a.sessions {
		switch {
		case key.batch != "":
			batches++
		case !ses.stays:
			leads++
		}
		s.Sessions = append(s.Sessions, ses.view(key))
	}
	slices.SortFunc(s.Sessions, func(x, y *agentv1.Session) int { return strings.Compare(x.Task+"/"+x.Batch, y.Task+"/"+y.Batch) })
	if s.Leaving = a.leaving; !a.leaving && s.GetFull() == "" {
		s.LeadSlots, s.BatchSlots = int32(max(a.o.LeadSlots-leads, 0)), int32(max(a.batchSlots()-batches, 0))
	}
	return s
}

// batchSlotsMost bounds the batches of an agent.
const batchSlotsMost = 64

// batchSlots is how many batches this agent takes at a time: as many as its helpers
// find good, by what they get done. Agent.mu is held.
func (a *Agent) batchSlots() int {
	wanted := 0
	for _, p := range a.procs {
		wanted += int(p.wants.Load())
	}
	return max(a.o.BatchSlots, min(wanted, batchSlotsMost))
}

// room is how full the tiers with a path are.
func (a *Agent) room() (rooms []*agentv1.Room) {
	for name, t := range a.conf().Tiers {
		if t.S3 != nil {
			continue
		}
		if s := a.pathProbes.at(name, t); s.there && s.total > 0 {
			rooms = append(rooms, &agentv1.Room{Tier: name, TotalBytes: s.total, FreeBytes: s.free, TotalFiles: s.totalFiles, FreeFiles: s.freeFiles, Parts: s.parts})
		}
	}
	return rooms
}

// lacks is told which tiers of the coordinator are not reached here. Of those that the
// configuration of this node has, the log has said why.
func (a *Agent) lacks(tiers []string) {
	conf := a.conf().Tiers
	unknown := slices.DeleteFunc(slices.Clone(tiers), func(name string) bool { _, known := conf[name]; return known })
	if len(unknown) > 0 {
		a.log.Warn("tiers of the coordinator are not in the configuration of this node, which gets no task that needs one; add them to its configuration file",
			"tiers", strings.Join(unknown, " "))
	}
}

// order does what the coordinator says. It must not wait. What it begins ends with ctx.
func (a *Agent) order(ctx context.Context, o *agentv1.Order) {
	switch w := o.GetWhat().(type) {
	case *agentv1.Order_Lead:
		if s := sessionOf(w.Lead); a.add(sessionKey{w.Lead.GetTask().GetId(), ""}, s) { // before the next order is about it
			go a.beginLead(ctx, w.Lead, s)
		}
	case *agentv1.Order_Batch:
		a.part(w.Batch.GetTask(), w.Batch.GetLeadEpoch(), w.Batch.GetBytesPerSecond())
		if s := newSession(w.Batch.GetEpoch()); a.add(sessionKey{w.Batch.GetTask(), w.Batch.GetId()}, s) {
			go a.beginBatch(ctx, w.Batch, s)
		}
	case *agentv1.Order_Stop:
		a.stopSession(w.Stop)
	case *agentv1.Order_Limits:
		a.turns.limit(w.Limits)
	case *agentv1.Order_Crew:
		a.countHelpers(w.Crew)
	case *agentv1.Order_Lend:
		a.queueExport(ctx, w.Lend)
	case *agentv1.Order_Resolve:
		go a.resolve(ctx, w.Resolve)
	case *agentv1.Order_Swarm:
		a.swarmed(w.Swarm)
	case *agentv1.Order_Lacks:
		a.lacks(w.Lacks.GetTiers())
	case *agentv1.Order_Part:
		a.part(w.Part.GetTask(), w.Part.GetLeadEpoch(), w.Part.GetBytesPerSecond())
	}
}
