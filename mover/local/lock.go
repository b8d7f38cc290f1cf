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

// lock takes the lock of the target; p.held ends when it is lost. Where not even a lock has room, it waits as a
// task does that finds no room later.
func (p *pair) lock(ctx context.Context) (err error) {
	for pause := lockPauseMin; ; pause = min(2*pause, lockPauseMax) {
		p.held, p.unlock, err = p.target.Lock(ctx, "", p.owner)
		if !errors.Is(err, mover.ErrFull) || p.request.OnFull == FullFail {
			return err
		}
		if o := p.request.Observer; o != nil {
			o.State(Paused, err.Error())
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
