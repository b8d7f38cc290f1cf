package manifest

import (
	"io"
	"strings"

	"datamove.dev/mover"
)

// layer is a manifest that is being read beside a walk: that of the backend, or above it that of a directory.
type layer struct {
	*entries        // nil is none
	dir      string // that the manifest is of
	around   *layer // nil of that of the backend
	mark     uint64 // keeps its inodes apart from those of others
	done     func()

	head mover.Entry // while more
	more bool
}

// markBits leaves room for the inodes of one manifest.
const markBits = 40

// next reads on. Names are those of the place.
func (l *layer) next() error {
	l.more = false
	if l.entries == nil {
		return nil
	}
	e, err := l.Next()
	if err == io.EOF {
		return nil
	}
	if err != nil {
		return err
	}
	if l.dir != "" {
		e.Name = strings.TrimSuffix(l.dir+"/"+e.Name, "/")
	}
	if e.Ino != 0 {
		e.Ino |= l.mark << markBits
	}
	l.head, l.more = e, true
	return nil
}

// failed is the entry that gets the error of an unreadable manifest: the directory, or with that of the backend the walk.
func (l *layer) failed() mover.Entry {
	if l.around == nil {
		return mover.Entry{}
	}
	return mover.Entry{Name: l.dir, Kind: mover.Dir}
}

// knows reports whether an entry is the next one.
func (l *layer) knows(e *mover.Entry) bool { return l.more && mover.Compare(&l.head, e) == 0 }

// newer reports whether a manifest was written after another one.
func (l *layer) newer(than *layer) bool {
	return l.entries != nil && l.Header().Created.After(than.Header().Created)
}

// begin reads the manifests of the directories in which a walk of a part begins.
func (w *walk) begin() {
	path := w.opts.Dir
	if after := w.opts.After; after != "" {
		if dir, in := strings.CutSuffix(after, "/"); in {
			path = dir
		} else {
			path, _ = mover.Parent(after)
		}
	}
	if w.place.below == nil || path == "" {
		return
	}
	dir := ""
	for segment := range strings.SplitSeq(path, "/") {
		dir = mover.Join(dir, segment)
		e := mover.Entry{Name: dir, Kind: mover.Dir}
		for w.top.more && !w.ended && mover.Compare(&w.top.head, &e) < 0 {
			w.next()
		}
		if err := w.descend(dir, w.top.knows(&e)); err != nil {
			w.tell(e, err)
		}
	}
}

// descend goes on with the manifest of a directory, if it has one that counts more than the one around it, which may know of the directory.
func (w *walk) descend(dir string, known bool) error {
	if w.place.below == nil || w.ended {
		return nil
	}
	body, err := w.place.below(w.ctx, dir)
	r, done, err := w.place.begin(body, err, dir)
	if err != nil || r == nil {
		return err
	}
	l := &layer{entries: r, dir: dir, around: w.top, mark: w.count + 1, done: done}
	if known && w.top.newer(l) {
		done()
		return nil
	}
	if err := l.next(); err != nil {
		done()
		return w.place.fail("read the manifest of", dir, err)
	}
	w.count, w.top = l.mark, l
	return nil
}

// rise goes on with the manifest around the one that counted. What that says of the directory does not count.
func (w *walk) rise() {
	dir := w.top.dir
	w.top.done()
	w.top = w.top.around
	for w.top.more && !w.ended && mover.Within(w.top.head.Name, dir) {
		w.next()
	}
}

// end closes all that is open.
func (w *walk) end() {
	for ; w.top != nil; w.top = w.top.around {
		w.top.done()
	}
}
