package manifest

import (
	"context"
	"errors"
	"io"
	"strings"

	"datamove.dev/mover"
)

// Part is the manifest of a tree that the place is only a part of: Below is the name that its root has there.
type Part struct {
	io.ReadCloser
	Below string
}

// Finding is Overlay for a place of which single names are asked for: Stat tells what the manifest knows of each, for which the manifest is read up to that name.
func Finding(p mover.Backend, open Opener) mover.Backend {
	return &place{p, source{Source: p, open: open, finds: true}}
}

// entries reads a manifest, or the part of it that the place is.
type entries struct {
	*Reader
	below string
}

// Next returns the next entry of the part, by its name there.
func (r *entries) Next() (mover.Entry, error) {
	for {
		e, err := r.Reader.Next()
		if err != nil || r.below == "" {
			return e, err
		}
		switch {
		case mover.Within(e.Name, r.below) && (e.Name != r.below || e.Kind == mover.Dir):
			e.Name = strings.TrimPrefix(e.Name[len(r.below):], "/")
			return e, nil
		case mover.CompareNames(e.Name, e.Kind == mover.Dir, r.below, true) > 0:
			return mover.Entry{}, io.EOF
		}
	}
}

// find returns what the manifest knows of a name that is no directory.
func (s *source) find(ctx context.Context, name string) (known mover.Entry, ok bool, err error) {
	r, done, err := s.read(ctx)
	if err != nil || r == nil {
		return known, false, err
	}
	defer done()
	for {
		e, err := r.Next()
		switch {
		case err == io.EOF:
			return known, false, nil
		case err != nil:
			return known, false, s.fail("read the manifest of", name, err)
		case e.Name == name && e.Kind != mover.Dir:
			return e, true, nil
		case mover.CompareNames(e.Name, e.Kind == mover.Dir, name, false) > 0:
			return known, false, nil
		}
	}
}

// statFound is Stat that finds. What only a manifest can have is there, too.
func (s *source) statFound(ctx context.Context, name string) (mover.Entry, error) {
	e, err := s.Source.Stat(ctx, name)
	missing := errors.Is(err, mover.ErrNotExist)
	if err != nil && !missing || e.Kind == mover.Dir {
		return e, err
	}
	known, ok, findErr := s.find(ctx, name)
	switch {
	case findErr != nil:
		return e, findErr
	case missing && ok && known.Kind.Special():
		return known, nil
	case missing || !ok:
		return e, err
	}
	return merge(e, known), nil
}
