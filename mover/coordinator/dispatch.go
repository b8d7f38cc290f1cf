package coordinator

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/queue"
	"datamove.dev/mover/coordinator/ratelimit"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskorder"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
	"datamove.dev/mover/task/convert"
)

// scheduler gives queued tasks and batches to agents, and takes them back.
type scheduler struct {
	*core
	c *Service

	queue *queue.Queue
	order *taskorder.Order
	kick  chan struct{} // there may be something to give out

	mu     sync.Mutex
	agents map[string]*node            // by name; guarded by mu, as all below
	leads  map[string]*lead            // by task; changed by addLead and dropLead
	slots  usedSlots                   // of agents, by leads
	swarms map[string]*tracked         // by swarmID
	flows  map[string]*taskQueue       // of queued tasks
	left   map[string]*ratelimit.Parts // by task without a lead, while processes of the last one may read

	limits   []limit // of limitsOf
	limitsOf *config.Config
	limited  bool // agents were told of limits or weights
}

// dispatch gives out what there is. It runs in one goroutine.
func (s *scheduler) dispatch(ctx context.Context) {
	s.expire(ctx)
	s.c.paths.learnReal(ctx)
	s.giveLeads(ctx)
	s.giveBatches(ctx)
	s.steal()
	s.sendHelpers()
	s.tendSwarms()
}

// giveLeads gives queued tasks to agents, a flow at a time in fair order, until no
// agent has a slot or no flow has a task that an agent can take.
func (s *scheduler) giveLeads(ctx context.Context) {
	for again := true; again && ctx.Err() == nil; {
		again = false
		s.mu.Lock()
		flows := s.fair()
		s.mu.Unlock()
		for _, f := range flows {
			if s.giveOne(ctx, f) {
				again = true
				break // the order of the flows has changed
			}
		}
	}
}

// looksMost is how many tasks of a flow are looked at for one that may begin.
const looksMost = 64

// giveOne gives the first task of a flow that may begin to an agent, or finds that one
// does not wait any more.
func (s *scheduler) giveOne(ctx context.Context, f *taskQueue) bool {
	s.mu.Lock()
	agent := s.pick(f.need, f.account, f.class)
	s.mu.Unlock()
	if agent == "" {
		return false
	}
	for range looksMost {
		c, ok, err := s.queue.Take(ctx, f.name)
		if s.reads(ctx, f, err); err != nil {
			return false
		}
		if !ok {
			f.blocked = 0
			s.forget(ctx, f)
			return false
		}
		wait, err := s.giveLead(ctx, c.ID(), f, agent)
		if err != nil && !errors.Is(err, mover.ErrNotExist) {
			s.log.Warn("a task can not be given out", "task", c.ID(), "err", err)
			_ = c.Back(time.Second)
			return false
		}
		if wait == 0 {
			_ = c.Done()
			return true
		}
		_ = c.Back(wait)
	}
	return false
}

// reads notes why the line of a flow can not be read, for people that ask for its tasks, and that it can again. It is tried again in each round.
func (s *scheduler) reads(ctx context.Context, f *taskQueue, err error) {
	if ctx.Err() != nil {
		return // we end
	}
	s.mu.Lock()
	was := f.unread
	f.unread = err
	s.mu.Unlock()
	about := []any{"class", f.class, "project", f.project, "owner", f.owner}
	switch {
	case err != nil && was == nil:
		s.log.Error("tasks of a line wait: the queue can not be read; it is tried again until it can", append(about, "err", err)...)
	case err == nil && was != nil:
		s.log.Info("the queue can be read again: tasks of the line go on", about...)
	}
}

// forget drops a flow that has no task. One that comes just then is in the ledger.
func (s *scheduler) forget(ctx context.Context, f *taskQueue) {
	if ids, err := s.queued(ctx, f, "", 1); err != nil || len(ids) > 0 {
		return
	}
	s.mu.Lock()
	delete(s.flows, f.name)
	s.mu.Unlock()
	s.queue.Drop(f.name)
	if ids, err := s.queued(ctx, f, "", 1); err != nil || len(ids) > 0 {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.flows[f.name] == nil {
			s.flows[f.name] = f
		}
		s.c.hurry()
	}
}

// urgentSlots are kept for urgent classes, beside those of everybody.
const urgentSlots = 4

// pick chooses an agent for a lead: of those that can, one with the most free slots.
// scheduler.mu is held.
func (s *scheduler) pick(n placement.Need, owner *pb.Account, class pb.TaskClass) (name string) {
	most, now := 0, s.clock.Steady()
	for _, a := range s.agents {
		free := a.leads
		if urgent(class) {
			free += urgentSlots
		}
		if a.ready() && free > 0 && a.reaches(n, owner) && a.knows(owner, now) && !s.slotsFull(a, owner) && (free > most || free == most && a.name < name) {
			name, most = a.name, free
		}
	}
	return name
}

