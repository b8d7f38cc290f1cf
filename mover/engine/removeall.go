package engine

import (
	"context"
	"errors"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
)

// removeAll plans the removal of everything below l as a sync with nothing.
func removeAll(ctx context.Context, l location.Location, r Request, open Opener) (Report, error) {
	t := &run{request: r, open: open, log: r.Logger, begun: time.Now(), done: make(chan struct{})}
	t.report.Levels = map[mover.Level]int64{}
	close(t.done)
	t.err = t.clear(t.telling(ctx), l)
	return t.wait()
}

func (t *run) clear(ctx context.Context, l location.Location) (err error) {
	o := OpenOptions{StateDir: t.request.StateDir, Logger: t.request.Logger}
	p := &pair{request: &t.request}
	if _, err := p.makeSpool(); err != nil {
		return err
	}
	open := patiently(t.open)
	target, err := openSource(ctx, l, open, o)
	if err != nil {
		return orNearby(ctx, err, l, open, o)
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	p.gate = transfer.NewGate(target.Capabilities(), target.Capabilities(), t.request.Jobs)
	p.target, p.shelf = p.around(target, false)
	p.source = p.target
	if p.owner, _, err = ownerOf(ctx, p.target, l); err != nil {
		return err
	}
	held, unlock, err := p.target.Lock(ctx, "", p.owner)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	return t.clearLocked(held, p)
}

func (t *run) clearLocked(ctx context.Context, p *pair) error {
	opts := mover.WalkOptions{}
	if t.request.Filter != nil {
		opts.Skip = t.request.Filter.Skip
	}
	nothing := func(func(mover.Entry, error) bool) {}
	actions := p.spare(ctx, plan.Diff(nothing, p.target.Walk(ctx, opts), plan.Options{Delete: true}))
	err := transfer.Run(ctx, p.source, p.target, t.count(actions, true), transfer.Options{
		By: p.owner, Gate: p.gate, Observer: &watch{task: t, pair: p}, Counters: &t.counters, SpoolDir: p.spoolDir,
		Allow: func(n int64) error { return p.within(t.request.MaxDelete, n) },
	})
	if err == nil && p.shelf != nil && opts.Skip == nil && t.report.Failed == 0 {
		err = p.shelf.RemoveManifest(ctx)
	}
	return err
}
