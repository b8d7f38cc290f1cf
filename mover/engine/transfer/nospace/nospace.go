// Package nospace lets calls wait while a target is full (mover.ErrFull).
//
// A [Room] counts publishes: each one may have brought room, and begins a round in which what has found none tries again. Where a run is not to wait, a call fails
// only when no unit in work can publish anything any more. All methods may be called from many goroutines; nothing is kept beyond the process.
// TestFinishedDraftsMakeRoom of package transfer shows it.
package nospace

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// MaxPause is the longest pause between two tries while the target is full. The first one is minPause, and they double.
const (
	MaxPause = 30 * time.Second
	minPause = time.Second
)

// Room lets calls wait while the target is full. Finished drafts hold room of their own
// and that of what they replace, so they are published before anything waits.
type Room struct {
	Fail  bool         // do not wait
	Tell  func(error)  // why we wait; nil when we go on
	round atomic.Int64 // publishes that may have brought room; changed under mu

	mu      sync.Mutex
	waiting int           // callers that wait; guarded by mu, as all below
	units   int           // in work: they may hold finished drafts
	stalled int           // of them, those that have found no room in this round
	event   chan struct{} // closed at a change of round, units or stalled; nil when nothing waits for one
}

// Seeker is a caller that needs room. The zero value publishes itself, and waits for
// no other.
type Seeker struct {
	Free func(context.Context) error // publishes what is finished; an error ends the run
	Unit bool                        // it is one of those between Begin and End
}

// Retry calls do until it ends with something else than ErrFull.
func (r *Room) Retry(ctx context.Context, s Seeker, do func() error) error {
	round := r.round.Load()
	err := do()
	if !errors.Is(err, mover.ErrFull) {
		return err
	}
	return r.Again(ctx, s, round, err, do)
}

// Again is Retry after a first try that began in a round and has found no room.
func (r *Room) Again(ctx context.Context, s Seeker, round int64, err error, do func() error) error {
	paused := false
	defer func() {
		if paused {
			r.leave()
		}
	}()
	for pause := minPause; errors.Is(err, mover.ErrFull); {
		if stop := s.publish(ctx); stop != nil {
			return stop
		}
		switch {
		case r.round.Load() != round:
		case ctx.Err() != nil:
			return err
		case r.Fail:
			return r.lastTry(ctx, s, round, err, do)
		default:
			if !paused {
				r.enter(err)
				paused = true
			}
			r.await(ctx, pause, func() bool { return r.round.Load() != round })
			pause = min(2*pause, MaxPause)
			if ctx.Err() != nil {
				return err
			}
		}
		round = r.round.Load()
		err = do()
	}
	return err
}

func (s Seeker) publish(ctx context.Context) error {
	if s.Free == nil {
		return nil
	}
	return s.Free(ctx)
}

// lastTry is for a run that is not to wait: it ends only when no unit in work can publish
// anything any more.
func (r *Room) lastTry(ctx context.Context, s Seeker, round int64, err error, do func() error) error {
	if s.Free == nil {
		return err
	}
	if s.Unit {
		r.stall(ctx, round)
		if ctx.Err() != nil {
			return err
		}
	}
	return r.retryOnce(ctx, s, round, do)
}

func (r *Room) retryOnce(ctx context.Context, s Seeker, round int64, do func() error) error {
	if stop := s.publish(ctx); stop != nil {
		return stop
	}
	if r.round.Load() != round {
		return r.Retry(ctx, s, do)
	}
	return do()
}

// stall waits until something is published, or all units in work wait for that.
func (r *Room) stall(ctx context.Context, round int64) {
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
func (r *Room) await(ctx context.Context, most time.Duration, is func() bool) {
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
func (r *Room) changed() {
	if r.event != nil {
		close(r.event)
		r.event = nil
	}
}

// Now is the present round, for Again.
func (r *Room) Now() int64 { return r.round.Load() }

// Short says that something waits for room.
func (r *Room) Short() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting+r.stalled > 0
}

// Begin is called when a unit is in work, and End when its drafts are handed over.
func (r *Room) Begin() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units++
}

// End ends what Begin began.
func (r *Room) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.units--
	r.changed()
}

// Published begins a round: what had found no room tries again.
func (r *Room) Published() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.round.Add(1)
	r.stalled = 0
	r.changed()
}

// Pause waits once, for as long as retry does at most between two tries.
func (r *Room) Pause(ctx context.Context, why error) error {
	r.enter(why)
	defer r.leave()
	round := r.round.Load()
	r.await(ctx, MaxPause, func() bool { return r.round.Load() != round })
	return context.Cause(ctx)
}

func (r *Room) enter(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting++; r.waiting == 1 {
		r.Tell(why)
	}
}

func (r *Room) leave() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting--; r.waiting == 0 {
		r.Tell(nil)
	}
}
