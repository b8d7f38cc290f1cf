package engine

import (
	"context"
	"iter"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
)

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
