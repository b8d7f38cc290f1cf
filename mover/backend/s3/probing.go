package s3

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"time"

	"datamove.dev/mover"
)

const (
	busyTries  = 8                      // of one call that the store is too busy for
	lostTries  = 3                      // of one call with a lost answer: a store that loses it each time has no other answer
	probeFirst = 100 * time.Millisecond // the wait after the first one, which doubles
	probeWaits = 15 * time.Second       // in all
	probeRuns  = 3                      // of all probes, while answers are lost
)

// steady asks a store that is busy again. A refusal for the moment says nothing of what the store can do.
type steady struct {
	store
	waited time.Duration
	doubt  error // why an answer is not known; nil where all are
}

// ask makes a call until the store has answered. A call that is not repeatable had an effect perhaps when its answer was lost.
func (s *steady) ask(ctx context.Context, repeatable bool, call func() error) error {
	for wait, tries := probeFirst, 1; ; wait, tries = 2*wait, tries+1 {
		err := call()
		busy, lost := unanswered(err)
		switch {
		case ctx.Err() != nil, !busy && !lost, lost && repeatable && tries == lostTries:
			return err
		case lost && !repeatable, tries == busyTries, s.waited > probeWaits:
			s.doubt = cmp.Or(s.doubt, err)
			return err
		}
		s.waited += wait
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C:
		}
	}
}

// unanswered reports whether an error says nothing of what a store can do: it was busy, and has done nothing, or its answer was lost on
// the way. An internal error is an answer: some stores have no other one for what they do not know.
func unanswered(err error) (busy, lost bool) {
	var told *answer
	switch {
	case !errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrUnreachable):
		return false, false
	case !errors.As(err, &told):
		return false, true
	}
	busy = told.status == http.StatusServiceUnavailable || told.status == http.StatusTooManyRequests || told.status == http.StatusConflict
	return busy, told.status == http.StatusBadGateway || told.status == http.StatusGatewayTimeout
}

// asked is ask for a call with an answer.
func asked[T any](ctx context.Context, s *steady, repeatable bool, call func() (T, error)) (got T, err error) {
	err = s.ask(ctx, repeatable, func() (err error) { got, err = call(); return err })
	return got, err
}

func (s *steady) head(ctx context.Context, key, version string) (object, error) {
	return asked(ctx, s, true, func() (object, error) { return s.store.head(ctx, key, version) })
}

func (s *steady) get(ctx context.Context, r get) (body io.ReadCloser, o object, err error) {
	err = s.ask(ctx, true, func() (err error) { body, o, err = s.store.get(ctx, r); return err })
	return body, o, err
}

func (s *steady) tags(ctx context.Context, key string) (string, error) {
	return asked(ctx, s, true, func() (string, error) { return s.store.tags(ctx, key) })
}

func (s *steady) tag(ctx context.Context, key, tags string) error {
	return s.ask(ctx, true, func() error { return s.store.tag(ctx, key, tags) })
}

func (s *steady) put(ctx context.Context, w put) (stored, error) {
	return asked(ctx, s, !w.ifNoneMatch && w.ifMatch == "", func() (stored, error) { return s.store.put(ctx, w) })
}

func (s *steady) copy(ctx context.Context, from source, to put) (stored, error) {
	return asked(ctx, s, true, func() (stored, error) { return s.store.copy(ctx, from, to) })
}

func (s *steady) remove(ctx context.Context, key, version, ifMatch string) error {
	return s.ask(ctx, ifMatch == "", func() error { return s.store.remove(ctx, key, version, ifMatch) })
}

func (s *steady) create(ctx context.Context, w put) (begun, error) {
	return asked(ctx, s, false, func() (begun, error) { return s.store.create(ctx, w) })
}

func (s *steady) part(ctx context.Context, u upload, number int, w put) (stored, error) {
	return asked(ctx, s, true, func() (stored, error) { return s.store.part(ctx, u, number, w) })
}

func (s *steady) complete(ctx context.Context, u upload, parts []stored, w put) (stored, error) {
	return asked(ctx, s, false, func() (stored, error) { return s.store.complete(ctx, u, parts, w) })
}

// list yields the first page, which has all probes.
func (s *steady) list(ctx context.Context, l listing) iter.Seq2[[]object, error] {
	return func(yield func([]object, error) bool) {
		yield(asked(ctx, s, true, func() ([]object, error) {
			for page, err := range s.store.list(ctx, l) {
				return page, err
			}
			return nil, nil
		}))
	}
}

// uploads yields the first one.
func (s *steady) uploads(ctx context.Context, prefix string) iter.Seq2[upload, error] {
	return func(yield func(upload, error) bool) {
		yield(asked(ctx, s, true, func() (upload, error) {
			for u, err := range s.store.uploads(ctx, prefix) {
				return u, err
			}
			return upload{}, nil
		}))
	}
}

// probed finds out what the bucket can do. doubt says why that is not known for sure, although it was asked for again.
func (p *Backend) probed(ctx context.Context) (found Profile, doubt, err error) {
	var waited time.Duration
	for range probeRuns {
		calls := &steady{store: p.store, waited: waited}
		probe := prober{store: calls, bucket: p.bucket, dir: p.ownKey("probe-" + randomName())}
		found, err = probe.run(ctx)
		doubt = calls.doubt
		if left := probe.clean(context.WithoutCancel(ctx)); left != nil {
			p.opts.Logger.WarnContext(ctx, "probes of the bucket can not be removed", "place", p.address, "err", left)
		}
		if waited = calls.waited; err != nil || doubt == nil {
			break
		}
	}
	return found, doubt, err
}
