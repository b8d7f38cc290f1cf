package manifest

import (
	"context"
	"errors"
	"io"
	"iter"

	"datamove.dev/mover"
)

// Opener opens the manifest of a tree, or a *Part. It fails with mover.ErrNotExist when there
// is none, and is called once for each walk.
type Opener func(ctx context.Context) (io.ReadCloser, error)

// Overlay returns p with the facts that its manifest tells. Walks yield entries
// with all of them, and a caller that opens such an entry gets it back with them.
//
// The backend has precedence. An entry that is not the one that the manifest
// describes, by its ETag or kind, stays as it is. One that the backend has not does
// not come back, but for what only a manifest can have (special files; empty
// directories where the backend knows directories by their content). Where both
// know a fact, the backend is right, because it may have been set since. The mode is
// the manifest's if it only adds bits that the backend does not keep.
//
// Without a manifest, p is as it was. A damaged one ends the walk with an error:
// to go on without it would lose facts silently.
func Overlay(p mover.Backend, open func(ctx context.Context) (io.ReadCloser, error)) mover.Backend {
	return &place{p, source{Source: p, open: open}}
}

// Nested is Overlay for a place with directories that have manifests of their own: below such a directory that one counts, unless the one
// around it is newer and knows of the directory. One that can not be read is an error of its directory.
func Nested(p mover.Backend, open Opener, below func(ctx context.Context, dir string) (io.ReadCloser, error)) mover.Backend {
	return &place{p, source{Source: p, open: open, below: below}}
}

type source struct {
	mover.Source
	open  Opener
	below func(ctx context.Context, dir string) (io.ReadCloser, error) // opens the manifest of a directory; nil is none
	finds bool                                                         // Stat tells what the manifest knows of each name
}

// Unwrap returns the place below.
func (s *source) Unwrap() any { return s.Source }

// read opens the manifest; nil when there is none.
func (s *source) read(ctx context.Context) (*entries, func(), error) {
	body, err := s.open(ctx)
	return s.begin(body, err, "")
}

// begin reads the manifest of a directory that was opened.
func (s *source) begin(body io.ReadCloser, err error, dir string) (*entries, func(), error) {
	if errors.Is(err, mover.ErrNotExist) {
		return nil, func() {}, nil
	}
	var r *Reader
	if err == nil {
		if r, err = NewReader(body); err != nil {
			_ = body.Close()
		}
	}
	if err != nil {
		return nil, nil, s.fail("read the manifest of", dir, err)
	}
	part := &entries{Reader: r}
	if of, ok := body.(*Part); ok {
		part.below = of.Below
	}
	return part, func() { r.Close(); _ = body.Close() }, nil
}

func (s *source) fail(op, name string, err error) error {
	return &mover.Error{Op: op, Location: s.String(), Name: name, Err: err}
}

// Walk implements mover.Source.
func (s *source) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		r, done, err := s.read(ctx)
		if err != nil {
			yield(mover.Entry{}, err)
			return
		}
		if r == nil && s.below == nil {
			s.Source.Walk(ctx, opts)(yield)
			return
		}
		w := &walk{place: s, ctx: ctx, opts: opts, yield: yield}
		defer w.end()
		w.top = &layer{entries: r, done: done}
		w.run(s.Source.Walk(ctx, opts))
	}
}

// Stat implements mover.Source. Of names it tells what the backend knows; a walk
// tells more. Of the root it knows all, because no walk yields it.
func (s *source) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if s.finds && name != "" {
		return s.statFound(ctx, name)
	}
	e, err := s.Source.Stat(ctx, name)
	if err != nil || name != "" {
		return e, err
	}
	r, done, err := s.read(ctx)
	if err != nil || r == nil {
		return e, err
	}
	defer done()
	first, err := r.Next()
	if err == io.EOF || err == nil && first.Name != "" {
		return e, nil
	}
	if err != nil {
		return e, s.fail("read the manifest of", "", err)
	}
	return merge(e, first), nil
}

// Open implements mover.Source.
func (s *source) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := s.Source.Open(ctx, e)
	if err == nil {
		return &content{c, merge(c.Entry(), e)}, nil
	}
	if keptOnly(s, e.Kind) && errors.Is(err, mover.ErrNotExist) {
		return nothing{e}, nil
	}
	return nil, err
}

// place is a source that is also written.
type place struct {
	mover.Backend
	read source
}

// Unwrap returns the place below.
func (p *place) Unwrap() any { return p.Backend }

func (p *place) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return p.read.Walk(ctx, opts)
}

func (p *place) Stat(ctx context.Context, name string) (mover.Entry, error) {
	return p.read.Stat(ctx, name)
}

func (p *place) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	return p.read.Open(ctx, e)
}

// Update implements mover.Target. What only the manifest has is updated with it.
func (p *place) Update(ctx context.Context, e mover.Entry) error {
	return p.onlyListed(e, p.Backend.Update(ctx, e))
}

// Remove implements mover.Target. What only the manifest has is gone with it.
func (p *place) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	return p.onlyListed(e, p.Backend.Remove(ctx, e, by))
}

// onlyListed forgives that the place has not what only a manifest can have.
func (p *place) onlyListed(e mover.Entry, err error) error {
	if keptOnly(p, e.Kind) && errors.Is(err, mover.ErrNotExist) {
		return nil
	}
	return err
}

// keptOnly reports whether entries of a kind may be known to the manifest alone.
func keptOnly(s interface{ Capabilities() mover.Capabilities }, k mover.Kind) bool {
	return k.Special() || k == mover.Dir && s.Capabilities().DirsByContent
}

// content is one that knows the facts of the manifest.
type content struct {
	mover.Content
	entry mover.Entry
}

// Unwrap returns the content below.
func (c *content) Unwrap() any { return c.Content }

func (c *content) Entry() mover.Entry { return c.entry }

// Segment implements mover.Content, from the segments that the manifest has.
func (c *content) Segment(off int64) (mover.Segment, error) {
	if !c.entry.Known.Has(mover.FactHoles) {
		return c.Content.Segment(off)
	}
	return segment(&c.entry, off), nil
}

// segment returns the first data at or behind off.
func segment(e *mover.Entry, off int64) mover.Segment {
	low, high := 0, len(e.Data)
	for low < high {
		if mid := (low + high) / 2; e.Data[mid].End > off {
			high = mid
		} else {
			low = mid + 1
		}
	}
	if low == len(e.Data) {
		return mover.Segment{Start: e.Size, End: e.Size}
	}
	return mover.Segment{Start: max(off, e.Data[low].Start), End: e.Data[low].End}
}

// nothing is the content of an entry that only the manifest has.
type nothing struct{ entry mover.Entry }

func (n nothing) Entry() mover.Entry                   { return n.entry }
func (n nothing) Segment(int64) (mover.Segment, error) { return mover.Segment{}, nil }
func (n nothing) Check(context.Context) error          { return nil }
func (n nothing) Close() error                         { return nil }
func (n nothing) Range(context.Context, int64, int64) (io.ReadCloser, error) {
	return nil, &mover.Error{Op: "read", Name: n.entry.Name, Err: mover.ErrUnsupported}
}
