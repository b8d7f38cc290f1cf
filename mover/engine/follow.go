package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// following is a tree in which links are what they lead to, also outside of it: a file, or a folder with all that is in it. An entry that is
// reached by a link has its path as Target.
type following struct {
	mover.Backend
	root string // without links
	at   func(ctx context.Context, dir string) (mover.Backend, error)
}

// follow returns the tree of a backend with its links followed. Each folder that a link leads to is opened like a folder that a caller names.
func follow(place mover.Backend, l location.Location, open Opener, o OpenOptions) (mover.Backend, error) {
	path, err := filepath.Abs(l.Path)
	if err != nil {
		return nil, err
	}
	return &following{place, real(path), func(ctx context.Context, dir string) (mover.Backend, error) {
		return open(ctx, location.OfPath(dir), o)
	}}, nil
}

// Unwrap lets optional interfaces of the tree be found.
func (f *following) Unwrap() any { return f.Backend }

// Walk implements mover.Source. A link that leads nowhere, or to a folder that it is in, is an error.
func (f *following) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		w := &linkWalk{following: f, ctx: ctx, opts: opts, yield: yield}
		w.tree(f.Backend, linked{real: f.root}, nil)
	}
}

// linked is a folder that a link leads to, and the one that the link is in.
type linked struct{ name, real, from string }

// linkWalk is one walk.
type linkWalk struct {
	*following
	ctx   context.Context
	opts  mover.WalkOptions
	yield func(mover.Entry, error) bool
}

// tree yields what is in a folder, and returns false when the walk is over. Above are the folders of the links that it was reached by. A link to a
// folder waits for its turn: the folder comes later than the link would.
func (w *linkWalk) tree(place mover.Backend, of linked, above []string) bool {
	if of.from != "" {
		above = append(slices.Clone(above), of.from)
	}
	opts := w.opts
	opts.Dir, opts.After = "", ""
	if skip := w.opts.Skip; skip != nil {
		opts.Skip = func(name string, kind mover.Kind) bool { return skip(mover.Join(of.name, name), kind) }
	}
	var waiting []linked
	for e, err := range place.Walk(w.ctx, opts) {
		rel := e.Name
		if rel != "" || err == nil {
			e.Name = mover.Join(of.name, rel)
		}
		for len(waiting) > 0 && e.Name != "" && mover.CompareNames(waiting[0].name, true, e.Name, e.Kind == mover.Dir) < 0 {
			if !w.folder(waiting[0], above) {
				return false
			}
			waiting = waiting[1:]
		}
		switch path := filepath.Join(of.real, rel); {
		case err != nil:
		case e.Kind == mover.Symlink:
			var dir linked
			if e, dir, err = w.link(e, path, above); dir.real != "" {
				i, _ := slices.BinarySearchFunc(waiting, dir, func(a, b linked) int { return mover.CompareNames(a.name, true, b.name, true) })
				waiting = slices.Insert(waiting, i, dir)
				continue
			}
		case of.name != "":
			e.Target = path
		}
		if !w.yield(e, err) {
			return false
		}
	}
	for _, dir := range waiting {
		if !w.folder(dir, above) {
			return false
		}
	}
	return true
}

// link is the entry that a link leads to, or the folder.
func (w *linkWalk) link(e mover.Entry, path string, above []string) (mover.Entry, linked, error) {
	fail := func(err error) (mover.Entry, linked, error) {
		return mover.Entry{Name: e.Name, Kind: mover.File}, linked{}, &mover.Error{Op: "follow the link", Location: w.String(), Name: e.Name, Err: err}
	}
	to, err := filepath.EvalSymlinks(path)
	var info os.FileInfo
	if err == nil {
		info, err = os.Stat(to)
	}
	if err != nil {
		return fail(fmt.Errorf("%w; leave out --follow (-L), or exclude it", leadsNowhere(path, err)))
	}
	if info.IsDir() {
		for _, dir := range append(above[:len(above):len(above)], filepath.Dir(path)) {
			if in(dir, to) {
				return fail(fmt.Errorf("%w: it leads round to %s", mover.ErrConflict, mover.Printable(to)))
			}
		}
		return e, linked{name: e.Name, real: to, from: filepath.Dir(path)}, nil
	}
	found, err := w.look(w.ctx, e.Name, to, false)
	if err != nil {
		return fail(err)
	}
	return found, linked{}, nil
}

// in reports whether a path is dir or lies below it.
func in(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

// folder yields a folder that a link leads to, and what is in it.
func (w *linkWalk) folder(of linked, above []string) bool {
	if w.opts.Skip != nil && w.opts.Skip(of.name, mover.Dir) {
		return true
	}
	e, err := w.look(w.ctx, of.name, of.real, true)
	if err != nil {
		return w.yield(mover.Entry{Name: of.name, Kind: mover.Dir}, err)
	}
	if !w.yield(e, nil) {
		return false
	}
	place, err := w.at(w.ctx, of.real)
	if err != nil {
		return w.yield(mover.Entry{Name: of.name, Kind: mover.Dir}, err)
	}
	defer place.Close()
	return w.tree(place, of, above)
}

// around opens the folder that a path is in, or is, and says by which name it is there.
func (f *following) around(ctx context.Context, path string, dir bool) (place mover.Backend, name string, err error) {
	if !dir {
		path, name = filepath.Split(path)
	}
	place, err = f.at(ctx, path)
	return place, name, err
}

// look is the entry at a path, by another name.
func (f *following) look(ctx context.Context, as, path string, dir bool) (mover.Entry, error) {
	place, name, err := f.around(ctx, path, dir)
	if err != nil {
		return mover.Entry{}, err
	}
	e, err := place.Stat(ctx, name)
	e.Name, e.Target = as, path
	return e, errors.Join(err, place.Close())
}

// Stat implements mover.Source.
func (f *following) Stat(ctx context.Context, name string) (mover.Entry, error) {
	path := filepath.Join(f.root, name)
	to, err := filepath.EvalSymlinks(path)
	if err != nil || to == path {
		return f.Backend.Stat(ctx, name)
	}
	info, err := os.Stat(to)
	if err != nil {
		return f.Backend.Stat(ctx, name)
	}
	return f.look(ctx, name, to, info.IsDir())
}

// Open implements mover.Source.
func (f *following) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	if e.Target == "" || e.Kind == mover.Symlink {
		return f.Backend.Open(ctx, e)
	}
	place, name, err := f.around(ctx, e.Target, e.Kind == mover.Dir)
	if err != nil {
		return nil, err
	}
	as := e.Name
	e.Name, e.Target = name, ""
	c, err := place.Open(ctx, e)
	if err != nil {
		return nil, errors.Join(err, place.Close())
	}
	return &linkedContent{renamed{c, as}, place}, nil
}

// linkedContent is a content of a place that was opened for it alone.
type linkedContent struct {
	renamed
	place mover.Backend
}

// Close implements mover.Content.
func (e *linkedContent) Close() error { return errors.Join(e.renamed.Close(), e.place.Close()) }
