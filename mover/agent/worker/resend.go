package worker

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

// How long it is between two tries to have something stored. Where there is no room, it is
// longer each time: all of it has to be sent again.
const (
	resendPause     = 200 * time.Millisecond
	resendPauseMost = 30 * time.Second
)

// Resend calls send until the coordinator takes or refuses what it sends, a manifest or a catalog. It waits for a
// coordinator with a full disk, as for one that is away. A send begins anew each time.
func (j *Job) Resend(ctx context.Context, what string, send func(context.Context) error) error {
	for pause := resendPause; ; {
		err := send(ctx)
		switch {
		case errors.Is(err, mover.ErrFull):
			j.State(engine.Waiting, "the coordinator has no room for the "+what+": "+err.Error())
			pause = min(2*pause, resendPauseMost)
		case errors.Is(err, mover.ErrUnreachable), errors.Is(err, mover.ErrTransient):
			pause = resendPause
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause):
		}
	}
}
