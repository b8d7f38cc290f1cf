package manifest

import (
	"io"
	"iter"
	"strings"

	"datamove.dev/mover"
)

// walk merges the walk of a place with its manifest; both have one order.
type walk struct {
	place    *source
	opts     mover.WalkOptions
	manifest *entries
	yield    func(mover.Entry, error) bool

	head  mover.Entry // of the manifest, while more
	more  bool
	dirs  []string // directories of the place on the way down
	ended bool     // nothing more may be yielded
}

func (w *walk) run(entries iter.Seq2[mover.Entry, error]) {
	w.next()
	for e, err := range entries {
		if err != nil {
			w.failed(e, err)
		} else {
			w.listed(e)
		}
		if w.ended {
			return
		}
	}
	for w.more && !w.ended {
		w.onlyListed()
	}
}

// tell yields, and notes when the walk is over.
func (w *walk) tell(e mover.Entry, err error) {
	if !w.ended && (!w.yield(e, err) || err != nil && e.Kind == 0) {
		w.ended = true
	}
}

// next reads the manifest.
func (w *walk) next() {
	var err error
	w.head, err = w.manifest.Next()
	w.more = err == nil
	if err != nil && err != io.EOF {
		w.tell(mover.Entry{}, w.place.fail("read the manifest of", "", err))
	}
}

// listed yields an entry of the place, with what the manifest knows of it.
func (w *walk) listed(e mover.Entry) {
	for w.more && !w.ended && mover.Compare(&w.head, &e) < 0 {
		w.onlyListed()
	}
	if w.ended {
		return
	}
	w.leave(e.Name)
	if e.Kind == mover.Dir {
		w.dirs = append(w.dirs, e.Name)
	}
	if !w.more || mover.Compare(&w.head, &e) != 0 {
		w.tell(e, nil)
		return
	}
	head := w.head
	w.tell(merge(e, head), nil)
	w.next()
}

// failed passes an error on. What the manifest says of a directory that can not be
// listed is not believed.
func (w *walk) failed(e mover.Entry, err error) {
	for e.Kind == mover.Dir && w.more && !w.ended && mover.Compare(&w.head, &e) < 0 {
		w.onlyListed()
	}
	w.tell(e, err)
	for e.Kind == mover.Dir && w.more && !w.ended && mover.Within(w.head.Name, e.Name) {
		w.next()
	}
	for n := len(w.dirs); n > 0 && e.Kind != 0 && mover.Within(w.dirs[n-1], e.Name); n-- {
		w.dirs = w.dirs[:n-1]
	}
}

// leave forgets the directories that do not hold name.
func (w *walk) leave(name string) {
	for n := len(w.dirs); n > 0 && !mover.Within(name, w.dirs[n-1]); n-- {
		w.dirs = w.dirs[:n-1]
	}
}

// onlyListed deals with an entry that the place has not at all. It is yielded when
// the place could not have it, and its directory is still there.
func (w *walk) onlyListed() {
	e := w.head
	if keptOnly(w.place, e.Kind) && w.wanted(&e) {
		if e.Kind == mover.Dir {
			w.dirs = append(w.dirs, e.Name)
		}
		w.tell(e, nil)
	}
	if !w.ended {
		w.next()
	}
}

func (w *walk) wanted(e *mover.Entry) bool {
	if e.Name == w.opts.Dir || !mover.Within(e.Name, w.opts.Dir) || !w.opts.Behind(e.Name, e.Kind) {
		return false
	}
	w.leave(e.Name)
	dir, _ := mover.Parent(e.Name)
	there := dir == w.opts.Dir || strings.HasPrefix(w.opts.After, dir+"/") || len(w.dirs) > 0 && w.dirs[len(w.dirs)-1] == dir
	return there && !(w.opts.Skip != nil && w.opts.Skip(e.Name, e.Kind))
}

// merge returns the entry of a place with what else is known of it, if it is the
// same one.
func merge(here, known mover.Entry) mover.Entry {
	if !same(&here, &known) {
		return here
	}
	e := known
	e.Name, e.ETag, e.Version, e.Brief = here.Name, here.ETag, here.Version, false
	e.Known |= here.Known
	if e.Stored == 0 {
		e.Stored = here.Stored
	}
	prefer(&e, &here)
	return e
}

// same reports whether the manifest, or an entry that was seen before, means what is
// here. A store's listing calls symbolic links files; their ETag tells.
func same(here, known *mover.Entry) bool {
	if here.Kind == mover.Dir || known.Kind == mover.Dir || known.Kind.Special() {
		return here.Kind == known.Kind
	}
	if known.ETag == "" || here.ETag != known.ETag {
		return false
	}
	return here.Kind == known.Kind && here.Size == known.Size || here.Kind == mover.File && known.Kind == mover.Symlink
}

// prefer takes over the facts that are known here.
func prefer(e, here *mover.Entry) {
	known := here.Known
	if known.Has(mover.FactMode) && (e.Mode&here.Mode != here.Mode || e.Mode&0o777 != here.Mode&0o777) {
		e.Mode = here.Mode
	}
	e.Take(here, known&^(mover.FactMode|mover.FactLinks))
	if here.Nlink > 1 && known.Has(mover.FactLinks) || here.Ino != 0 {
		e.Dev, e.Ino, e.Gen, e.Nlink = here.Dev, here.Ino, here.Gen, here.Nlink
	}
}
