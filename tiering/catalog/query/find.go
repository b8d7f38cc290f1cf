package query

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// Order is in which order files are found.
type Order string

// The orders.
const (
	ByName Order = "name" // that of walks; it begins at once
	BySize Order = "size" // the largest first
	ByIdle Order = "idle" // the one first that was of no use for the longest time
)

// Orders are all of them, the usual one first.
var Orders = []Order{ByName, BySize, ByIdle}

// SortedMost is how many files an answer has at most that is not in the order of names.
const SortedMost = 100_000

// Find yields the files that are meant. limit bounds them; 0 is all of them in the order of names, and SortedMost in another one.
func (r Reader) Find(ctx context.Context, q Question, by Order, limit int) iter.Seq2[Found, error] {
	return func(yield func(Found, error) bool) {
		a, err := r.answer(q)
		if err == nil && limit > SortedMost && by != ByName {
			err = tooMany("files in another order than that of names", SortedMost)
		}
		if err == nil && by == ByName {
			err = a.named(ctx, limit, yield)
		} else if err == nil {
			err = a.sorted(ctx, by, limit, yield)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(Found{}, err)
		}
	}
}

// named yields as the walk of the catalog comes.
func (a *answer) named(ctx context.Context, limit int, yield func(Found, error) bool) error {
	t := a.teller()
	for f, err := range a.below(ctx) {
		if err != nil {
			return err
		}
		at, meant, err := t.means(&f)
		if err != nil {
			return err
		}
		if !meant {
			continue
		}
		if !yield(Found{f, t.judge.View(&f, at), at.Project}, nil) {
			return errEnough
		}
		if limit--; limit == 0 {
			return errEnough
		}
	}
	return nil
}

// sorted keeps the first ones of each worker.
func (a *answer) sorted(ctx context.Context, by Order, limit int, yield func(Found, error) bool) error {
	if limit <= 0 {
		limit = SortedMost
	}
	tops := make([]top, workers())
	for i := range tops {
		tops[i] = top{teller: a.teller(), by: by, limit: limit}
	}
	if err := a.read(ctx, func(worker int, f *dataset.File) error { return tops[worker].add(f) }); err != nil {
		return err
	}
	var all []Found
	for i := range tops {
		all = append(all, tops[i].first...)
	}
	slices.SortFunc(all, by.compare)
	for _, f := range all[:min(limit, len(all))] {
		if !yield(f, nil) {
			return errEnough
		}
	}
	return nil
}

// top is the first files in an order that one worker has found.
type top struct {
	*teller
	by    Order
	limit int
	first []Found // up to twice the limit, of which the first ones count
	cut   bool    // the first limit of them are in order, and what comes has to be before the last of them
}

func (t *top) add(f *dataset.File) error {
	at, meant, err := t.means(f)
	if !meant {
		return err
	}
	found := Found{*f, t.judge.View(f, at), at.Project}
	if t.cut && t.by.compare(found, t.first[t.limit-1]) >= 0 {
		return nil
	}
	if t.first = append(t.first, found); len(t.first) == 2*t.limit {
		slices.SortFunc(t.first, t.by.compare)
		clear(t.first[t.limit:])
		t.first, t.cut = t.first[:t.limit], true
	}
	return nil
}

// compare orders two files; those that are equal by their names.
func (by Order) compare(a, b Found) int {
	first := 0
	switch by {
	case BySize:
		first = cmp.Compare(b.Size, a.Size)
	case ByIdle:
		first = cmp.Compare(b.Idle, a.Idle)
	}
	return cmp.Or(first, mover.Compare(&mover.Entry{Name: a.Name(), Kind: a.Kind}, &mover.Entry{Name: b.Name(), Kind: b.Kind}))
}
