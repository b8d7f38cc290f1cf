package fairshare

import (
	"container/list"
	"context"
	"fmt"
	"sync"
	"time"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Options say how a scheduler shares. The zero value works.
type Options struct {
	Slots      int   // turns that run at once, of flows that do not say how many fill the node; 0 means 8
	OpBytes    int64 // bytes that one operation counts for; 0 means 64 KiB
	MaxWaiting int   // turns that may wait, of all flows together; 0 means 65,536
	Weights    Weights
}

func (o Options) withDefaults() Options {
	if o.Slots <= 0 {
		o.Slots = 8
	}
	if o.OpBytes <= 0 {
		o.OpBytes = 64 << 10
	}
	o.OpBytes = min(o.OpBytes, 1<<30)
	if o.MaxWaiting <= 0 {
		o.MaxWaiting = 1 << 16
	}
	return o
}

// remembered is how many groups are kept that want nothing now: for what they owe,
// and for their figures.
const remembered = 4096

// Scheduler gives turns to flows by deficit round robin: among classes by weight, in
// a class among projects by weight, in a project among users alike, in a user among
// tasks alike. A unit of weight earns OpBytes in a round.
//
// No slot stays free while a turn waits of a flow that may begin one, and no turn that
// runs is interrupted: a flow that arrives when all slots are taken gets its share as
// turns end. A turn that takes very long for its price waits for something else than this
// node, and what it took of the slots is for others meanwhile.
//
// A group that may begin a turn has it after at most price/quantum + 1 rounds,
// whatever the others do, and the rounds for what it owes, which is never more than
// 16 GiB. To get all of its share, a flow needs a turn that waits whenever one of its own
// ends; one that comes a moment too late makes up for it with the next.
type Scheduler struct {
	opBytes    int64
	maxWaiting int

	mu      sync.Mutex // guards all below, and every group
	slots   int
	taken   int64   // of the slots, in parts of slotParts each
	pace    float64 // price per second that a turn has usually; 0 is not known yet
	weights Weights
	root    *group
	classes map[datamovev1.TaskClass]*group
	tasks   map[Flow]*group
	idle    list.List // of *group: nothing is wanted, longest first; members before their parent
}

// turn is one that waits or runs.
type turn struct {
	task   *group
	price  int64         // that was charged, or will be
	since  time.Time     // when it began to wait; zero did not
	queued *list.Element // in the task's queue, while it waits
	ready  chan struct{} // closed when its wait is over; nil did not wait
	fill   int           // turns like it that would take all slots; 0 takes one
	began  time.Time     // to run
	room   int64         // of the slots that it takes, while it does
	slow   *time.Timer   // takes its room away
	over   bool
}

// NewScheduler returns a scheduler.
func NewScheduler(o Options) *Scheduler {
	o = o.withDefaults()
	s := &Scheduler{opBytes: o.OpBytes, maxWaiting: o.MaxWaiting, slots: o.Slots, weights: o.Weights,
		root: newGroup(nil, "", 0), classes: map[datamovev1.TaskClass]*group{}, tasks: map[Flow]*group{}}
	for c := range classWeights {
		s.classes[c] = s.root.member(c.String(), s.opBytes*s.weights.class(c))
	}
	return s
}

// Acquire waits until it is the flow's turn and there is room for it. The expected cost
// is charged at once; release ends the turn, frees its room and corrects the charge by
// what the turn really took. Only the first call of release counts. Without a turn there
// is no release to call: ctx ended, or too many wait already ([mover.ErrRefused]).
func (s *Scheduler) Acquire(ctx context.Context, f Flow, expected Cost, w Width) (release func(actual Cost), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	t, err := s.join(f, expected, w)
	if err != nil {
		return nil, err
	}
	if t.ready != nil {
		select {
		case <-t.ready:
		case <-ctx.Done():
			s.giveUp(t)
			return nil, context.Cause(ctx)
		}
	}
	return func(actual Cost) { s.end(t, actual) }, nil
}

// SetSlots changes how many turns run at once, 1 at least. Turns that run go on.
func (s *Scheduler) SetSlots(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.slots = max(n, 1)
	s.admit()
}

// SetWeights changes all weights from now on.
func (s *Scheduler) SetWeights(w Weights) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.weights = w
	for c, class := range s.classes {
		for name, project := range class.members {
			project.reweigh(s.opBytes * w.project(name))
		}
		class.reweigh(s.opBytes * w.class(c))
	}
}

// join begins the wait for a turn, which may be over at once.
func (s *Scheduler) join(f Flow, expected Cost, w Width) (*turn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.root.use.Waiting >= s.maxWaiting {
		return nil, fmt.Errorf("turn for task %s: %d turns wait already on this node: %w; let fewer wait at once",
			mover.Printable(f.Task), s.root.use.Waiting, mover.ErrRefused)
	}
	t := &turn{task: s.task(f), price: expected.price(s.opBytes), fill: w.Fill}
	t.task.most = w.Most
	t.task.push(t)
	s.admit()
	if t.queued != nil {
		t.since, t.ready = time.Now(), make(chan struct{})
	}
	return t, nil
}

// task returns the group of a flow, ready to be used.
func (s *Scheduler) task(f Flow) *group {
	if _, known := s.classes[f.Class]; !known {
		f.Class = datamovev1.TaskClass_TASK_CLASS_REPLICATE
	}
	p := s.tasks[f]
	if p == nil {
		project := s.classes[f.Class].member(f.Project, s.opBytes*s.weights.project(f.Project))
		p = project.member(f.User, s.opBytes).member(f.Task, s.opBytes)
		p.flow = f
		s.tasks[f] = p
	}
	for q := range p.path() {
		if q.rest != nil {
			s.idle.Remove(q.rest)
			q.rest = nil
		}
	}
	return p
}

// admit starts turns while slots are free.
func (s *Scheduler) admit() {
	for s.taken < int64(s.slots)*slotParts && s.root.ready() {
		t := s.root.take()
		s.begin(t)
		if t.ready != nil {
			t.waited()
			close(t.ready)
		}
	}
}

// waited counts a wait that is over.
func (t *turn) waited() {
	d := time.Since(t.since)
	for p := range t.task.path() {
		p.use.Waited += d
	}
}

// giveUp ends the wait of a caller that has gone, or the turn that came meanwhile.
func (s *Scheduler) giveUp(t *turn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.queued != nil {
		t.waited()
		t.task.drop(t)
	} else {
		t.over = true
		s.vacate(t)
		t.task.finish(t.price)
	}
	s.admit()
	s.settle(t.task)
}

// end ends a turn that ran.
func (s *Scheduler) end(t *turn, actual Cost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.over {
		return
	}
	t.over = true
	price := actual.price(s.opBytes)
	for p := range t.task.path() {
		p.use.count(actual, price)
	}
	s.vacate(t)
	s.learn(price, time.Since(t.began))
	t.task.finish(t.price - price)
	s.admit()
	s.settle(t.task)
}

// settle notes which groups on the way up want nothing any more, and forgets those
// that have wanted nothing for longest when they are too many. Classes stay.
func (s *Scheduler) settle(p *group) {
	for ; p != nil && !p.busy(); p = p.parent {
		p.lulls++
		if p.parent != nil && p.parent != s.root {
			p.rest = s.idle.PushBack(p)
		}
	}
	for s.idle.Len() > remembered {
		p := s.idle.Remove(s.idle.Front()).(*group)
		delete(p.parent.members, p.key)
		delete(s.tasks, p.flow) // of others than tasks it is empty, which no task has
	}
}
