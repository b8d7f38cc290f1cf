package engine

import (
	"context"
	"errors"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer/nospace"
)

// aheadAfter is how long a sync waits for room before it looks at what of its plan is not known yet: it takes two more walks.
const aheadAfter = 30 * time.Second

// ahead ends a sync that waits for what only its own end would remove. Its plan waits with the copies, so it is made a second time, and nothing of it is kept.
type ahead struct {
	pair *pair
	stop context.CancelCauseFunc // ends the run
	work sync.WaitGroup

	mu     sync.Mutex
	timer  *time.Timer        // of the look that comes next, guarded by mu, as all below; nil is none
	cancel context.CancelFunc // of it
	known  bool               // a look has come to its end, and found nothing to end the run for
}

// waits begins a look, if the run still waits then.
func (a *ahead) waits(ctx context.Context) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.known || a.timer != nil {
		return
	}
	ctx, a.cancel = context.WithCancel(ctx)
	a.work.Add(1)
	a.timer = time.AfterFunc(aheadAfter, func() {
		defer a.work.Done()
		a.look(ctx)
	})
}

// goesOn ends the look: there is room again.
func (a *ahead) goesOn() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer == nil {
		return
	}
	if a.timer.Stop() {
		a.work.Done()
	}
	a.cancel()
	a.timer = nil
	a.pair.grown.Store(true)
}

// end ends the look, and returns when none is at work.
func (a *ahead) end() {
	a.goesOn()
	a.work.Wait()
}

func (a *ahead) look(ctx context.Context) {
	err := a.pair.futile(ctx)
	if _, tells := mover.As[mover.RoomTeller](a.pair.target); err != nil && !tells {
		select {
		case <-time.After(2 * nospace.MaxPause): // it has refused once more by then, or taken what waits
		case <-ctx.Done():
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if ctx.Err() != nil { // there was room meanwhile
		return
	}
	if a.known = true; err != nil {
		a.stop(err)
	}
}

// futile is an error when the target lacks room for what is still to be copied, and has it when all is removed that the source does not have.
// A target that does not say how much room it has, as a bucket with a quota, is taken to have none: that is why the run waits. Where less
// is removed than is to be copied, it may have room for the rest, and the run goes on waiting.
func (p *pair) futile(ctx context.Context) error {
	room, known := p.room(ctx)
	if _, tells := mover.As[mover.RoomTeller](p.target); !known && tells {
		return nil
	}
	if !known {
		room = mover.Room{Why: "the store says that it is full"}
	}
	var from, to mover.WalkOptions
	if f := p.request.Filter; f != nil {
		from.Skip, to.Skip = f.Skip, f.Skip
	}
	var f fitting
	for a, err := range plan.Diff(p.source.Walk(ctx, from), p.target.Walk(ctx, to), p.planOptions()) {
		if err != nil && a.Source.Key == "" {
			return nil // nothing will be removed
		}
		if err == nil {
			f.add(&a)
		}
	}
	if why := f.lacks(room); why != "" && f.removes(room) {
		return p.full(why)
	}
	return nil
}

// waitsForRoom says whether a run waits for room that its own removals may bring.
func waitsForRoom(why error, r *Request) bool {
	return errors.Is(why, mover.ErrFull) && r.Delete && !r.DeleteFirst
}
