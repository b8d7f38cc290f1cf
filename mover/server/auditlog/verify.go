package auditlog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"slices"
	"time"
)

// Summary is what a whole log contains.
type Summary struct {
	Files     int
	Decisions int64
	Denied    int64     // of the decisions
	Cuts      int64     // how often a half-written end was cut off
	First     uint64    // the first sequence: 1, unless files were moved away
	Since     time.Time // of the first line
	Until     time.Time // of the last one
	Head      Head      // the last line
	InUse     bool      // a process had the log open: its last lines may be on their way yet
}

// Verify reads all files of the log in dir. The first position where it is not whole
// is a *Break. Heads that are known from elsewhere must be in it. Without one,
// missing lines at the end are not found. Where the first files were
// moved away, the head of their last line must be among them.
//
// A line without its end, behind all others, is none while the log is in use.
func Verify(ctx context.Context, dir string, heads ...Head) (Summary, error) {
	w := &walk{dir: dir, heads: slices.SortedFunc(slices.Values(heads), func(a, b Head) int { return cmp.Compare(a.Sequence, b.Sequence) })}
	s := &w.summary
	err := w.run(ctx, func(e *Entry) error {
		s.count(e)
		return w.known(e)
	})
	return *s, failure("verify", dir, err)
}

func (s *Summary) count(e *Entry) {
	if s.First == 0 {
		s.First, s.Since = e.Sequence, e.Time
	}
	s.Until, s.Head = e.Time, Head{e.Sequence, e.Hash}
	switch e.Kind {
	case Header:
		s.Files++
	case Cut:
		s.Cuts++
	case Decision:
		s.Decisions++
		if !e.Allowed {
			s.Denied++
		}
	}
}

// errStop ends a walk that its reader has had enough of.
var errStop = errors.New("enough")

// Entries yields the lines of the log in dir, each verified against those before
// it. An error ends it.
func Entries(ctx context.Context, dir string) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		w := &walk{dir: dir}
		err := w.run(ctx, func(e *Entry) error {
			if !yield(*e, nil) {
				return errStop
			}
			return nil
		})
		if err != nil && err != errStop {
			yield(Entry{}, failure("read", dir, err))
		}
	}
}

// walk goes through all files of a log.
type walk struct {
	dir     string
	heads   []Head // that are known and were not met yet, in order
	chain   chain
	reader  *reader // of the present file
	summary Summary
}

func (w *walk) run(ctx context.Context, show func(*Entry) error) error {
	w.summary.InUse = inUse(w.dir)
	files, err := list(w.dir)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("%w: there is no audit log", fs.ErrNotExist)
	}
	w.anchor(files[0])
	for i, first := range files {
		if err := w.file(ctx, first, i == len(files)-1, show); err != nil {
			return err
		}
	}
	if len(w.heads) > 0 {
		return w.reader.broken("record %d is known, and the log ends before it: its end was cut off", w.heads[0].Sequence)
	}
	return nil
}

// anchor begins the chain at a known head, when that of the line before the first
// file is known. It stands for everything before, and for all older heads.
func (w *walk) anchor(first uint64) {
	i := slices.IndexFunc(w.heads, func(h Head) bool { return h.Sequence+1 == first })
	if i >= 0 {
		w.chain.head, w.heads = w.heads[i], w.heads[i+1:]
	}
}

func (w *walk) file(ctx context.Context, first uint64, last bool, show func(*Entry) error) error {
	if next := w.chain.head.Sequence + 1; first > next {
		return &Break{fileName(first), 1, fmt.Sprintf("records %d to %d are missing before it: a file was removed, or the end of one", next, first-1)}
	}
	f, err := openFile(w.dir, first, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	w.reader = newReader(f, first)
	err = w.reader.follow(ctx, &w.chain, show)
	if last && w.reader.unended && w.reader.line > 1 && (w.summary.InUse || inUse(w.dir)) {
		return nil // it is just being written
	}
	return err
}

// known compares e with the heads that are known.
func (w *walk) known(e *Entry) error {
	for len(w.heads) > 0 && w.heads[0].Sequence == e.Sequence {
		if w.heads[0].Hash != e.Hash {
			return w.reader.broken("record %d is known with another hash: the log was written anew up to here", e.Sequence)
		}
		w.heads = w.heads[1:]
	}
	return nil
}
