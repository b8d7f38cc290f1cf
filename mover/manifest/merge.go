package manifest

import (
	"context"
	"iter"
	"strings"

	"datamove.dev/mover"
)

// walk merges the walk of a place with its manifests; all have one order.
type walk struct {
	place *source
	ctx   context.Context
	opts  mover.WalkOptions
	yield func(mover.Entry, error) bool

	top   *layer
	count uint64   // of layers above the first one
	dirs  []string // directories of the place on the way down
	ended bool     // nothing more may be yielded
}

func (w *walk) run(entries iter.Seq2[mover.Entry, error]) {
	w.next()
	w.begin()
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
	for !w.ended {
		for w.top.more && !w.ended {
			w.onlyListed()
		}
		if w.top.around == nil {
			return
		}
		w.rise()
	}
}

// tell yields, and notes when the walk is over.
func (w *walk) tell(e mover.Entry, err error) {
	if !w.ended && (!w.yield(e, err) || err != nil && e.Kind == 0) {
		w.ended = true
	}
}

// next reads the manifest that counts.
func (w *walk) next() {
	l := w.top
	if err := l.next(); err != nil {
		w.tell(l.failed(), w.place.fail("read the manifest of", l.dir, err))
	}
}

// listed yields an entry of the place, with what the manifest knows of it.
func (w *walk) listed(e mover.Entry) {
	w.upTo(&e)
	if w.ended {
		return
	}
	w.leave(e.Name)
	if e.Kind == mover.Dir {
		w.dirs = append(w.dirs, e.Name)
	}
	here, known := e, w.top.knows(&e)
	if known {
		e = merge(here, w.top.head)
	}
	var err error
	if here.Shelf {
		if err = w.descend(here.Name, known); w.top.dir == here.Name && w.top.knows(&here) {
			e, known = merge(here, w.top.head), true
		}
	}
	if w.tell(e, nil); err != nil {
		w.tell(mover.Entry{Name: here.Name, Kind: mover.Dir}, err)
	}
	if known && w.top.knows(&here) {
		w.next()
	}
}

// upTo deals with all that manifests have before an entry of the place.
func (w *walk) upTo(e *mover.Entry) {
	for {
		for w.top.more && !w.ended && mover.Compare(&w.top.head, e) < 0 {
			w.onlyListed()
		}
		if w.ended || mover.Within(e.Name, w.top.dir) {
			return
		}
		w.rise()
	}
}

// failed passes an error on. What manifests say of a directory that can not be
// listed is not believed.
func (w *walk) failed(e mover.Entry, err error) {
	if e.Kind == mover.Dir {
		w.upTo(&e)
	}
	w.tell(e, err)
	for e.Kind == mover.Dir && w.top.around != nil && mover.Within(w.top.dir, e.Name) {
		w.rise()
	}
	for e.Kind == mover.Dir && w.top.more && !w.ended && mover.Within(w.top.head.Name, e.Name) {
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
	e := w.top.head
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
