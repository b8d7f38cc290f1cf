package coordinator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/ratelimit"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/task"
)

// node is an agent. Its fields are guarded by scheduler.mu.
type node struct {
	name    string
	hello   *agentv1.Hello
	orders  chan *agentv1.Order // of the conversation; nil while there is none
	end     context.CancelFunc  // of the conversation
	address string
	seen    time.Time
	joined  time.Time
	leads   int // free slots, as it said last and less what it was given since
	slots   int // free and taken ones together, as it said last
	batches int
	leaving bool
	drain   bool
	room    map[string]*agentv1.Room
	rate    float64
	lingers map[claim]orphanedClaim // of leads that are over
	full    string                  // why it takes nothing

	journals map[string]*agentv1.Journals // by account

	nameless map[uint32]time.Duration // by uid with unknown groups: until when it gets no task of it
}

// ready says whether the node may be given work.
func (n *node) ready() bool { return n.orders != nil && !n.leaving && !n.drain }

// reaches says whether the node can work on what a need says, as a user.
func (n *node) reaches(w placement.Need, owner *pb.Account) bool {
	return n.sees(w) && (n.hello.GetRoot() || n.hello.GetUid() == owner.GetUid())
}

// sees reports whether the agent has what a task needs.
func (n *node) sees(w placement.Need) bool {
	if w.Node != "" && w.Node != n.name || n.hello == nil {
		return false
	}
	for _, tier := range w.Tiers {
		if !slices.ContainsFunc(n.hello.GetReaches(), func(r *agentv1.Reach) bool { return r.GetTier() == tier }) {
			return false
		}
	}
	return true
}

// lead is a task that an agent works on. Its fields are guarded by scheduler.mu.
type lead struct {
	task    *pb.Task // as it is now; changed only through the lead
	need    placement.Need
	epoch   uint64
	agent   string
	since   time.Time         // when it was given
	heard   bool              // the agent has said that it has it
	want    pb.TaskState      // what is wanted of it when the agent has let go; 0 is nothing
	by      string            // why it is in that state then
	batches map[string]*batch // but see resumed
	resumed bool              // it was given before a restart: more batches of it are in the ledger
	closing bool              // how it ends is decided: what it says now does not count

	unstored *pb.Task  // its end, which could not be stored; nil is none
	again    time.Time // when that is tried again

	wanted  int32            // what its crew was last told
	usual   time.Duration    // that its batches take
	proof   taskkind.Result  // of the manifest that it has sent
	sending bool             // it is sending one
	parts   *ratelimit.Parts // of the limit in its options; nil has none
	ticket  string           // for what another node lends it; "" is nothing
	swarm   string           // it is in since before a restart, and has not been heard; "" is none
}

// takeUp makes of the ledger what has to be in memory.
func (s *scheduler) takeUp(ctx context.Context) error {
	return s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Agents.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			a := r.GetAgent()
			s.agents[a.GetName()] = &node{name: a.GetName(), drain: r.GetDraining(), joined: a.GetJoinTime().AsTime(), seen: s.now(), room: map[string]*agentv1.Room{}}
		}
		for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Running}, Oldest: true}) {
			if err != nil {
				return err
			}
			if err := s.takeUpTask(ctx, tx, t); err != nil {
				return err
			}
		}
		for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Paused}, Oldest: true}) {
			if err != nil {
				return err
			}
			if t.GetWhy() != state.HeldBack {
				s.c.paths.unresolved(t)
			}
		}
		return ctx.Err()
	})
}

// termShift is how many bits of a revision are for what happens in one term. What is
// left above is enough for as many terms as a number of JavaScript can tell.
const termShift = 32

func (s *scheduler) takeUpTask(ctx context.Context, tx *state.Tx, t *pb.Task) error {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil { // its tier is not there any more: it waits, and says why
		n = placement.Need{Node: "?"}
	}
	t.Revision = max(t.GetRevision(), s.ledger.Term()<<termShift) // what was told of it before is more than is stored
	l := &lead{task: t, need: n, epoch: t.GetEpoch(), agent: t.GetAgent(), since: s.now(), want: wanted(t), by: wantedBy(t), batches: map[string]*batch{}, resumed: true, swarm: swarmOf(t)}
	s.addLead(l)
	s.c.paths.unresolved(copyOf(t))
	if err := s.takeUpTaken(tx, l); err != nil {
		return err
	}
	s.noteHelpers(l) // those that are stored helped when something else was stored
	if limit := t.GetSpec().GetOptions().GetBytesPerSecond(); limit > 0 {
		l.parts = ratelimit.Unknown(limit, l.since, slices.Collect(maps.Keys(s.agents)), l.working())
	}
	return nil
}

// discoverPage is how many queued tasks are looked at in one view of the ledger, and pageBytes how much of them.
const discoverPage = 1000

// discover finds the lines of the tasks that wait since before the start. There may be
// a million of them, so it runs in the background.
func (s *scheduler) discover(ctx context.Context) {
	for after, more := "", true; more && ctx.Err() == nil; {
		var page []*pb.Task
		more = false
		err := s.ledger.View(func(tx *state.Tx) error {
			bytes := 0
			for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Queued}, After: after, Oldest: true}) {
				if err != nil {
					return err
				}
				page, bytes = append(page, t), bytes+proto.Size(t)
				if more = len(page) == discoverPage || bytes > state.PageBytes; more {
					break
				}
			}
			return nil
		})
		if err != nil {
			s.log.Error("the queued tasks can not be read", "err", err)
			return
		}
		s.mu.Lock()
		for _, t := range page {
			n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
			if err != nil { // its tier is not there any more: it waits, and says why
				n = placement.Need{Node: "?"}
			}
			s.c.paths.unresolved(t)
			s.line(t, n) // the queue asks for its id when it is its turn
			after = t.GetId()
		}
		s.mu.Unlock()
		s.c.hurry()
	}
}

// changed notes that a task in memory is another one now. scheduler.mu is held.
func (s *scheduler) changed(t *pb.Task) {
	t.Revision++
	s.c.watch.tell(t.GetId())
}

// send gives an order to an agent that is there. One that does not read has its
// conversation ended: it begins a new one, and hears what counts then. scheduler.mu is held.
func (s *scheduler) send(agent string, o *agentv1.Order) bool {
	n := s.agents[agent]
	if n == nil || n.orders == nil {
		return false
	}
	o.Lease = durationOf(s.lease)
	select {
	case n.orders <- o:
		return true
	default:
		n.end()
		n.orders = nil
		return false
	}
}

// ended completes a task that is over.
func (s *scheduler) ended(t *pb.Task, to pb.TaskState, kind, text string) {
	t.State, t.EndTime, t.Phase, t.Helpers, t.Agent = to, timestamppb.New(s.now()), "", nil, ""
	t.Error, t.ErrorKind, t.Why = text, kind, cmp.Or(t.Why, "")
	t.ExitCode = exitCode(to, kind, t.GetReport())
	if to == task.Done {
		t.Why = ""
	}
}

func copyOf(t *pb.Task) *pb.Task { return proto.Clone(t).(*pb.Task) }
