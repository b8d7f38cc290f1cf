package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// walkSizes say how much a walk holds.
type walkSizes struct {
	flat  int // a directory with fewer keys below it is listed flat, in one go
	level int // a directory with fewer entries is held whole
}

var defaultSizes = walkSizes{flat: 4 * s3api.PageKeys, level: 16 * s3api.PageKeys}

// Walk implements mover.Backend.
//
// A directory with few keys below it is listed flat; of a larger one, what is directly
// in it is listed, and the directories in it are listed ahead, several at a time.
// Keys come in the order of names but for names with escapes: those are sorted in,
// for which a directory is held, or, if that is too large, listed twice.
func (p *Backend) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		prefix, err := p.marker(opts.Dir)
		if err == nil {
			if _, err = p.key(strings.TrimSuffix(opts.After, "/")); err == nil && !opts.ValidAfter() {
				err = fmt.Errorf("%w: not a name below the root", mover.ErrUsage)
			}
		}
		if err == nil && opts.Stray != nil {
			err = p.strays(ctx, prefix, opts.Stray)
		}
		if err != nil {
			yield(mover.Entry{}, p.wrap("walk", opts.Dir, err))
			return
		}
		ctx, cancel := context.WithCancel(ctx)
		w := &walker{place: p, ctx: ctx, opts: opts, yield: yield}
		defer w.ahead.Wait()
		defer cancel()
		top := w.fetch(opts.Dir, prefix)
		w.list(top)
		if top.err != nil {
			yield(mover.Entry{}, p.wrap("walk", opts.Dir, top.err))
			return
		}
		if opts.Dir != "" || w.content(&item{dir: true, marker: top.marker, Object: s3api.Object{Size: top.content}}) {
			w.below(top)
		}
	}
}

// aFew is how many keys a call asks for that needs one: our own keys lie before the others.
const aFew = 16

// HoldsAny reports whether there is anything in the place, as far as a walk would tell of it, and asks for a few keys only.
func (p *Backend) HoldsAny(ctx context.Context) (bool, error) {
	w := &walker{place: p}
	for page, err := range p.store.List(ctx, s3api.Listing{Prefix: p.prefix, Max: aFew}) {
		if err != nil {
			return false, p.wrap("walk", "", err)
		}
		for i := range page {
			if it, ok := w.item(&page[i]); ok && it.name != "" {
				return true, nil
			}
		}
	}
	return false, nil
}

// strays tells of open uploads. They do not tell their owner. One of a manifest is
// of a run that died, because the lock is ours, and is not told but dropped.
//
// MinIO takes the prefix for a whole key: there, all uploads of the bucket are asked for.
func (p *Backend) strays(ctx context.Context, prefix string, tell func(mover.Stray)) error {
	asked := prefix
	if !p.profile.ListsUploads {
		asked = ""
	}
	for u, err := range p.store.ListUploads(ctx, asked) {
		if err != nil {
			if kind := s3api.KindOf(err); kind == mover.ErrUnsupported || kind == mover.ErrPermission && asked != prefix && !errors.Is(err, mover.ErrTransient) {
				return nil // a server that does not list them, or not to us
			}
			return err
		}
		if !strings.HasPrefix(u.Key, prefix) || p.uploads.has(u) {
			continue
		}
		if u.Key == p.ownKey(manifestName) || strings.HasPrefix(u.Key, p.ownKey(probePrefix)) {
			if err := p.abort(ctx, u); err != nil {
				return err
			}
			continue
		}
		rel, below := strings.CutPrefix(u.Key, p.prefix)
		if name, _ := nameOf(rel); below {
			tell(mover.Stray{Token: tokenOf(u, p.encryption()), Name: name, Since: u.Since})
		}
	}
	return nil
}

// walker is the state of one walk. Only its fetches run in goroutines.
type walker struct {
	place *Backend
	ctx   context.Context
	opts  mover.WalkOptions
	yield func(mover.Entry, error) bool
	ahead sync.WaitGroup
}

// item is one entry of a directory or below one, before it is yielded.
type item struct {
	name   string
	dir    bool  // a marker, a prefix, or what names have in common
	marker bool  // a directory that has a marker
	shelf  bool  // a directory with something of ours in it
	odd    bool  // the key sorts elsewhere than the name
	err    error // why the key has no name
	s3api.Object
}

func compareItems(a, b item) int { return mover.CompareNames(a.name, a.dir, b.name, b.dir) }

