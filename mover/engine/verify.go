package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/remedy"
)

// Difference is one finding of a verify. It is a kind of mover.ErrCorrupt.
type Difference struct {
	What  string // "content differs", "missing", "extra", "mode differs"
	Kind  mover.Kind
	cause string
}

func (d *Difference) Error() string { return d.What }

// Cause is what differs, as package remedy has it.
func (d *Difference) Cause() string { return d.cause }

// Unwrap makes every difference a failed verification.
func (d *Difference) Unwrap() error { return mover.ErrCorrupt }

// verify compares and writes nothing.
func (t *run) verify(ctx context.Context, p *pair) error {
	w := &watch{task: t, pair: p}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(max(p.target.Capabilities().Parallel, 1))
	root, err := p.roots(ctx)
	w.Result(p.finding(0, root, err))
	seq := int64(0)
	for a, err := range t.count(p.diff(gctx), true) {
		seq++
		if err != nil && a.Source.Kind == 0 && a.Target.Kind == 0 {
			return errors.Join(err, g.Wait())
		}
		if a.Op != plan.Compare || err != nil {
			if bytes, moves := a.Moves(); moves {
				t.counters.Looked(bytes)
			}
			w.Result(p.finding(seq, a, err))
			continue
		}
		t.counters.InFlight.Add(1)
		seq := seq
		g.Go(func() error {
			defer t.counters.InFlight.Add(-1)
			size := a.Source.Size
			a, read, err := t.counters.Look(func(passed func(int64)) (plan.Action, error) { return p.compare(gctx, a, passed) })
			if gctx.Err() != nil {
				return gctx.Err()
			}
			t.counters.Looked(size - read)
			w.Result(p.finding(seq, a, err))
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

// roots compares the roots, which no walk yields: a copy gives the one the facts of the other. A single entry has none, and of a
// prefix nothing is known without a manifest.
func (p *pair) roots(ctx context.Context) (plan.Action, error) {
	a := plan.Action{Op: plan.Keep}
	s, err := p.source.Stat(ctx, "")
	if err == nil {
		a.Target, err = p.target.Stat(ctx, "")
	}
	if errors.Is(err, mover.ErrNotExist) {
		err = nil
	} else if err == nil && s.Known != 0 && a.Target.Known != 0 {
		o := p.planOptions()
		a = o.Resolve(a, s, a.Target)
	}
	a.Source.Kind = mover.Dir
	return a, err
}

// compare looks at what a listing can not tell.
func (p *pair) compare(ctx context.Context, a plan.Action, passed func(int64)) (plan.Action, error) {
	o := p.planOptions()
	if _, listed := mover.As[*listed](p.source); !listed {
		return compare.Resolve(ctx, p.source, p.target, a, o, passed)
	}
	c, err := p.target.Open(ctx, a.Target)
	if err != nil {
		return a, err
	}
	defer c.Close()
	e := c.Entry()
	if e.Kind == mover.File && a.Source.Known.Has(mover.FactCRC) {
		if e.CRC, err = compare.Hash(ctx, c); err != nil {
			return a, err
		}
		e.Known |= mover.FactCRC
	}
	return o.Resolve(a, a.Source, e), nil
}

// finding says in a result how the two sides differ, if they do.
func (p *pair) finding(seq int64, a plan.Action, err error) transfer.Result {
	res := transfer.Result{Seq: seq, Op: plan.Keep, Entry: a.Source, Level: mover.Read, Why: a.Why, Err: err}
	if res.Entry.Kind == 0 {
		res.Entry = a.Target
	}
	if err != nil {
		return res
	}
	what := a.Why
	switch {
	case a.Op == plan.Keep:
		return res
	case a.Op == plan.Remove:
		what = "extra: not in the source"
	case (a.Op == plan.Create || a.Op == plan.Link) && a.Target.Kind == 0:
		what = "missing"
	case a.Op == plan.Link:
		what = "differs, or is not a hard link of " + mover.Printable(a.Link)
	case a.Op == plan.Compare:
		what = "can not be compared: " + a.Why
	}
	res.Op = a.Op
	res.Err = &mover.Error{Op: "verify", Location: p.target.String(), Name: res.Entry.Name, Err: &Difference{what, res.Entry.Kind, differs(&a)}}
	return res
}

// differs is the cause of a finding.
func differs(a *plan.Action) string {
	switch {
	case a.Op == plan.Remove:
		return remedy.Extra
	case a.Op != plan.Update && a.Target.Kind == 0:
		return remedy.Missing
	case a.Op == plan.Update, a.Why == plan.WhySharedInode:
		return remedy.Metadata
	case a.Op == plan.Replace && a.Why != plan.WhyContent, a.Op == plan.Create, a.Op == plan.Link:
		return remedy.Outdated
	}
	return "" // the bytes
}

// openListed opens the target of a verify against a manifest file.
func (p *pair) openListed(ctx context.Context, dst location.Location, open Opener, o OpenOptions) (err error) {
	if p.target, err = open(ctx, dst, o); err != nil {
		return err
	}
	p.source = &listed{file: p.request.Manifest}
	return nil
}

// listed is a source of which there is only the manifest.
type listed struct {
	mover.Source // never asked for contents
	file         string
}

func (l *listed) String() string { return l.file }
func (l *listed) Capabilities() mover.Capabilities {
	return mover.Capabilities{Keeps: mover.AllFacts}
}
func (l *listed) Close() error { return nil }

// Stat tells of the root alone, which is the first entry of a manifest, if it is in it.
func (l *listed) Stat(_ context.Context, name string) (mover.Entry, error) {
	f, err := os.Open(l.file)
	if err != nil || name != "" {
		return mover.Entry{}, cmp.Or(err, mover.ErrNotExist)
	}
	defer f.Close()
	for e, err := range manifest.Entries(f) {
		if err != nil || e.Name != "" { // the walk tells what is wrong
			break
		}
		return e, nil
	}
	return mover.Entry{}, mover.ErrNotExist
}

// Walk yields what the manifest says. A damaged manifest ends the walk.
func (l *listed) Walk(_ context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		f, err := os.Open(l.file)
		if err != nil {
			yield(mover.Entry{}, err)
			return
		}
		defer f.Close()
		skipped := "" // a directory; everything below it is skipped, too
		for e, err := range manifest.Entries(f) {
			if err != nil {
				yield(mover.Entry{}, fmt.Errorf("%s: %w", l.file, err))
				return
			}
			if e.Name == "" || skipped != "" && mover.Within(e.Name, skipped) {
				continue
			}
			if opts.Skip != nil && opts.Skip(e.Name, e.Kind) {
				if e.Kind == mover.Dir {
					skipped = e.Name
				}
				continue
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}
