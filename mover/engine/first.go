package engine

import (
	"context"
	"errors"
	"iter"

	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
)

// removesFirst is the way out where a sync needs the room that it will free itself.
const removesFirst = "sync --delete-before removes it first"

// errNotFirst is why nothing is removed first: the run itself tells what was wrong, and removes nothing for it.
var errNotFirst = errors.New("what is to go first can not be known")

// removeFirst removes what the source does not have before anything is written, where that was asked for. As at the end it needs a whole walk
// of both sides, and the limits hold.
func (t *run) removeFirst(ctx context.Context, p *pair, w *watch) error {
	if !t.request.DeleteFirst {
		return nil
	}
	whole := true
	o := p.transferOptions(t, w)
	o = transfer.Options{By: o.By, Gate: o.Gate, Observer: w, Counters: o.Counters, SpoolDir: o.SpoolDir, Logger: o.Logger, ConfirmLease: o.ConfirmLease, AcquireSlot: o.AcquireSlot,
		Allow: func(n int64) error {
			if !whole || p.allow(t.request.MaxDelete, n) != nil {
				return errNotFirst
			}
			return nil
		}}
	err := transfer.Run(ctx, p.source, p.target, removals(p.diff(ctx), &whole), o)
	if errors.Is(err, errNotFirst) {
		err = nil
	}
	p.sourceEntries.Store(0) // they are counted anew
	p.targetEntries.Store(0)
	return err
}

// removals are those of a plan. whole becomes false when something of it is not known.
func removals(actions iter.Seq2[plan.Action, error], whole *bool) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for a, err := range actions {
			if err != nil {
				*whole = *whole && a.Source.Key != ""
				continue
			}
			if a.Op == plan.Remove && !yield(a, nil) {
				return
			}
		}
	}
}
