package datasetclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
)

// Want is a source that a holder needs.
type Want struct {
	Source
	Holder string
}

const (
	rarely   = 10 * time.Second // between questions, after a while
	mostAsks = 8                // at a time
	mostFail = 5                // stagings of one source that failed and may not have to
)

// All waits until everything that the caller wants is there, or something of it has failed for good, or ctx is over:
// mover.ErrTimeout then, after a deadline. Meanwhile it tells of each that is not there yet why: an *Underway,
// or what went wrong and is tried again. A mover that can not be reached may come back, as long as ctx lasts. What is
// there is held, also when others are not.
func (m *Mover) All(ctx context.Context, wants []Want, told func(i int, err error)) ([]Staged, error) {
	w := m.waitFor(wants, told)
	for w.next(ctx) {
		for _, i := range w.failed {
			return w.places, fmt.Errorf("%s: %w", wants[i].text(m), w.errs[i])
		}
	}
	if len(w.left) > 0 {
		first := w.left[0]
		return w.places, late(ctx, fmt.Sprintf("%d of %d are not there: %s", len(w.left), len(wants), wants[first].text(m)), w.errs[first])
	}
	return w.places, nil
}

// Each waits as All does, and goes on for the others when one has failed. It returns where each is, or why it is not there.
func (m *Mover) Each(ctx context.Context, wants []Want, told func(i int, err error)) ([]Staged, []error) {
	w := m.waitFor(wants, told)
	for w.next(ctx) {
	}
	for _, i := range w.left {
		w.errs[i] = late(ctx, wants[i].text(m), w.errs[i])
	}
	return w.places, w.errs
}

// waiting is for what is wanted. It asks for it again and again.
type waiting struct {
	m      *Mover
	wants  []Want
	told   func(i int, err error)
	places []Staged
	errs   []error
	fails  []int
	left   []int // that are not there, and may come
	failed []int // for good, since the last question
	spell  time.Duration
}

func (m *Mover) waitFor(wants []Want, told func(i int, err error)) *waiting {
	w := &waiting{m: m, wants: wants, told: told, places: make([]Staged, len(wants)), errs: make([]error, len(wants)), fails: make([]int, len(wants)), left: make([]int, len(wants))}
	for i := range w.left {
		w.left[i] = i
	}
	return w
}

// next asks for all that may come, after a rest, and reports whether there is something to look at: a failure, or something that is left to wait for.
func (w *waiting) next(ctx context.Context) bool {
	if w.spell > 0 {
		if len(w.left) == 0 || ctx.Err() != nil {
			return false
		}
		for _, i := range w.left {
			w.told(i, w.errs[i])
		}
		w.m.rest(ctx, w.spell, w.errs[w.left[0]])
	}
	w.spell = min(max(2*w.spell, pause), rarely)
	w.m.askAll(ctx, w.wants, w.left, w.places, w.errs)
	still := w.left[:0]
	w.failed = nil
	for _, i := range w.left {
		var u *Underway
		switch err := w.errs[i]; {
		case err == nil:
			continue
		case ctx.Err() != nil, errors.As(err, &u), errors.Is(err, mover.ErrUnreachable):
		case !Passes(err), w.fails[i]+1 == mostFail:
			w.failed = append(w.failed, i)
			continue
		default:
			w.fails[i]++
		}
		still = append(still, i)
	}
	w.left = still
	return len(w.left)+len(w.failed) > 0
}

// askAll asks for some of what is wanted, for several at a time. What ended with ctx says nothing new.
func (m *Mover) askAll(ctx context.Context, wants []Want, which []int, places []Staged, errs []error) {
	var asking sync.WaitGroup
	defer asking.Wait()
	room := make(chan struct{}, mostAsks)
	for _, i := range which {
		room <- struct{}{}
		asking.Go(func() {
			defer func() { <-room }()
			place, err := m.Ask(ctx, wants[i].Source, wants[i].Holder)
			if err == nil || ctx.Err() == nil || errs[i] == nil {
				places[i], errs[i] = place, err
			}
		})
	}
}

// rest waits until it is worth asking again: for a time, or until what is waited for first is there.
func (m *Mover) rest(ctx context.Context, spell time.Duration, first error) {
	limit, cancel := context.WithTimeout(ctx, spell)
	defer cancel()
	var u *Underway
	if errors.As(first, &u) && m.Follow(limit, u.Task) == nil {
		return
	}
	<-limit.Done()
}

// Passes reports whether the same question may have another answer later.
func Passes(err error) bool {
	for _, kind := range []error{mover.ErrTransient, mover.ErrTimeout, mover.ErrConflict, mover.ErrChanged, mover.ErrHeld} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// late is the error of what is not there when ctx is over.
func late(ctx context.Context, what string, last error) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, context.DeadlineExceeded) {
		cause = mover.ErrTimeout
	}
	return fmt.Errorf("%w: %s: %w", cause, what, last)
}

// text is what is wanted, for people.
func (w *Want) text(m *Mover) string {
	if node := cmp.Or(w.Node, m.Node); node != "" {
		return mover.Printable(w.Location) + " on " + node
	}
	return mover.Printable(w.Location)
}