// fetch is a directory that is being listed flat.
type fetch struct {
	name, prefix string
	done         chan struct{}

	// Set when done is closed.
	items   []item          // without the directory itself
	shelves map[string]bool // directories that are or lie below it, with something of ours in them
	marker  bool            // the directory has one
	content int64           // bytes of that
	whole   bool            // items is all there is below it
	err     error
}

func (w *walker) fetch(name, prefix string) *fetch {
	return &fetch{name: name, prefix: prefix, done: make(chan struct{})}
}

// start lists the directory in the background.
func (w *walker) start(f *fetch) {
	w.ahead.Go(func() {
		defer close(f.done)
		if f.err = w.place.calls.Acquire(w.ctx, 1); f.err != nil {
			return
		}
		defer w.place.calls.Release(1)
		w.list(f)
	})
}

// list reads keys below the directory until there are none, or too many.
func (w *walker) list(f *fetch) {
	n, odd := 0, false
	for page, err := range w.place.store.List(w.ctx, s3api.Listing{Prefix: f.prefix}) {
		if err != nil {
			f.items, f.err = nil, err
			return
		}
		for i := range page {
			it, ok := w.item(&page[i])
			if !ok {
				f.shelf(page[i].Key[len(w.place.prefix):])
				continue
			}
			if it.dir && it.name == f.name {
				f.marker, f.content = true, it.Size
				continue
			}
			odd = odd || it.odd
			f.items = append(f.items, it)
		}
		if n += len(page); n >= w.place.walks.flat {
			f.items = nil                                                                                      // a level at a time, then
			f.shelves = map[string]bool{f.name: f.shelves[f.name] || page[len(page)-1].Key < f.prefix+own+"/"} // there may be
			return
		}
	}
	if f.err = context.Cause(w.ctx); f.err != nil {
		return
	}
	f.whole = true
	if odd {
		slices.SortStableFunc(f.items, compareItems)
	}
}

// shelf notes the directory that something of ours lies in.
func (f *fetch) shelf(key string) {
	dir, found := shelfIn(key)
	if name, err := DecodeKey(dir); found && err == nil {
		if f.shelves == nil {
			f.shelves = map[string]bool{}
		}
		f.shelves[name] = true
	}
}

// item decodes an object of a listing. ok is false for what is our own, the backup
// too. A prefix has size -1.
func (w *walker) item(o *s3api.Object) (it item, ok bool) {
	rel, below := strings.CutPrefix(o.Key, w.place.prefix)
	if backup := w.place.opts.Backup; isOwn(rel) || backup != "" && strings.HasPrefix(o.Key, backup) {
		return it, false
	}
	it.Object = *o
	key, dir := strings.CutSuffix(rel, "/")
	it.dir, it.marker = dir, dir && o.Size >= 0
	if rel == "" && below { // of the root
		it.dir, it.marker = true, true
		return it, true
	}
	if key == "" {
		key = rel // "/": a segment without a name
	}
	if dir {
		it.name, it.err = DecodeKey(key)
	} else {
		it.name, it.err = nameOf(key)
	}
	if it.err != nil {
		it.name = nameless(rel)
		it.dir = it.dir && !it.marker
	}
	it.odd = it.name != key
	return it, true
}

// below yields all below a directory that was fetched. It returns false when the
// walk is over.
func (w *walker) below(f *fetch) bool {
	if !f.whole {
		return w.level(f)
	}
	path := f.name // the directory that we are in
	skipped := ""  // a directory that is left out
	for i := range f.items {
		it := &f.items[i]
		if skipped != "" && mover.Within(it.name, skipped) {
			continue
		}
		parent, _ := mover.Parent(it.name)
		var ok bool
		if path, skipped, ok = w.descend(f, path, parent); !ok {
			return false
		}
		if skipped != "" {
			continue
		}
		if it.dir {
			path = it.name
			if w.opts.Skip != nil && w.opts.Skip(it.name, mover.Dir) {
				path, skipped = parent, it.name
				continue
			}
		}
		it.shelf = it.dir && f.shelves[it.name]
		if !w.emit(it) {
			return false
		}
	}
	return true
}

// descend yields the directories between where we are and parent that have no
// marker of their own, of what was fetched.
func (w *walker) descend(f *fetch, path, parent string) (now, skipped string, ok bool) {
	for !mover.Within(parent, path) {
		path, _ = mover.Parent(path)
	}
	for path != parent {
		rest := strings.TrimPrefix(parent[len(path):], "/")
		seg, _, _ := strings.Cut(rest, "/")
		path = mover.Join(path, seg)
		if w.opts.Skip != nil && w.opts.Skip(path, mover.Dir) {
			dir, _ := mover.Parent(path)
			return dir, path, true
		}
		if !w.emit(&item{name: path, dir: true, shelf: f.shelves[path]}) {
			return path, "", false
		}
	}
	return path, "", true
}

