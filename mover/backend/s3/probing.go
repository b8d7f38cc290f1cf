package s3

import (
	"cmp"
	"context"
	"io"
	"iter"
	"time"

	"datamove.dev/mover/backend/s3/s3api"
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
	s3api.Store
	waited time.Duration
	doubt  error // why an answer is not known; nil where all are
}

// ask makes a call until the store has answered. A call that is not repeatable had an effect perhaps when its answer was lost.
func (s *steady) ask(ctx context.Context, repeatable bool, call func() error) error {
	for wait, tries := probeFirst, 1; ; wait, tries = 2*wait, tries+1 {
		err := call()
		busy, lost := s3api.Unanswered(err)
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

// asked is ask for a call with an answer.
func asked[T any](ctx context.Context, s *steady, repeatable bool, call func() (T, error)) (got T, err error) {
	err = s.ask(ctx, repeatable, func() (err error) { got, err = call(); return err })
	return got, err
}

func (s *steady) Head(ctx context.Context, key, version string) (s3api.Object, error) {
	return asked(ctx, s, true, func() (s3api.Object, error) { return s.Store.Head(ctx, key, version) })
}

func (s *steady) Get(ctx context.Context, r s3api.Get) (body io.ReadCloser, o s3api.Object, err error) {
	err = s.ask(ctx, true, func() (err error) { body, o, err = s.Store.Get(ctx, r); return err })
	return body, o, err
}

func (s *steady) Tags(ctx context.Context, key string) (string, error) {
	return asked(ctx, s, true, func() (string, error) { return s.Store.Tags(ctx, key) })
}

func (s *steady) SetTags(ctx context.Context, key, tags string) error {
	return s.ask(ctx, true, func() error { return s.Store.SetTags(ctx, key, tags) })
}

func (s *steady) Put(ctx context.Context, w s3api.Put) (s3api.Stored, error) {
	return asked(ctx, s, !w.IfNoneMatch && w.IfMatch == "", func() (s3api.Stored, error) { return s.Store.Put(ctx, w) })
}

func (s *steady) Copy(ctx context.Context, from s3api.Source, to s3api.Put) (s3api.Stored, error) {
	return asked(ctx, s, true, func() (s3api.Stored, error) { return s.Store.Copy(ctx, from, to) })
}

func (s *steady) Remove(ctx context.Context, key, version, ifMatch string) error {
	return s.ask(ctx, ifMatch == "", func() error { return s.Store.Remove(ctx, key, version, ifMatch) })
}

func (s *steady) CreateUpload(ctx context.Context, w s3api.Put) (s3api.Begun, error) {
	return asked(ctx, s, false, func() (s3api.Begun, error) { return s.Store.CreateUpload(ctx, w) })
}

func (s *steady) UploadPart(ctx context.Context, u s3api.Upload, number int, w s3api.Put) (s3api.Stored, error) {
	return asked(ctx, s, true, func() (s3api.Stored, error) { return s.Store.UploadPart(ctx, u, number, w) })
}

func (s *steady) CompleteUpload(ctx context.Context, u s3api.Upload, parts []s3api.Stored, w s3api.Put) (s3api.Stored, error) {
	return asked(ctx, s, false, func() (s3api.Stored, error) { return s.Store.CompleteUpload(ctx, u, parts, w) })
}

// List yields the first page, which has all probes.
func (s *steady) List(ctx context.Context, l s3api.Listing) iter.Seq2[[]s3api.Object, error] {
	return func(yield func([]s3api.Object, error) bool) {
		yield(asked(ctx, s, true, func() ([]s3api.Object, error) {
			for page, err := range s.Store.List(ctx, l) {
				return page, err
			}
			return nil, nil
		}))
	}
}

// ListUploads yields the first one.
func (s *steady) ListUploads(ctx context.Context, prefix string) iter.Seq2[s3api.Upload, error] {
	return func(yield func(s3api.Upload, error) bool) {
		yield(asked(ctx, s, true, func() (s3api.Upload, error) {
			for u, err := range s.Store.ListUploads(ctx, prefix) {
				return u, err
			}
			return s3api.Upload{}, nil
		}))
	}
}

// probed finds out what the bucket can do. doubt says why that is not known for sure, although it was asked for again.
func (p *Backend) probed(ctx context.Context) (found Profile, doubt, err error) {
	if err := p.cleanOld(ctx); err != nil {
		p.opts.Logger.WarnContext(ctx, "old probes of the bucket can not be removed", "place", p.address, "err", err)
	}
	var waited time.Duration
	for range probeRuns {
		calls := &steady{Store: p.store, waited: waited}
		probe := prober{store: calls, bucket: p.bucket, dir: p.ownKey(probePrefix + randomName())}
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
