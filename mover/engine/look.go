package engine

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
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

// list yields the entries of a location, with full names below it.
func list(ctx context.Context, l location.Location, recursive bool, open Opener) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		open := patiently(open)
		place, err := openSource(ctx, l, open, OpenOptions{})
		if err != nil {
			yield(mover.Entry{}, orNearby(ctx, err, l, open, OpenOptions{}))
			return
		}
		defer place.Close()
		place = looking(place)
		opts := mover.WalkOptions{}
		if !recursive {
			opts.Skip = func(name string, kind mover.Kind) bool { return kind != 0 && strings.Contains(name, "/") }
		}
		for e, err := range place.Walk(ctx, opts) {
			if e.Key != "" { // to be seen it needs no name
				if !recursive && strings.Contains(e.Name, "/") {
					continue
				}
				e.Name, err = e.Key, nil
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// What Sample looks at, at most.
const (
	sampleEntries = 2000
	sampleFolders = 16
)

// Visit opens l for a walk of all that is below, as a copy from there does, while do is at it.
func Visit(ctx context.Context, l location.Location, open Opener, do func(mover.Backend) error) error {
	return VisitWith(ctx, l, OpenOptions{}, open, do)
}

// VisitWith is Visit of a place that is opened with options.
func VisitWith(ctx context.Context, l location.Location, o OpenOptions, open Opener, do func(mover.Backend) error) error {
	open = patiently(open)
	place, err := open(ctx, l, o)
	if err != nil {
		return orNearby(ctx, err, l, open, o)
	}
	defer place.Close()
	return do(looking(place))
}

// Sample sees whether we may read l, without reading all of it: it goes there, lists it as far as
// the first 2000 names go, and opens the first file in each of the first 16 folders that have
// one. What can not be listed or opened is an error.
func Sample(ctx context.Context, l location.Location, open Opener) error {
	place, err := openSource(ctx, l, patiently(open), OpenOptions{})
	if err != nil {
		return err
	}
	defer place.Close()
	place = looking(place)
	ctx, cancel := context.WithCancel(ctx) // the walk reads ahead
	defer cancel()
	names, folders := 0, map[string]bool{}
	for e, err := range place.Walk(ctx, mover.WalkOptions{Lazy: true}) {
		if err != nil {
			return err
		}
		if folder, _ := mover.Parent(e.Name); e.Kind == mover.File && !folders[folder] {
			folders[folder] = true
			if err := opens(ctx, place, e); err != nil {
				return err
			}
		}
		if names++; names == sampleEntries || len(folders) == sampleFolders {
			break
		}
	}
	return nil
}

// opens opens an entry in the same way as a copy. It ignores that the entry has changed or is gone.
func opens(ctx context.Context, place mover.Source, e mover.Entry) error {
	content, err := place.Open(ctx, e)
	if errors.Is(err, mover.ErrChanged) || errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	return content.Close()
}

// usage counts what is there. Names of one file are counted once where the place
// can tell.
func usage(ctx context.Context, l location.Location, open Opener) (plan.Totals, error) {
	var sum plan.Totals
	var errs error
	for e, err := range list(ctx, l, true, open) {
		if err != nil && e.Kind == 0 {
			return sum, err
		}
		if err != nil {
			errs = Gravest(errs, err)
			continue
		}
		sum.Add(&plan.Action{Op: plan.Create, Source: e})
	}
	return sum, errs
}

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