// pending is an entry of a large directory that waits for its turn. A directory
// is being listed meanwhile.
type pending struct {
	item
	fetch *fetch // nil of what is not a directory
}

// level yields what is directly in a large directory, and below it.
func (w *walker) level(f *fetch) bool {
	var queue []pending
	fetches := 0
	flush := func(keep int) bool { // yields from the front, until keep directories wait
		for len(queue) > 0 && (fetches > keep || queue[0].fetch == nil) {
			next := queue[0]
			queue = queue[1:]
			if next.fetch != nil {
				fetches--
			}
			if !w.turn(&next) {
				return false
			}
		}
		return true
	}
	for it, err := range w.children(f) {
		if err != nil {
			return w.yield(mover.Entry{Name: f.name, Kind: mover.Dir}, w.place.wrap("walk", f.name, err)) && f.name != ""
		}
		next := pending{item: it}
		if it.dir && it.err == nil {
			if w.done(it.name) || w.opts.Skip != nil && w.opts.Skip(it.name, mover.Dir) {
				continue
			}
			next.fetch = w.fetch(it.name, it.Key)
			w.start(next.fetch)
			fetches++
		}
		queue = append(queue, next)
		if !flush(w.place.ahead()) {
			return false
		}
	}
	return flush(0)
}

// turn yields the next entry in order, and what is below it.
func (w *walker) turn(next *pending) bool {
	if next.fetch == nil {
		return w.emit(&next.item)
	}
	return w.dir(next.fetch)
}

// dir yields a directory that was listed ahead and all below it.
func (w *walker) dir(f *fetch) bool {
	<-f.done
	if f.err != nil {
		if w.ctx.Err() != nil {
			w.yield(mover.Entry{}, context.Cause(w.ctx))
			return false
		}
		return w.yield(mover.Entry{Name: f.name, Kind: mover.Dir}, w.place.wrap("walk", f.name, f.err))
	}
	return w.emit(&item{name: f.name, dir: true, marker: f.marker, shelf: f.shelves[f.name], Object: s3api.Object{Size: f.content}}) && w.below(f)
}

// children yields what is directly in a directory, in order.
func (w *walker) children(f *fetch) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		var first, odd []item
		last, whole := "", true
		for it, err := range w.listLevel(f, "") {
			switch {
			case err != nil:
				yield(item{}, err)
				return
			case it.odd:
				odd = append(odd, it)
			case len(first) < w.place.walks.level:
				first, last = append(first, it), it.Key
			default:
				whole = false
			}
		}
		slices.SortStableFunc(odd, compareItems)
		merge := func(it item) bool { // yields the odd ones that come before, then it
			for len(odd) > 0 && compareItems(odd[0], it) < 0 {
				if !yield(odd[0], nil) {
					return false
				}
				odd = odd[1:]
			}
			return yield(it, nil)
		}
		for _, it := range first {
			if !merge(it) {
				return
			}
		}
		if !whole {
			for it, err := range w.listLevel(f, last) {
				if err != nil {
					yield(item{}, err)
					return
				}
				if !it.odd && it.Key > last && !merge(it) {
					return
				}
			}
		}
		for _, it := range odd {
			if !yield(it, nil) {
				return
			}
		}
	}
}

// listLevel lists what is directly in a directory, behind a key.
func (w *walker) listLevel(f *fetch, after string) iter.Seq2[item, error] {
	return func(yield func(item, error) bool) {
		for page, err := range w.place.store.List(w.ctx, s3api.Listing{Prefix: f.prefix, Delimiter: "/", After: after}) {
			if err != nil {
				yield(item{}, err)
				return
			}
			for i := range page {
				it, ok := w.item(&page[i])
				if !ok || page[i].Key == f.prefix {
					continue
				}
				if !yield(it, nil) {
					return
				}
			}
		}
		if err := context.Cause(w.ctx); err != nil {
			yield(item{}, err)
		}
	}
}

// done reports whether all in a directory comes before where the walk goes on.
func (w *walker) done(dir string) bool {
	return !w.opts.Behind(dir, mover.Dir) && !strings.HasPrefix(w.opts.After, dir+"/")
}

