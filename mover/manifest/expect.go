package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"datamove.dev/mover"
)

// Expect returns s as what its manifest says, and nothing else. A walk that finds that s
// has something more, something less, or something else ends with an error of kind
// mover.ErrCorrupt with the mark mover.ErrUnlike. Files have the checksums of the
// manifest, which readers have to find. Contents that s itself does not know the checksum of can only be read, and
// not be cloned.
//
// Facts beside content are those of s; of what a listing of s tells little of, those of the manifest, if its ETag says that
// the manifest means this very object. Then no request for each of them is needed. Directories are not compared, because some backends
// have none, and neither is what the walk skips. Walks of a part are as s has them.
//
// seen, where it is not nil, says that another component checks whether s has what the manifest says. Then the walk of a tree of
// which the manifest was made is that of the manifest, and s is asked for nothing. An ETag that is not that of the manifest is found when its file is opened.
// That is no error where the content is the same.
func Expect(s mover.Source, open func(ctx context.Context) (io.ReadCloser, error), seen func() bool) mover.Source {
	return &expecting{source{Source: s, open: open}, seen}
}

type expecting struct {
	source
	seen func() bool
}

// Stat implements mover.Source: as the place has it. What it should be only a walk knows.
func (s *expecting) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := s.Source.Stat(ctx, name)
	e.Known &^= mover.FactCRC
	return e, err
}

// Walk implements mover.Source.
func (s *expecting) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	if opts.Dir != "" || opts.After != "" {
		return s.Source.Walk(ctx, opts)
	}
	return func(yield func(mover.Entry, error) bool) {
		r, done, err := s.read(ctx)
		if err == nil && r == nil {
			err = s.fail("read the manifest of", "", mover.ErrNotExist)
		}
		if err != nil {
			yield(mover.Entry{}, err)
			return
		}
		defer done()
		x := &expected{place: s, manifest: r, skip: opts.Skip}
		x.next()
		if s.seen != nil && r.Header().Source == s.String() && s.seen() {
			x.all(yield)
			return
		}
		for e, err := range s.Source.Walk(ctx, opts) {
			switch {
			case err != nil:
				x.forgive(&e)
			default:
				err = x.match(&e)
				if err != nil {
					e = mover.Entry{} // it is not what was asked for: nothing of it is
				}
			}
			if !yield(e, err) || err != nil && e.Kind == 0 {
				return
			}
		}
		if err := x.until(nil); err != nil && ctx.Err() == nil {
			yield(mover.Entry{}, err)
		}
	}
}

// expected is what the manifest says of what the walk has not come to.
type expected struct {
	place    *expecting
	manifest *entries
	skip     func(string, mover.Kind) bool

	head    mover.Entry
	err     error  // io.EOF when there is no head
	skipped string // a directory: what is below it is not looked at
}

// next goes on to what the walk does not skip.
func (x *expected) next() {
	for {
		if x.head, x.err = x.manifest.Next(); x.err != nil {
			return
		}
		e := &x.head
		if e.Name == "" || x.skipped != "" && mover.Within(e.Name, x.skipped) {
			continue
		}
		if x.skip == nil || !x.skip(e.Name, e.Kind) {
			return
		}
		if e.Kind == mover.Dir {
			x.skipped = e.Name
		}
	}
}

// all yields what the manifest says, as a listing would: that tells no versions, and a caller that may read an object may not always read those.
func (x *expected) all(yield func(mover.Entry, error) bool) {
	for ; x.err == nil; x.next() {
		if x.head.Kind == mover.File {
			x.head.Stored = x.head.Size
		}
		x.head.Version = ""
		if !yield(x.head, nil) {
			return
		}
	}
	if x.err != io.EOF {
		yield(mover.Entry{}, x.place.fail("read the manifest of", "", x.err))
	}
}

// until goes on to e, or to the end. Everything before that is missing.
func (x *expected) until(e *mover.Entry) error {
	for x.err == nil && (e == nil || mover.Compare(&x.head, e) < 0) {
		if x.head.Kind != mover.Dir {
			return x.differs(x.head.Name, "it is not there any more")
		}
		x.next()
	}
	if x.err != nil && x.err != io.EOF {
		return x.place.fail("read the manifest of", "", x.err)
	}
	return nil
}

// match compares an entry with the manifest, and gives it its checksum.
func (x *expected) match(e *mover.Entry) error {
	if err := x.until(e); err != nil {
		return err
	}
	here := x.err == nil && mover.Compare(&x.head, e) == 0
	if here {
		defer x.next()
	}
	if e.Kind == mover.Dir {
		return nil
	}
	was := &x.head
	if here && e.Brief && e.ETag != "" {
		*e = merge(*e, *was)
	}
	switch {
	case !here:
		return x.differs(e.Name, "it was not there")
	case e.Brief && e.Kind != was.Kind: // a store does not tell links in a listing
		return nil
	case e.Kind != was.Kind:
		return x.differs(e.Name, fmt.Sprintf("it was a %s, and is a %s", was.Kind, e.Kind))
	case e.Size != was.Size:
		return x.differs(e.Name, fmt.Sprintf("it had %d bytes, and has %d", was.Size, e.Size))
	case e.Kind == mover.Symlink && !e.Brief && e.Target != was.Target:
		return x.differs(e.Name, "it led elsewhere")
	case !was.Known.Has(mover.FactCRC) || e.Kind != mover.File:
		return nil
	case e.Known.Has(mover.FactCRC) && e.CRC != was.CRC:
		return x.differs(e.Name, "its content is another one")
	}
	e.CRC, e.Known = was.CRC, e.Known|mover.FactCRC
	return nil
}

// forgive lets go of what can not be looked at: that is said already.
func (x *expected) forgive(e *mover.Entry) {
	for e.Kind != 0 && x.err == nil && (mover.Compare(&x.head, e) == 0 || e.Kind == mover.Dir && mover.Within(x.head.Name, e.Name)) {
		x.next()
	}
}

func (x *expected) differs(name, how string) error { return x.place.differs(name, how) }

func (s *expecting) differs(name, how string) error {
	return s.fail("read", name, mover.Unlike(fmt.Errorf("%w: by its manifest, %s", mover.ErrCorrupt, how)))
}

// Open implements mover.Source. A file that is another one since it was walked is none
// that was expected, but for an object that was stored anew: its content may be the same, and has to have the checksum.
func (s *expecting) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := s.Source.Open(ctx, e)
	if errors.Is(err, mover.ErrChanged) && e.ETag != "" && e.Known.Has(mover.FactCRC) {
		if now, serr := s.Source.Stat(ctx, e.Name); serr == nil && now.Kind == e.Kind && now.Size == e.Size {
			c, err = s.Source.Open(ctx, now)
		}
	}
	if err != nil {
		return nil, err
	}
	now := c.Entry()
	switch {
	case now.Kind != mover.File:
		return c, nil
	case !e.Known.Has(mover.FactCRC):
		_ = c.Close()
		return nil, s.differs(e.Name, "it has changed since it was looked at")
	case !now.Known.Has(mover.FactCRC):
		now.CRC, now.Known = e.CRC, now.Known|mover.FactCRC
		return &unread{c, now}, nil
	case now.CRC != e.CRC:
		_ = c.Close()
		return nil, s.differs(e.Name, "its content is another one")
	}
	return c, nil
}

// unread is a content that has to have a checksum. It hides the optional interfaces of the content below it.
type unread struct {
	mover.Content
	entry mover.Entry
}

func (c *unread) Entry() mover.Entry { return c.entry }
