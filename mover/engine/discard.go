package engine

import (
	"context"
	"errors"
	"log/slog"
)

// Discard drops what an interrupted run of this request has left on this host, so that
// nothing of it goes on. What is published stays. It needs the lock of the target.
func Discard(ctx context.Context, r Request, open Opener) error { return discard(ctx, r, open) }

// Abandon is Discard for a run that has lost its lock to another run. It touches only the
// run's own drafts. No other run resumes them: they are in the journal of this host.
func Abandon(ctx context.Context, r Request, open Opener) error {
	r.DryRun = true // takes no lock
	return discard(ctx, r, open)
}

func discard(ctx context.Context, r Request, open Opener) error {
	t := &run{request: r, open: open, log: slog.New(slog.DiscardHandler)}
	defer t.closePairs()
	if err := t.openPairs(ctx); err != nil {
		return err
	}
	var errs []error
	for _, p := range t.pairs {
		errs = append(errs, p.discard(ctx))
	}
	return errors.Join(errs...)
}

func (p *pair) discard(ctx context.Context) error {
	if err := p.openJournal(ctx); err != nil {
		return err
	}
	if err := p.dropLeft(ctx); err != nil {
		return err
	}
	p.spent = true
	return nil
}