// emit yields one entry, unless it is left out.
func (w *walker) emit(it *item) bool {
	if err := w.ctx.Err(); err != nil {
		w.yield(mover.Entry{}, context.Cause(w.ctx))
		return false
	}
	kind := mover.File
	if it.dir {
		kind = mover.Dir
	}
	if it.err != nil && it.dir {
		return w.namelessBelow(it.name, it.Key)
	}
	if !w.opts.Behind(it.name, kind) {
		return w.content(it)
	}
	if it.err != nil {
		return w.nameless(it.name, it, it.err)
	}
	if !it.dir && w.opts.Skip != nil && w.opts.Skip(it.name, kind) {
		return true
	}
	return w.yield(it.entry(), nil) && w.content(it)
}

// content reports a marker that has content, as other programs may keep under such a name. A directory can not have content, and a copy that took the object
// for a directory would lose it.
func (w *walker) content(it *item) bool {
	if !it.dir || !it.marker || it.Size <= 0 {
		return true
	}
	name := mover.Join(it.name, first) // between the directory and what is in it
	if !w.opts.Behind(name, mover.File) {
		return true
	}
	key, err := w.place.marker(it.name)
	if err != nil {
		return w.yield(mover.Entry{Name: name, Kind: mover.File}, w.place.wrap("walk", it.name+"/", err))
	}
	object := it.Object
	object.Key = key
	return w.nameless(name, &item{Object: object}, fmt.Errorf("%w: the object has %d bytes, and its name ends in '/', as that of a directory: rename it in the store to bring it over", mover.ErrUnsupported, it.Size))
}

// nameless tells of an object that no name leads to.
func (w *walker) nameless(near string, it *item, err error) bool {
	key := strings.TrimPrefix(it.Key, w.place.prefix)
	if w.opts.Skip != nil && w.opts.Skip(key, 0) {
		return true
	}
	e := it.entry()
	e.Name, e.Key = near, key
	return w.yield(e, w.place.wrap("walk", key, err))
}

// namelessBelow tells of all below a prefix that no name leads to, in the order of the names that they are given: they are held for it.
func (w *walker) namelessBelow(near, prefix string) bool {
	var items []item
	for page, err := range w.place.store.List(w.ctx, s3api.Listing{Prefix: prefix}) {
		if err == nil && len(items)+len(page) > w.place.walks.level {
			err = fmt.Errorf("%w: it has more than %d keys that name no files; rename them in the store", mover.ErrUnsupported, w.place.walks.level)
		}
		if err != nil {
			return w.yield(mover.Entry{Name: near, Kind: mover.Dir}, w.place.wrap("walk", strings.TrimPrefix(prefix, w.place.prefix), err))
		}
		for i := range page {
			if it, ok := w.item(&page[i]); ok {
				items = append(items, it)
			}
		}
	}
	slices.SortStableFunc(items, compareItems)
	for i := range items {
		if !w.emit(&items[i]) {
			return false
		}
	}
	return true
}

// entry is what a listing tells of an item.
func (it *item) entry() mover.Entry {
	if it.dir {
		return mover.Entry{Name: it.name, Kind: mover.Dir, Brief: it.marker, Shelf: it.shelf}
	}
	return mover.Entry{Name: it.name, Kind: mover.File, Brief: true, Size: it.Size, Stored: it.Size, ETag: it.ETag, Version: it.Version, Mtime: mover.TimeOf(it.Modified)}
}

// Glance is what a walk tells of a name, and no more, but for the time: a catalog that looks at single names is as one that was made by a walk. It asks for the object itself, because
// a listing may be some seconds old (MinIO).
func (p *Backend) Glance(ctx context.Context, name string) (mover.Entry, error) {
	e, err := p.glance(ctx, name)
	return e, p.wrap("look at", name, err)
}

func (p *Backend) glance(ctx context.Context, name string) (mover.Entry, error) {
	if name == "" {
		return mover.Entry{Kind: mover.Dir}, nil
	}
	key, err := p.key(name)
	if err != nil {
		return mover.Entry{}, err
	}
	o, err := p.store.Head(ctx, key, "")
	if errors.Is(err, mover.ErrNotExist) {
		_, err := p.statDir(ctx, name)
		return mover.Entry{Name: name, Kind: mover.Dir}, err
	}
	return mover.Entry{Name: name, Kind: mover.File, Brief: true, Size: o.Size, Stored: o.Size, ETag: o.ETag, Version: o.Version}, err
}