// blockedPause is how long a task waits for another one on its target. Those that have
// waited come first, so the more there are in a line the longer each does: the others
// have to be looked at, too.
const blockedPause = time.Second

// blocks says how long a task waits before it may begin to write; 0 is not at all. why is that it never may.
func (s *scheduler) blocks(ctx context.Context, t *pb.Task, f *taskQueue) (wait time.Duration, why error) {
	if wait := s.inTheWay(ctx, t, f); wait > 0 {
		return wait, nil
	}
	return s.c.kindOf(t.GetSpec()).Delay(ctx, t)
}

// inTheWay says how long a task waits for others.
func (s *scheduler) inTheWay(ctx context.Context, t *pb.Task, f *taskQueue) time.Duration {
	if work := t.GetSpec().GetBurst(); convert.ChangesBurst(t.GetSpec()) {
		if other := s.c.BurstTask(work.GetName()); other != "" {
			s.waits(ctx, t, "task "+other+" works on burst "+work.GetName())
			f.blocked++
			return blockedPause * time.Duration(1+f.blocked/looksMost)
		}
	}
	if waits, why := s.c.paths.resolving(t); waits {
		if why != "" {
			s.waits(ctx, t, why)
		}
		time.AfterFunc(lingerPause, s.c.hurry)
		return lingerPause / 2
	}
	other, lingers := s.writer(t, f.need)
	switch {
	case other != "":
		s.waits(ctx, t, other+" writes to the same place")
		f.blocked++
		return blockedPause * time.Duration(1+f.blocked/looksMost)
	case lingers:
		time.AfterFunc(lingerPause, s.c.hurry)
		return lingerPause / 2
	}
	if why := cmp.Or(s.order.Behind(t), s.order.Overtakes(t)); why != "" {
		s.waits(ctx, t, why)
		f.blocked++
		return blockedPause * time.Duration(1+f.blocked/looksMost)
	}
	if why := s.away(t.GetSpec()); why != "" {
		s.waits(ctx, t, why)
		return blockedPause
	}
	s.mu.Lock()
	awaits := s.awaits(swarmOf(t))
	s.mu.Unlock()
	if awaits {
		s.waits(ctx, t, "other nodes stage it since before the coordinator began, and have yet to be heard")
		time.AfterFunc(settling, s.c.hurry)
		return settling / 2
	}
	return 0
}

// giveLead makes an agent the lead of a task, if it still waits. wait says that it is not
// the time yet.
func (s *scheduler) giveLead(ctx context.Context, id string, f *taskQueue, agent string) (wait time.Duration, err error) {
	epoch, err := s.ledger.Epoch(ctx)
	if err != nil {
		return 0, err
	}
	t, err := s.c.Task(id)
	if err != nil {
		return 0, err
	}
	wait, why := s.blocks(ctx, t, f)
	if wait > 0 {
		return wait, nil
	}
	var over, roots []string
	var pieces []*agentv1.Pieces
	var swarm *basis
	err = s.ledger.Update(ctx, beginning(t), func(tx *state.Tx) error {
		if t, err = state.Tasks.Get(tx, id); err != nil {
			return err
		}
		if t.GetState() != task.Queued { // paused or cancelled meanwhile
			return mover.ErrNotExist
		}
		err := why
		if err == nil {
			err = s.c.mayBegin(tx, t)
		}
		if err == nil {
			roots, err = s.c.rootsOf(t.GetSpec())
		}
		if err != nil {
			return s.c.refuse(tx, t, err)
		}
		if over, pieces, err = keptDrafts(tx, id); err != nil {
			return err
		}
		if swarm, err = s.basisOf(tx, t); err != nil {
			return err
		}
		s.begin(t, agent, epoch)
		return state.Tasks.Put(tx, t)
	})
	if err != nil {
		return 0, err
	}
	if task.Ended(t.GetState()) {
		s.c.metrics.countEnd(t)
		s.c.watch.tell(id)
		return 0, nil
	}
	if t.GetTries() == 1 {
		s.o.Metrics.TaskLed(f.class, t.GetStartTime().AsTime().Sub(t.GetCreateTime().AsTime()))
	}
	span := dispatched(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &lead{task: t, need: f.need, epoch: epoch, agent: agent, since: s.now(), batches: map[string]*batch{}}
	if limit := t.GetSpec().GetOptions().GetBytesPerSecond(); limit > 0 {
		l.parts = s.left[id].Begin(limit, agent, l.since)
		delete(s.left, id)
	}
	s.addLead(l)
	f.pass += 1 / float64(weights(s.conf()).Of(f.class, f.project))
	if a := s.agents[agent]; a != nil && !task.Of(t.GetSpec()).Standing {
		a.leads--
	}
	s.c.watch.tell(id)
	s.joinSwarm(l, swarm) // before it begins
	lent := s.exportFrom(l)
	s.send(agent, &agentv1.Order{What: &agentv1.Order_Lead{Lead: &agentv1.Lead{
		Task: copyOf(t), Epoch: epoch, Spec: t.GetSpec(), Over: over, Pieces: pieces, Lease: durationOf(s.lease), Roots: roots,
		TraceParent: span, Expects: s.compares(t), BytesPerSecond: l.parts.Part(agent), Lent: lent,
	}}})
	return 0, nil
}

// epochsMost is how many epochs of earlier leads are remembered.
const epochsMost = 100

// begin puts a task into the hands of an agent.
func (s *scheduler) begin(t *pb.Task, agent string, epoch uint64) {
	_ = task.Move(t, task.Running) // it was queued
	if t.GetEpoch() != 0 {
		t.Epochs = append(t.Epochs, t.GetEpoch())
		t.Epochs = t.Epochs[max(len(t.Epochs)-epochsMost, 0):]
	}
	t.Agent, t.Epoch, t.Phase, t.Why, t.Error = agent, epoch, "starting", "", ""
	t.Tries++
	t.Revision++
	if t.GetStartTime() == nil {
		t.StartTime = timestamppb.New(s.now())
	}
}

// waits notes why a queued task is not given out.
func (s *scheduler) waits(ctx context.Context, t *pb.Task, why string) {
	if t.GetWhy() == why {
		return
	}
	err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		now, err := state.Tasks.Get(tx, t.GetId())
		if err != nil || now.GetState() != task.Queued {
			return err
		}
		now.Why = why
		now.Revision++
		return state.Tasks.Put(tx, now)
	})
	if err != nil {
		s.log.Warn("why a task waits is not stored", "task", t.GetId(), "err", err)
	}
	s.c.watch.tell(t.GetId())
}

