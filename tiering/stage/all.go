package stage

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

// All waits until everything is there that somebody wants, or something of it has failed for good, or ctx is over:
// mover.ErrTimeout then, after a deadline. Meanwhile it tells of each that is not there yet why: an *Underway,
// or what went wrong and is tried again. A mover that can not be reached may come back, as long as ctx lasts. What is
// there is held, also when others are not.
func (m *Mover) All(ctx context.Context, wants []Want, told func(i int, err error)) ([]Place, error) {
	places, errs, fails := make([]Place, len(wants)), make([]error, len(wants)), make([]int, len(wants))
	left := make([]int, len(wants))
	for i := range left {
		left[i] = i
	}
	for spell := pause; ; spell = min(2*spell, rarely) {
		m.askAll(ctx, wants, left, places, errs)
		still := left[:0]
		for _, i := range left {
			var u *Underway
			switch err := errs[i]; {
			case err == nil:
				continue
			case ctx.Err() != nil, errors.As(err, &u), errors.Is(err, mover.ErrUnreachable):
			case !passes(err), fails[i]+1 == mostFail:
				return places, fmt.Errorf("%s: %w", wants[i].text(m), err)
			default:
				fails[i]++
			}
			still = append(still, i)
		}
		if left = still; len(left) == 0 {
			return places, nil
		}
		first := left[0]
		if ctx.Err() != nil {
			return places, late(ctx, fmt.Sprintf("%d of %d are not there: %s", len(left), len(wants), wants[first].text(m)), errs[first])
		}
		for _, i := range left {
			told(i, errs[i])
		}
		m.rest(ctx, spell, errs[first])
	}
}

// askAll asks for some of what is wanted, for several at a time. What ended with ctx says nothing new.
func (m *Mover) askAll(ctx context.Context, wants []Want, which []int, places []Place, errs []error) {
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
	if errors.As(first, &u) && follows(limit, m, u.Task) {
		return
	}
	<-limit.Done()
}

// follows hears of a task until it has ended, and reports whether it has.
func follows(ctx context.Context, m *Mover, task string) bool {
	c, err := m.Client(ctx)
	return err == nil && follow(ctx, c, task) == nil
}

// passes reports whether the same question may have another answer later.
func passes(err error) bool {
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
