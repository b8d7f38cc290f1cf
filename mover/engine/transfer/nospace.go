package transfer

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// room lets calls wait while the target is full. Finished drafts hold room of their own
// and that of what they replace, so they are published before anything waits.
type room struct {
	fail  bool         // do not wait
	tell  func(error)  // why we wait; nil when we go on
	round atomic.Int64 // publishes that may have brought room; changed under mu

	mu      sync.Mutex
	waiting int           // callers that wait; guarded by mu, as all below
	units   int           // in work: they may hold finished drafts
	stalled int           // of them, those that have found no room in this round
	event   chan struct{} // closed at a change of round, units or stalled; nil when nothing waits for one
}

// seeker is a caller that needs room. The zero value publishes itself, and waits for
// no other.
type seeker struct {
	free func(context.Context) error // publishes what is finished; an error ends the run
	unit bool                        // it is one of room.units
}

// retry calls do until it ends with something else than ErrFull.
func (r *room) retry(ctx context.Context, s seeker, do func() error) error {
	round := r.round.Load()
	err := do()
	if !errors.Is(err, mover.ErrFull) {
		return err
	}
	return r.again(ctx, s, round, err, do)
}

// again is retry after a first try that began in a round and has found no room.
func (r *room) again(ctx context.Context, s seeker, round int64, err error, do func() error) error {
	paused := false
	defer func() {
		if paused {
			r.leave()
		}
	}()
	for pause := fullPauseMin; errors.Is(err, mover.ErrFull); {
		if stop := s.publish(ctx); stop != nil {
			return stop
		}
		switch {
		case r.round.Load() != round:
		case ctx.Err() != nil:
			return err
		case r.fail:
			return r.lastTry(ctx, s, round, err, do)
		default:
			if !paused {
				r.enter(err)
				paused = true
			}
			r.await(ctx, pause, func() bool { return r.round.Load() != round })
			pause = min(2*pause, FullPause)
			if ctx.Err() != nil {
				return err
			}
		}
		round = r.round.Load()
		err = do()
	}
	return err
}

func (s seeker) publish(ctx context.Context) error {
	if s.free == nil {
		return nil
	}
	return s.free(ctx)
}

// lastTry is for a run that is not to wait: it ends only when no unit in work can publish
// anything any more.
func (r *room) lastTry(ctx context.Context, s seeker, round int64, err error, do func() error) error {
	if s.free == nil {
		return err
	}
	if s.unit {
		r.stall(ctx, round)
		if ctx.Err() != nil {
			return err
		}
	}
	return r.retryOnce(ctx, s, round, do)
}

func (r *room) retryOnce(ctx context.Context, s seeker, round int64, do func() error) error {
	if stop := s.publish(ctx); stop != nil {
		return stop
	}
	if r.round.Load() != round {
		return r.retry(ctx, s, do)
	}
	return do()
}

// stall waits until something is published, or all units in work wait for that.
func (r *room) stall(ctx context.Context, round int64) {
	r.mu.Lock()
	if r.round.Load() == round {
		r.stalled++
		r.changed()
	}
	r.mu.Unlock()
	r.await(ctx, 0, func() bool { return r.round.Load() != round || r.stalled >= r.units })
}

// await waits until is, which is called under mu, says so, or for as long as most unless
// that is 0.
func (r *room) await(ctx context.Context, most time.Duration, is func() bool) {
	var late <-chan time.Time
	if most > 0 {
		timer := time.NewTimer(most)
		defer timer.Stop()
		late = timer.C
	}
	for {
		r.mu.Lock()
		if is() {
			r.mu.Unlock()
			return
		}
		if r.event == nil {
			r.event = make(chan struct{})
		}
		event := r.event
		r.mu.Unlock()
		select {
		case <-event:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}

// changed wakes what awaits. mu is held.
func (r *room) changed() {
	if r.event != nil {
		close(r.event)
		r.event = nil
	}
}

// short says that something waits for room.
func (r *room) short() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting+r.stalled > 0
}

// begin and end are around the work on a unit, until its drafts are handed over.
func (r *room) begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units++
}

func (r *room) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units--
	r.changed()
}

// published begins a round: what had found no room tries again.
func (r *room) published() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round.Add(1)
	r.stalled = 0
	r.changed()
}

// pause waits once, for as long as retry does at most between two tries.
func (r *room) pause(ctx context.Context, why error) error {
	r.enter(why)
	defer r.leave()
	round := r.round.Load()
	r.await(ctx, FullPause, func() bool { return r.round.Load() != round })
	return context.Cause(ctx)
}

func (r *room) enter(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting++; r.waiting == 1 {
		r.tell(why)
	}
}

func (r *room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.tell(nil)
	}
}
