package mem

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Walk implements mover.Source. It holds the tree only from one entry to the
// next, so what is changed behind it may or may not be seen.
func (p *Backend) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		if err := p.enter(ctx, "walk", opts.Dir, true); err != nil {
			yield(mover.Entry{}, err)
			return
		}
		w := &walk{place: p, ctx: ctx, opts: opts, yield: yield}
		dir := p.tree.findDir(opts.Dir)
		strays := p.strays(opts)
		p.tree.mu.Unlock()
		if !opts.ValidAfter() {
			w.end(fmt.Errorf("bad name to go on after: %w", mover.ErrUsage))
			return
		}
		if dir == nil {
			if !p.opts.ObjectStore || opts.Dir == "" {
				w.end(fmt.Errorf("no such directory: %w", mover.ErrNotExist))
			}
			return
		}
		for _, s := range strays {
			opts.Stray(s)
		}
		w.below(opts.Dir, dir)
	}
}

// walk is one walk under way.
type walk struct {
	place *Backend
	ctx   context.Context
	opts  mover.WalkOptions
	yield func(mover.Entry, error) bool
}

func (w *walk) end(err error) bool {
	w.yield(mover.Entry{}, w.place.fail("walk", w.opts.Dir, err))
	return false
}

// below yields what is in dir; false ends the walk.
func (w *walk) below(name string, dir *node) bool {
	t := w.place.tree
	t.mu.Lock()
	keys := slices.Sorted(maps.Keys(dir.children))
	t.mu.Unlock()
	for _, key := range keys {
		if !w.child(name, dir, key) {
			return false
		}
	}
	return true
}

func (w *walk) child(parent string, dir *node, key string) bool {
	base, isDir := strings.CutSuffix(key, "/")
	name := mover.Join(parent, base)
	kind := mover.File // or another one that is no directory
	if isDir {
		kind = mover.Dir
	}
	behind := w.opts.Behind(name, kind)
	if _, _, temp := mover.ParseTempName(base); temp || !behind && !(isDir && mover.Within(w.opts.After, name)) {
		return true
	}
	if err := w.place.enter(w.ctx, "walk", name, false); err != nil {
		w.yield(mover.Entry{}, err)
		return false
	}
	n := dir.children[key]
	var e mover.Entry
	if n != nil {
		e = w.place.brief(name, n, w.opts.Xattrs)
	}
	w.place.tree.mu.Unlock()
	if n == nil || w.opts.Skip != nil && w.opts.Skip(name, e.Kind) {
		return true
	}
	if behind && !w.yield(e, nil) {
		return false
	}
	return !isDir || w.below(name, n)
}

// strays lists the drafts below opts.Dir, by token.
func (p *Backend) strays(opts mover.WalkOptions) []mover.Stray {
	if opts.Stray == nil {
		return nil
	}
	var found []mover.Stray
	for token, d := range p.tree.drafts {
		if !mover.Within(d.begun.Name, opts.Dir) {
			continue
		}
		s := mover.Stray{Token: token, Owner: d.owner, Since: d.since.Std()}
		if p.opts.ObjectStore {
			s.Owner, s.Name = mover.WriterID{}, d.begun.Name
		}
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b mover.Stray) int { return cmp.Compare(a.Token, b.Token) })
	return found
}
