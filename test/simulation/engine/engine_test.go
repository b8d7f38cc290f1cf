package engine

import (
	"context"
	"iter"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// engineRun is a run of plan and transfer alone. It is the observer.
type engineRun struct {
	*running
	n transfer.Counters

	mu      sync.Mutex
	drawn   int64         // actions that left the plan; guarded by mu, as all below
	told    map[int64]int // results by place in the plan
	files   int64         // contents moved
	bytes   int64
	waiting int // actions on files in hand
	most    int // of waiting
}

// runEngine is one run: lock, drop strays, walk, plan, transfer.
func (w *world) runEngine(ctx context.Context, r *running) {
	from, to := r.patient()
	defer from.Close()
	defer to.Close()
	e := &engineRun{running: r, told: map[int64]int{}}
	by := mover.WriterID{Task: "sim", Epoch: r.number + 1}
	_, unlock, err := to.Lock(ctx, "", by)
	if r.err = err; err != nil {
		return
	}
	o := plan.Options{Delete: w.delete, CompareBy: w.compareBy, Keeps: true, Both: w.targetOptions.ObjectStore, TargetKeeps: to.Capabilities().Keeps, Times: to.Capabilities().Times}
	strays := mover.WalkOptions{Stray: func(s mover.Stray) {
		if s.Owner.Epoch != by.Epoch {
			_ = to.Drop(ctx, s.Token) // if not, a later run does
		}
	}}
	actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, strays), o)
	r.err = transfer.Run(ctx, from, to, e.drawing(actions), transfer.Options{
		By: by, Jobs: w.jobs, Plan: o, Level: w.level, Observer: e, Counters: &e.n, FailFull: w.failFull, SpoolDir: "/dev/shm",
	})
	_ = unlock()
	r.linksLost = e.n.LinksLost.Load()
	if !r.dead() {
		e.exact(to.Capabilities())
	}
}

// drawing counts the actions as the transfer takes them.
func (e *engineRun) drawing(actions iter.Seq2[plan.Action, error]) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if err == nil {
				e.draw(&a)
			}
			if !yield(a, err) {
				return
			}
		}
	}
}

func (e *engineRun) draw(a *plan.Action) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.drawn++
	if inHand(a.Op, a.Source.Kind, a.Target.Kind) {
		e.waiting++
		e.most = max(e.most, e.waiting)
	}
}

// inHand says whether an action waits in memory, not in a spool or for nothing.
func inHand(op plan.Op, source, target mover.Kind) bool {
	return (op == plan.Create || op == plan.Replace) && source == mover.File && target != mover.Dir
}

// Result implements transfer.Observer.
func (e *engineRun) Result(res transfer.Result) {
	moved := res.Err == nil && res.Entry.Kind == mover.File && (res.Op == plan.Create || res.Op == plan.Replace)
	e.running.told.add(result{res.Entry.Name, res.Entry.Kind, res.Entry.Size, moved, res.Err}, res.Op == plan.Remove)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.told[res.Seq]++
	if inHand(res.Op, res.Entry.Kind, 0) {
		e.waiting--
	}
	if moved {
		e.files++
		e.bytes += res.Entry.Size
	}
	if res.Err != nil && res.Entry.Name == "" && res.Seq != 0 {
		e.world.t.Errorf("a failure without a name: %+v", res)
	}
}

// Paused implements transfer.Observer.
func (e *engineRun) Paused(error) {}

// Step implements transfer.Observer.
func (e *engineRun) Step(string) {}

// exact checks that each action had one result, that the counters agree, and that
// no more was in hand than the queue, the workers and the cutter may hold.
func (e *engineRun) exact(to mover.Capabilities) {
	t := e.world.t
	for seq, n := range e.told {
		if seq >= 0 && n > 1 {
			t.Errorf("run %d: action %d has %d results", e.number, seq, n)
		}
		if seq > e.drawn {
			t.Errorf("run %d: a result of action %d, and there were only %d", e.number, seq, e.drawn)
		}
	}
	for seq := range e.drawn + 1 {
		if e.err == nil && e.told[seq] == 0 {
			t.Errorf("run %d: action %d has no result", e.number, seq)
		}
	}
	if got := e.n.InFlight.Load(); got != 0 {
		t.Errorf("run %d: %d units are in flight after the end", e.number, got)
	}
	if got := e.n.Failed.Load(); got != int64(e.running.told.failures()) {
		t.Errorf("run %d: counted %d failures, told %d", e.number, got, e.running.told.failures())
	}
	looks := e.n.Looks.Load() // their bytes count, too
	if e.err == nil && (e.n.Files.Load()-looks != e.files || looks == 0 && e.n.Bytes.Load() != e.bytes) {
		t.Errorf("run %d: counted %d files of %d bytes, told %d of %d", e.number, e.n.Files.Load(), e.n.Bytes.Load(), e.files, e.bytes)
	}
	if most := e.bound(to); to.CommitBytes == 0 && e.most > most {
		t.Errorf("run %d: %d files were in hand, at most %d should be", e.number, e.most, most)
	}
}

// bound is how many files may be in hand: of the queue, the workers, and the batch
// that is being cut.
func (e *engineRun) bound(to mover.Capabilities) int {
	from := e.world.sourceParallel()
	first, most := max(from.Parallel, to.Parallel), max(from.MaxParallel, to.MaxParallel)
	if e.world.jobs > 0 {
		first, most = e.world.jobs, e.world.jobs
	}
	return (2*first + most + 1) * (2*to.BatchFiles + 1)
}
