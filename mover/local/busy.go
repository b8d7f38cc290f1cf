package local

import (
	"context"
	"errors"
	"log/slog"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/retry"
)

// patiently is open, tried again while a store is busy. One that can not be reached
// is told at once: the address may be wrong.
func patiently(open Opener) Opener {
	return func(ctx context.Context, l location.Location, o OpenOptions) (place mover.Place, err error) {
		err = whileBusy(ctx, o.Logger, "open", l.String(), func() (err error) { place, err = open(ctx, l, o); return err })
		return place, err
	}
}

// whileBusy makes a call, again and again while it fails for a passing reason.
func whileBusy(ctx context.Context, log *slog.Logger, op, name string, call func() error) error {
	var last error
	err := retry.Do(ctx, retry.Options{Logger: log}, op, name, func() error {
		if last = call(); errors.Is(last, mover.ErrTransient) {
			return last
		}
		return nil
	})
	if err == nil {
		err = last
	}
	return err
}
