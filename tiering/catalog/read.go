package catalog

import (
	"context"
	"iter"

	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/kvstore"
	"datamove.dev/tiering/dataset"
)

// Get returns what is known of a name; mover.ErrNotExist when nothing is.
func (c *Catalog) Get(tree Tree, name string) (dataset.File, error) {
	v := c.view()
	defer v.close()
	f, err := v.get(tree, name)
	if err == nil && f.Kind == 0 {
		err = &mover.Error{Op: "find", Location: tree.String(), Name: name, Err: mover.ErrNotExist}
	}
	if err != nil {
		return dataset.File{}, c.failed("read", err)
	}
	return f, nil
}

func (v *view) get(tree Tree, name string) (dataset.File, error) {
	s, err := stateIn(v.txn, tree)
	if err != nil || s.Root == 0 {
		return dataset.File{}, err
	}
	dir, base := mover.Parent(name)
	n, err := v.find(number(s.Root), dir)
	if err != nil || n == 0 {
		return dataset.File{}, err
	}
	for _, as := range []string{base, base + "/"} {
		_, raw, err := v.page(n, bound{name: as})
		if err != nil || raw == nil {
			return dataset.File{}, err
		}
		files, err := readPage(nil, raw, dir)
		if err != nil {
			return dataset.File{}, err
		}
		for _, f := range files {
			if f.Base == base {
				return f, nil
			}
		}
	}
	return dataset.File{}, nil
}

// Below yields what is below a directory of a tree in the order of walks: see mover.Compare. It is one moment.
func (c *Catalog) Below(ctx context.Context, tree Tree, dir string) iter.Seq2[dataset.File, error] {
	return func(yield func(dataset.File, error) bool) {
		v := c.view()
		defer v.close()
		s, err := stateIn(v.txn, tree)
		n := number(s.Root)
		if err == nil {
			n, err = v.find(n, dir)
		}
		if err == nil && n == 0 {
			err = &mover.Error{Op: "list", Location: tree.String(), Name: dir, Err: mover.ErrNotExist}
		}
		if err == nil {
			_, err = v.below(ctx, n, dir, yield)
		}
		if err != nil {
			yield(dataset.File{}, c.failed("read", err))
		}
	}
}

// below yields what is in a folder. It reports false when the caller wants no more.
func (v *view) below(ctx context.Context, n number, dir string, yield func(dataset.File, error) bool) (more bool, err error) {
	for b := (bound{}); ; b.name += "\x00" {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		var raw []byte
		if b, raw, err = v.page(n, b); err != nil || raw == nil {
			return true, err
		}
		files, err := readPage(nil, raw, dir)
		if err != nil {
			return false, err
		}
		for _, f := range files {
			if !yield(f, nil) {
				return false, nil
			}
			if f.Kind != mover.Dir {
				continue
			}
			child, err := v.child(n, f.Base)
			if err != nil {
				return false, err
			}
			if child == 0 {
				continue // a scan is on its way into it
			}
			if more, err := v.below(ctx, child, f.Name(), yield); !more || err != nil {
				return more, err
			}
		}
		if b.last {
			return true, nil
		}
	}
}

// Range is a part of the folders of all trees, for one of several goroutines that read them.
type Range struct{ from, to number }

// Ranges cuts all folders into parts of about the same size.
func (c *Catalog) Ranges(parts int) (all []Range) {
	c.mu.Lock()
	next := c.next
	c.mu.Unlock()
	step := (next + number(parts) - 1) / number(parts)
	for from := number(1); from < next; from += step {
		all = append(all, Range{from, min(from+step, next)})
	}
	return all
}

// Each calls do for all entries of a tree, from as many goroutines as workers says: as fast as it goes, in no order, and for each
// worker in turn its own number. What is given to do is valid during the call, but for its names. do says whether it wants more.
func (c *Catalog) Each(ctx context.Context, tree Tree, workers int, do func(worker int, files []dataset.File) error) error {
	ranges := make(chan Range)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(ranges)
		for _, r := range c.Ranges(8 * workers) {
			select {
			case ranges <- r:
			case <-gctx.Done():
				return context.Cause(gctx)
			}
		}
		return nil
	})
	for w := range workers {
		g.Go(func() error {
			for r := range ranges {
				if err := c.eachIn(gctx, tree, r, func(files []dataset.File) error { return do(w, files) }); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return c.failed("read", err)
	}
	return nil
}

// eachIn reads a range.
func (c *Catalog) eachIn(ctx context.Context, tree Tree, r Range, do func([]dataset.File) error) error {
	v := c.view()
	defer v.close()
	paths := newPaths(v, tree)
	var files []dataset.File
	var dir string
	inside, ease := false, easing{c: c}
	for v.it.Seek(recordKey(r.from)); v.it.Valid(); v.it.Next() {
		item := v.it.Item()
		key := item.Key()
		n := numberOf(key)
		if n >= r.to {
			return nil
		}
		if key[9] == partRecord {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			var err error
			dir, inside, err = paths.of(n)
			if err != nil {
				return err
			}
			continue
		}
		if !inside {
			continue
		}
		err := item.Value(func(b []byte) (err error) {
			ease.moved(len(b))
			files, err = readPage(files[:0], b, dir)
			return err
		})
		if err != nil {
			return kvstore.Damage(err)
		}
		if err := do(files); err != nil {
			return err
		}
	}
	return nil
}

// paths finds the names of folders.
type paths struct {
	v     *view
	tree  string
	known map[number]place
}

// place is where a folder is.
type place struct {
	dir    string
	inside bool // in the tree
}

// pathsMost bounds what is remembered. Folders follow each other as a walk found them, so what is above is there.
const pathsMost = 100_000

func newPaths(v *view, tree Tree) *paths {
	return &paths{v, tree.key(), map[number]place{}}
}

// of returns the name of a folder, and whether it is in the tree.
func (p *paths) of(n number) (string, bool, error) {
	if at, ok := p.known[n]; ok {
		return at.dir, at.inside, nil
	}
	r, err := p.v.record(n)
	if err != nil {
		return "", false, err
	}
	var at place
	if r.parent == 0 {
		at.inside = r.base == p.tree
	} else {
		dir, inside, err := p.of(r.parent)
		if err != nil {
			return "", false, err
		}
		at = place{mover.Join(dir, r.base), inside}
	}
	if len(p.known) >= pathsMost {
		clear(p.known)
	}
	p.known[n] = at
	return at.dir, at.inside, nil
}
