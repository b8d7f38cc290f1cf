package engine

import (
	"context"
	"errors"
	"slices"
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
		if p.overtakes(ctx, err) {
			p.held, p.unlock, err = p.target.Lock(ctx, "", p.owner)
		}
		if !errors.Is(err, mover.ErrFull) || p.request.OnNoSpace == NoSpaceFail {
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

// overtakes takes the lock from an earlier lead of this very task, or of another task of the same service, which is over even
// if its process is not: it may not publish any more.
func (p *pair) overtakes(ctx context.Context, err error) bool {
	var held *mover.HeldError
	if !errors.As(err, &held) || held.By.Task != p.owner.Task {
		return false
	}
	lead := p.lead()
	if !slices.Contains(lead.Before, held.By.Epoch) {
		if lead.IsOver == nil || !lead.IsOver(ctx, held.By.Epoch) {
			return false
		}
		p.overtook = true
	}
	b, ok := mover.As[mover.LockBreaker](p.target)
	return ok && b.BreakLock(ctx, "", held.By) == nil
}
