package local

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
)

// How long to wait before another try to lock a target that is full.
const (
	lockPauseMin = time.Second
	lockPauseMax = 30 * time.Second
)

// lock takes the lock of the target. Where not even a lock has room, it waits as a
// task does that finds no room later.
func (p *pair) lock(ctx context.Context) (unlock func() error, err error) {
	for pause := lockPauseMin; ; pause = min(2*pause, lockPauseMax) {
		unlock, err = p.target.Lock(ctx, "", p.owner)
		if !errors.Is(err, mover.ErrFull) || p.request.OnFull == FullFail {
			return unlock, err
		}
		if o := p.request.Observer; o != nil {
			o.State(Paused, err.Error())
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
