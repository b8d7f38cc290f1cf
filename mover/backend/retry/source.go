package retry

import (
	"context"
	"io"
	"iter"
	"sync"

	"datamove.dev/mover"
)

// Source is a mover.Source that tries again.
type Source struct {
	inner mover.Source
	*trier
}

var _ mover.Source = (*Source)(nil)

// NewSource wraps s.
func NewSource(s mover.Source, o Options) *Source { return &Source{s, newTrier(o)} }

// Unwrap returns the source that is tried.
func (s *Source) Unwrap() any { return s.inner }

func (s *Source) String() string                   { return s.inner.String() }
func (s *Source) Capabilities() mover.Capabilities { return s.inner.Capabilities() }
func (s *Source) Close() error                     { return s.inner.Close() }

// Stat implements mover.Source.
func (s *Source) Stat(ctx context.Context, name string) (e mover.Entry, err error) {
	err = s.do(ctx, "stat", name, func() (err error) { e, err = s.inner.Stat(ctx, name); return })
	return e, err
}

// Open implements mover.Source.
func (s *Source) Open(ctx context.Context, e mover.Entry) (c mover.Content, err error) {
	err = s.do(ctx, "open", e.Name, func() (err error) { c, err = s.inner.Open(ctx, e); return })
	if err != nil {
		return nil, err
	}
	return &content{c, s.trier}, nil
}

// Walk implements mover.Source.
func (s *Source) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		opts.Stray = eachOnce(opts.Stray)
		w := walk{source: s, ctx: ctx, opts: opts, yield: yield, tries: s.begin("walk", opts.Dir)}
		defer w.tries.over()
		for w.pass() {
		}
	}
}

// eachOnce tells of a draft once, however often it is found.
func eachOnce(tell func(mover.Stray)) func(mover.Stray) {
	if tell == nil {
		return nil
	}
	var mu sync.Mutex
	told := map[mover.Token]bool{}
	return func(s mover.Stray) {
		mu.Lock()
		again := told[s.Token]
		told[s.Token] = true
		mu.Unlock()
		if !again {
			tell(s)
		}
	}
}

// walk is one walk through several passes of the inner one.
type walk struct {
	source *Source
	ctx    context.Context
	opts   mover.WalkOptions // After is what was yielded last
	yield  func(mover.Entry, error) bool
	tries  *tries
}

// pass walks until the end or an error, and reports whether to walk again.
func (w *walk) pass() (again bool) {
	for e, err := range w.source.inner.Walk(w.ctx, w.opts) {
		if err != nil {
			if err = w.tries.again(w.ctx, err); err == nil {
				return true
			}
		}
		if err == nil || e.Key != "" {
			w.opts.After = mover.AfterEntry(&e)
			w.tries.progress()
		}
		if !w.yield(e, err) {
			return false
		}
	}
	return false
}

// content is a content that resumes its ranges where they broke.
type content struct {
	mover.Content
	*trier
}

// Unwrap returns the content that is tried.
func (c *content) Unwrap() any { return c.Content }

// Check implements mover.Content.
func (c *content) Check(ctx context.Context) error {
	return c.do(ctx, "check", c.Entry().Name, func() error { return c.Content.Check(ctx) })
}

// Range implements mover.Content.
func (c *content) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	r := &reader{content: c, ctx: ctx, off: off, left: n, tries: c.begin("read", c.Entry().Name)}
	for {
		err := r.open()
		if err == nil {
			c.budget.earn()
			r.tries.over()
			return r, nil
		}
		if err := r.tries.again(ctx, err); err != nil {
			r.tries.over()
			return nil, err
		}
	}
}

// reader reads a range with as many bodies as it takes.
type reader struct {
	content   *content
	ctx       context.Context
	off, left int64
	body      io.ReadCloser // nil when it has to be opened at off
	tries     *tries
}

func (r *reader) open() (err error) {
	r.body, err = r.content.Content.Range(r.ctx, r.off, r.left)
	return err
}

func (r *reader) Read(p []byte) (int, error) {
	for {
		n, err := r.read(p)
		r.off += int64(n)
		r.left -= int64(n)
		if n > 0 {
			r.tries.progress()
		}
		if err == nil || !Passing(err) {
			return n, err
		}
		_ = r.drop() // it broke already
		if n > 0 {
			return n, nil
		}
		if err := r.tries.again(r.ctx, err); err != nil {
			return 0, err
		}
	}
}

func (r *reader) read(p []byte) (int, error) {
	if r.body == nil {
		if err := r.open(); err != nil {
			return 0, err
		}
	}
	return r.body.Read(p)
}

// Close ends the reading.
func (r *reader) Close() error {
	r.tries.over()
	return r.drop()
}

// drop closes what is open.
func (r *reader) drop() error {
	if r.body == nil {
		return nil
	}
	body := r.body
	r.body = nil
	return body.Close()
}
