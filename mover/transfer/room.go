package transfer

import (
	"context"
	"errors"
	"sync"
	"time"

	"datamove.dev/mover"
)

// room lets calls wait while the target is full.
type room struct {
	fail bool        // do not wait
	tell func(error) // why we wait; nil when we go on

	mu      sync.Mutex
	waiting int // callers that wait; guarded by mu
}

// retry calls do until it ends with something else than ErrFull.
func (r *room) retry(ctx context.Context, do func() error) error {
	err := do()
	if r.fail || !errors.Is(err, mover.ErrFull) {
		return err
	}
	r.enter(err)
	defer r.leave()
	for pause := fullPauseMin; errors.Is(err, mover.ErrFull); pause = min(2*pause, fullPauseMax) {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
		err = do()
	}
	return err
}

// pause waits once, for as long as retry does at most between two tries.
func (r *room) pause(ctx context.Context, why error) error {
	r.enter(why)
	defer r.leave()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(fullPauseMax):
		return nil
	}
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