// writer names a running task that writes where t would, or says that helpers of one
// that is over linger there.
func (s *scheduler) writer(t *pb.Task, n placement.Need) (name string, linger bool) {
	if !drafts(t.GetSpec()) {
		return "", false
	}
	at := placement.Address(writesTo(t.GetSpec()), n.Node, s.conf())
	all := append(s.order.Addresses(t, t.GetSpec().GetTarget())[1:], at)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leads {
		if drafts(l.task.GetSpec()) && bars(l.task, t, append(s.order.Addresses(l.task, l.task.GetSpec().GetTarget())[1:], s.target(l)), all) {
			return taskorder.ToldAs(l.task, t), false
		}
	}
	return "", s.orphanAt(at, t)
}

// bars says whether a task that writes to some addresses keeps another one from writing to its own. What another account copies or removes
// bars nothing, also not at the same target: it may be slow, and for ever. The lock of the target and the kernel say what one account can do
// beside another. Of replicas one task at a time has to do with a target.
func bars(writer, t *pb.Task, theirs, own []string) bool {
	switch {
	case task.Concerns(writer, t):
		return taskorder.Meet(own, theirs)
	case task.Of(writer.GetSpec()).Changes():
		return false
	}
	return slices.ContainsFunc(own, func(at string) bool { return slices.Contains(theirs, at) })
}

// drafts says whether a task has anything to do at its target but to read.
func drafts(spec *pb.TaskSpec) bool {
	if spec.GetBurst() != nil && !convert.ChangesBurst(spec) {
		return false
	}
	return !task.Of(spec).ReadOnly && spec.GetTarget() != ""
}

// target is where a lead writes.
func (s *scheduler) target(l *lead) string {
	return placement.Address(writesTo(l.task.GetSpec()), l.need.Node, s.conf())
}

// writesTo is where a task writes: of one that brings a checkpoint the directory of that, and not all of the target.
func writesTo(spec *pb.TaskSpec) string {
	work := spec.GetTiering().GetCheckpoint()
	l, err := location.Parse(spec.GetTarget())
	if work == nil || err != nil {
		return spec.GetTarget()
	}
	return l.Child(mover.Join(string(work.GetFolder()), string(work.GetName()))).String()
}

// piecesMost bounds the pieces that a lead is given, which are one message with all else;
// parts beyond it are moved again.
const piecesMost = 8 << 20

// keptDrafts are the drafts that earlier leads of a task kept, and what is stored of
// them.
func keptDrafts(tx *state.Tx, id string) (over []string, stored []*agentv1.Pieces, err error) {
	for d, err := range state.Drafts.All(tx, state.Range{Prefix: []string{id}}) {
		if err != nil {
			return nil, nil, err
		}
		over = append(over, d.GetName())
	}
	room := piecesMost
	for p, err := range state.Pieces.All(tx, state.Range{Prefix: []string{id}}) {
		if err != nil {
			return nil, nil, err
		}
		if room -= len(p.GetData()); room < 0 {
			break
		}
		if n := len(stored); n == 0 || stored[n-1].GetDraft() != p.GetDraft() {
			stored = append(stored, &agentv1.Pieces{Draft: p.GetDraft()})
		}
		last := stored[len(stored)-1]
		last.Pieces = append(last.Pieces, p.GetData())
	}
	return over, stored, nil
}
