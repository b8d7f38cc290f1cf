package engine

import (
	"context"
	"iter"
	"log/slog"

	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
)

// planOnly plans, and looks where only a look can tell.
func planOnly(ctx context.Context, r Request, open Opener) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		r.DryRun = true
		if err := r.check(); err != nil {
			yield(plan.Action{}, err)
			return
		}
		t := &run{request: r, open: open, log: slog.New(slog.DiscardHandler)}
		defer t.closePairs()
		if err := t.openPairs(ctx); err != nil {
			yield(plan.Action{}, err)
			return
		}
		before := int64(0)
		for _, p := range t.pairs {
			if root, err := p.roots(ctx); err == nil && root.Op == plan.Update && !yield(root, nil) { // the walks tell of errors
				return
			}
			tight := func(why string) {
				if r.Observer != nil {
					r.Observer.State(Moving, "the run would wait for room: "+why)
				}
			}
			removes, whole := int64(0), true
			for a, err := range p.fit(ctx, p.diff(ctx), before, tight) {
				if err == nil && a.Op == plan.Compare {
					a, err = compare.Resolve(ctx, p.source, p.target, a, p.planOptions(), nil)
				}
				if whole = whole && err == nil; err == nil && a.Op == plan.Remove {
					removes++
				}
				if !yield(a, err) {
					return
				}
			}
			if removes > 0 && whole { // else nothing would be removed anyway
				if err := p.allow(r.MaxDelete, removes); err != nil && !yield(plan.Action{}, err) {
					return
				}
			}
			before = p.need
		}
	}
}
