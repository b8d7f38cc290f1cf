package client

import (
	"cmp"
	"fmt"
	"slices"

	"datamove.dev/lustre"
)

// maxHeld is how many records are held back for one that is missing before them, however
// young they are. A server has fewer threads that could still have to write it.
const maxHeld = 4096

// inOrder gives records on by their numbers, which they nearly have when they come.
type inOrder struct {
	next uint64 // the number that is due
	open bool   // no number is due: the lowest of the first ones is
	held []lustre.Change
}

// add gives a record on, and those that waited for it, or holds it back. more is false
// when take wanted no more.
func (o *inOrder) add(r lustre.Change, take func(lustre.Change) bool) (more bool, err error) {
	if r.Index < o.next {
		return true, nil // it was there before
	}
	if o.open || r.Index > o.next {
		o.hold(r)
		if len(o.held) < maxHeld {
			return true, nil
		}
		if !o.open {
			return false, o.gap()
		}
		return o.drain(take)
	}
	if more, err := o.give(r, take); err != nil || !more {
		return more, err
	}
	return o.drain(take)
}

func (o *inOrder) hold(r lustre.Change) {
	at, found := slices.BinarySearchFunc(o.held, r.Index, func(h lustre.Change, index uint64) int { return cmp.Compare(h.Index, index) })
	if !found {
		o.held = slices.Insert(o.held, at, r)
	}
}

// drain gives on what was held back, up to the first that is missing.
func (o *inOrder) drain(take func(lustre.Change) bool) (more bool, err error) {
	if o.open && len(o.held) > 0 {
		o.open, o.next = false, o.held[0].Index
	}
	given := 0
	defer func() { o.held = slices.Delete(o.held, 0, given) }()
	for _, r := range o.held {
		if r.Index != o.next {
			break
		}
		given++
		if more, err := o.give(r, take); err != nil || !more {
			return more, err
		}
	}
	return true, nil
}

func (o *inOrder) give(r lustre.Change, take func(lustre.Change) bool) (more bool, err error) {
	o.next = r.Index + 1
	if !take(r) {
		return false, nil
	}
	if r.LogTurnedOff() {
		return false, fmt.Errorf("after %d the log was turned off: %w", r.Index, lustre.ErrGap)
	}
	return true, nil
}

// first is the oldest of those that are held back.
func (o *inOrder) first() lustre.Change { return o.held[0] }

func (o *inOrder) gap() error {
	return fmt.Errorf("%d follows %d: %w", o.first().Index, o.next-1, lustre.ErrGap)
}
