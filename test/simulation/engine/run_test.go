package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/retry"
)

var (
	errStopped = errors.New("stopped by a person")
	errDied    = errors.New("died")
)

// running is one run of the command: its process, and what it said.
type running struct {
	world  *world
	number uint64
	told   told
	died   atomic.Bool
	stop   context.CancelCauseFunc
	from   *faulty.Backend
	to     *faulty.Backend
	calls  atomic.Int64
	err    error // how it ended

	linksLost int64 // hard links that it told of as files of their own
}

// play runs the same command in worse weather and then in fair one, and checks
// each run and the end.
func (w *world) play(run func(*world, context.Context, *running)) {
	for n := range uint64(w.rng.IntN(4)) {
		w.run(n, w.storm(n), run)
		if w.t.Failed() {
			return
		}
		time.Sleep(time.Minute)
	}
	w.changed.Store(false)
	last := w.run(99, weather{patience: time.Hour}, run)
	if last.err != nil || last.told.failures() > 0 {
		w.t.Errorf("nothing went wrong any more, and the run ended with %v and %d failures", last.err, last.told.failures())
	}
	if w.ended(); w.t.Failed() {
		last.story()
		return
	}
	if !w.targetOptions.ObjectStore && !w.t.Failed() {
		time.Sleep(time.Minute)
		again := w.run(100, weather{patience: time.Hour}, run)
		again.idle()
	}
}

func (w *world) run(number uint64, x weather, run func(*world, context.Context, *running)) *running {
	ctx, stop := context.WithCancelCause(context.Background())
	defer stop(nil)
	defer time.AfterFunc(x.patience, func() { stop(errStopped) }).Stop()
	r := &running{world: w, number: number, stop: stop}
	x.source.Script = func(c faulty.Call) faulty.Fault {
		dice := rand.New(rand.NewPCG(x.source.Seed, uint64(len(c.Name))<<40^uint64(c.Off)<<8^uint64(c.Nth)<<1^1))
		if x.mutates > 0 && (c.Op == faulty.Open || c.Op == faulty.Read || c.Op == faulty.Check) && dice.Float64() < x.mutates {
			w.mutate(c.Name, dice)
		}
		return faulty.None
	}
	x.target.Script = func(faulty.Call) faulty.Fault {
		if r.calls.Add(1) == x.stopAt {
			stop(errStopped)
		}
		return faulty.None
	}
	r.places(x)
	run(w, ctx, r)
	r.check()
	if w.orphans(r); w.t.Failed() {
		r.story()
	}
	return r
}

// orphans notes the uploads whose beginning was not answered: nobody knows of them,
// and buckets have rules to end such.
func (w *world) orphans(r *running) {
	for _, i := range r.to.Injected() {
		if w.targetOptions.ObjectStore && i.Op == faulty.Draft && i.Fault == faulty.Lost {
			w.orphaned[i.Name] = true
		}
	}
}

// places opens the two places of a process.
func (r *running) places(x weather) {
	w := r.world
	inner := &watched{Backend: mem.New(w.target, w.targetOptions), t: w.t, world: w, told: &r.told, removes: w.delete, died: func() {
		r.died.Store(true)
		r.stop(errDied)
	}}
	r.from = faulty.New(mem.New(w.source, w.sourceOptions), x.source)
	if w.targetOptions.ObjectStore {
		r.to = faulty.New(&shelved{watched: inner}, x.target)
	} else {
		r.to = faulty.New(inner, x.target)
	}
}

func (r *running) patient() (from, to mover.Backend) {
	return retry.New(r.from, retry.Options{}), retry.New(r.to, retry.Options{})
}

// dead says that the process is gone, and nobody hears it any more.
func (r *running) dead() bool { return r.died.Load() }

// result is what a run said of one action.
type result struct {
	name  string
	kind  mover.Kind
	size  int64
	moved bool // a file's content
	err   error
}

// told remembers what a run says.
type told struct {
	mu     sync.Mutex
	all    []result // guarded by mu, as all below
	failed []string
	doubt  bool // something failed that was no removal
}

func (t *told) add(r result, removal bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.all = append(t.all, r)
	if r.err != nil {
		t.failed = append(t.failed, r.name+": "+r.err.Error())
		t.doubt = t.doubt || !removal
	}
}

func (t *told) doubts() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.doubt
}

func (t *told) failures() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failed)
}
