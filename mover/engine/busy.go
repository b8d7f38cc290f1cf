package engine

import (
	"context"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
)

// patiently is open, tried again as all later calls are.
func patiently(open Opener) Opener {
	return func(ctx context.Context, l location.Location, o OpenOptions) (place mover.Backend, err error) {
		err = retry.Opening(ctx, retry.Options{Logger: o.Logger}, l.String(), func() (err error) { place, err = open(ctx, l, o); return err })
		return place, err
	}
}

// looking puts around a place that is only looked at what a copy would have around it.
func looking(place mover.Backend) mover.Backend {
	p := &pair{request: &Request{}, gate: transfer.NewGate(place.Capabilities(), place.Capabilities(), 0)}
	place, _ = p.around(place, true)
	return place
}

// withObserver returns a context under which the observer of a run hears of what it waits for.
func (t *run) telling(ctx context.Context) context.Context {
	if t.request.Observer == nil {
		return ctx
	}
	return withObserver(ctx, t.request.Observer, func() Phase {
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.phase
	})
}

// WithObserver returns a context under which an observer hears of what calls of this package wait for. A task tells its own.
func WithObserver(ctx context.Context, o Observer) context.Context {
	return withObserver(ctx, o, func() Phase { return Moving })
}

// withObserver tells an observer of waits, and at their end of the phase that is now.
func withObserver(ctx context.Context, o Observer, now func() Phase) context.Context {
	r, retries := o.(RetryObserver)
	return retry.WithNotice(ctx, func(w *retry.Wait) {
		if retries {
			r.Retries(w)
		}
		if w == nil {
			o.State(now(), "")
			return
		}
		o.State(Waiting, w.String())
	})
}
