package changefeed

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

var scratch = catalog.Tree{Tier: "scratch"}

// told is a feed of a few batches, one after the other.
type told struct {
	batches []Batch
	each    func(n int, err error) // after each
	begun   func(marks Marks)
}

func (f *told) Run(ctx context.Context, marks Marks, take Take) error {
	if f.begun != nil {
		f.begun(marks)
	}
	for n, b := range f.batches {
		err := take(ctx, b)
		f.each(n, err)
		if err != nil {
			return err
		}
	}
	return fmt.Errorf("that was all: %w", errors.ErrUnsupported)
}

// troubled is a tree of which a name can not be looked at, or for a while nothing.
type troubled struct {
	*posix.Backend
	bad  string
	down atomic.Int32 // so many looks and walks fail
}

var errTrouble = errors.New("an error of a disk")

// Stat implements catalog.Source.
func (s *troubled) Stat(ctx context.Context, name string) (mover.Entry, error) {
	return s.Glance(ctx, name)
}

// Glance implements catalog.Glancer.
func (s *troubled) Glance(ctx context.Context, name string) (mover.Entry, error) {
	if name == s.bad || s.down.Load() > 0 && s.down.Add(-1) >= 0 {
		return mover.Entry{}, errTrouble
	}
	return s.Backend.Glance(ctx, name)
}

// Walk implements catalog.Source.
func (s *troubled) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	if s.down.Load() > 0 && s.down.Add(-1) >= 0 {
		return func(yield func(mover.Entry, error) bool) { yield(mover.Entry{}, errTrouble) }
	}
	return s.Backend.Walk(ctx, o)
}

// A keeper scans what was never scanned, looks at what it is told of, passes over a name that fails and tries it again, waits for a tree that is away, and
// has marks on the disk before it says that a batch is taken.
func TestKeeper(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, size int) {
		t.Helper()
		must.Do(t, os.WriteFile(filepath.Join(dir, name), make([]byte, size), 0o600))
	}
	c := must.Get(catalog.Open(t.TempDir(), catalog.Options{}))(t)
	defer c.Close()
	place := must.Get(posix.Open(dir, posix.Options{}))(t)
	defer place.Close()
	src := &troubled{Backend: place}
	size := func(name string) int64 {
		f, err := c.Get(scratch, name)
		if errors.Is(err, mover.ErrNotExist) {
			return -1
		}
		must.Do(t, err)
		return f.Size
	}
	mark := func(n int) []catalog.Mark { return []catalog.Mark{{Feed: "log", Value: []byte{byte(n)}}} }
	f := &told{batches: []Batch{
		{Names: []string{"a"}, Marks: mark(0)}, // nothing was scanned yet
		{Names: []string{"a", "b"}, Marks: mark(1)},
		{Names: []string{"a", "bad", "c", "gone", "../x"}, Marks: mark(2)},
		{All: true, Why: "it was said", Marks: mark(3)},
	}}
	k := &Follower{Catalog: c, Tree: scratch, Source: src, Feed: f, Options: Options{Retry: time.Millisecond}}
	write("a", 1)
	write("gone", 1)
	f.begun = func(marks Marks) {
		if m, err := marks("log"); err != nil || m != nil {
			t.Errorf("a mark before the first scan: %v, %v", m, err)
		}
		src.down.Store(3)
	}
	f.each = func(n int, err error) {
		if err != nil {
			t.Errorf("batch %d: %v", n, err)
		}
		if m, err := c.Mark(scratch, "log"); err != nil || len(m.Value) != 1 || m.Value[0] != byte(n) {
			t.Errorf("after batch %d the mark is %v, %v", n, m, err)
		}
		switch n {
		case 0:
			if size("a") != 1 || k.Progress().Failed != 3 || k.Progress().Scans != 1 {
				t.Errorf("a has %d bytes; %+v", size("a"), k.Progress())
			}
			write("a", 2)
			write("b", 3)
			src.down.Store(2)
		case 1:
			if size("a") != 2 || size("b") != 3 {
				t.Errorf("a has %d bytes, b %d", size("a"), size("b"))
			}
			write("a", 4)
			write("bad", 5)
			write("c", 6)
			write("d", 7)
			must.Do(t, os.Remove(filepath.Join(dir, "gone")))
			src.bad = "bad"
		case 2:
			if size("a") != 4 || size("bad") != -1 || size("c") != 6 || size("d") != -1 || size("gone") != -1 || k.Progress().Left != 1 {
				t.Errorf("a %d, bad %d, c %d, d %d, gone %d; %+v", size("a"), size("bad"), size("c"), size("d"), size("gone"), k.Progress())
			}
		case 3:
			if size("bad") != 5 || size("d") != 7 || k.Progress().Left != 0 {
				t.Errorf("bad %d, d %d; %+v", size("bad"), size("d"), k.Progress())
			}
		}
	}
	if err := k.Run(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
	if p := k.Progress(); p.Batches != 4 || p.Scans != 2 || p.Lag > time.Minute {
		t.Errorf("%+v", p)
	}
	f.batches, f.begun = nil, func(marks Marks) {
		if m, err := marks("log"); err != nil || len(m) != 1 || m[0] != 3 {
			t.Errorf("the mark that it goes on from: %v, %v", m, err)
		}
	}
	_ = k.Run(t.Context()) // its end is known
}
