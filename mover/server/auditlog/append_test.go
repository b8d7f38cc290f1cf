package auditlog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestManyCallers appends from many goroutines, with small files, while others ask
// for the head and begin new files. All is there, once, in the order of each caller.
func TestManyCallers(t *testing.T) {
	const callers, each = 16, 40
	dir := t.TempDir()
	l := opened(t, dir, Options{RotateBytes: 10_000, Queue: 5})
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for n := range each {
				must.Tell(t, l.Append(t.Context(), submit(fmt.Sprintf("%d-%d", c, n))))
				if l.Head().Sequence < uint64(n) {
					t.Error("the head is behind")
				}
			}
			must.Tell(t, l.Rotate())
		})
	}
	all.Wait()
	next := map[int]int{}
	for _, reason := range reasons(t, dir) {
		var c, n int
		if _, err := fmt.Sscanf(reason, "%d-%d", &c, &n); err != nil || n != next[c] {
			t.Fatalf("%s where %d-%d belongs", reason, c, next[c])
		}
		next[c]++
	}
	if s := whole(t, dir, l.Head()); s.Decisions != callers*each {
		t.Errorf("%+v", s)
	}
}

// gate is a disk that waits for a word before each sync.
type gate struct {
	syncs int
	pass  chan error
}

func (g *gate) datasync(*os.File) error {
	g.syncs++
	return <-g.pass
}

// held begins n appends in a bubble: the first one is in the disk, the others
// are queued.
func held(ctx context.Context, t *testing.T, o Options, n int) (*gate, *Log, chan error) {
	g := &gate{pass: make(chan error)}
	o.datasync = g.datasync
	l := opened(t, t.TempDir(), o)
	results := make(chan error, n)
	for i := range n {
		go func() { results <- l.Append(ctx, submit(fmt.Sprint(i))) }()
		synctest.Wait()
	}
	return g, l, results
}

func TestOneSyncForMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l, results := held(t.Context(), t, Options{}, 64)
		if len(l.queue) != 63 || g.syncs != 1 || l.Head().Sequence != 1 {
			t.Errorf("%d queued, %d syncs, head %v", len(l.queue), g.syncs, l.Head())
		}
		g.pass <- nil
		g.pass <- nil
		for range 64 {
			must.Do(t, <-results)
		}
		if g.syncs != 2 || len(reasons(t, l.dir)) != 64 || l.Head().Sequence != 65 {
			t.Errorf("%d syncs, head %v", g.syncs, l.Head())
		}
	})
}

// TestGroupsAreBounded queues more than one group may have.
func TestGroupsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l, first := held(t.Context(), t, Options{KeepLocations: true}, 1)
		results := make(chan error, 64)
		long := make([]string, 100)
		for i := range long {
			long[i] = fmt.Sprintf("/%0200d", i)
		}
		for range 63 {
			go func() { results <- l.Append(t.Context(), Record{Method: "x", Locations: long}) }()
		}
		synctest.Wait()
		g.pass <- nil
		must.Do(t, <-first)
		g.pass <- nil
		synctest.Wait()
		if n := len(results); n < 10 || n > groupBytes/maxLocations {
			t.Errorf("%d were written by two writes", n)
		}
		close(g.pass)
		for range 63 {
			must.Do(t, <-results)
		}
	})
}

// TestGivesUp cancels callers: what is queued is not written, what is being written
// is told as it ends.
func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		g, l, results := held(ctx, t, Options{Queue: 4}, 6) // one at the disk, three queued, two before the queue
		cancel()
		for range 5 {
			if err := <-results; !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if len(l.queue) != 0 {
			t.Errorf("%d are queued", len(l.queue))
		}
		g.pass <- nil
		must.Do(t, <-results)
		if err := l.Append(ctx, submit("late")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if got := reasons(t, l.dir); !slices.Equal(got, []string{"0"}) {
			t.Errorf("%q", got)
		}
	})
}

func TestClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, l, results := held(t.Context(), t, Options{}, 1)
		closed := make(chan error)
		go func() { closed <- l.Close() }()
		g.pass <- nil
		must.Do(t, <-results)
		must.Do(t, <-closed)
		if err := errors.Join(l.Append(t.Context(), submit("late")), l.Rotate()); !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
		if got := reasons(t, l.dir); len(got) != 1 {
			t.Errorf("%q", got)
		}
	})
}

// TestDiskFails lets single syncs fail. What was refused is not in the log, all
// else is, and the chain is whole.
func TestDiskFails(t *testing.T) {
	var outcome error
	dir := t.TempDir()
	l := opened(t, dir, Options{datasync: func(*os.File) error { return outcome }})
	for _, row := range []struct{ disk, want error }{{nil, nil}, {unix.EIO, unix.EIO}, {nil, nil}, {unix.ENOSPC, mover.ErrFull}, {unix.EDQUOT, mover.ErrFull}, {nil, nil}} {
		before := l.Head()
		outcome = row.disk
		if err := l.Append(t.Context(), submit(fmt.Sprint(row.want))); !errors.Is(err, row.want) {
			t.Errorf("%v becomes %v", row.disk, err)
		}
		if (l.Head() != before) != (row.want == nil) {
			t.Errorf("%v: the head is %v", row.disk, l.Head())
		}
	}
	if got := reasons(t, dir); !slices.Equal(got, []string{"<nil>", "<nil>", "<nil>"}) {
		t.Errorf("%q", got)
	}
	whole(t, dir, l.Head())
}

// TestCanNotBeTakenBack lets a sync fail, and what is to mend it, too: the log takes
// nothing more, until it is opened again.
func TestCanNotBeTakenBack(t *testing.T) {
	dir := t.TempDir()
	l := opened(t, dir, Options{datasync: func(f *os.File) error { return errors.Join(unix.EIO, f.Close()) }})
	for range 2 {
		if err := l.Append(t.Context(), submit("a")); !errors.Is(err, unix.EIO) || !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	}
	if head := l.Head(); head.Sequence != 1 {
		t.Errorf("the head is %v", head)
	}
	_ = l.Close() // it has lost its file
	appended(t, opened(t, dir, Options{}), "b")
	whole(t, dir)
}

// TestTouched changes the file underneath an open log, which notices.
func TestTouched(t *testing.T) {
	for name, touch := range map[string]func(path string) error{
		"cut off": func(path string) error { return os.Truncate(path, 100) },
		"removed": os.Remove,
		"grown": func(path string) error {
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteString("x")
			return errors.Join(err, f.Close())
		},
	} {
		dir := t.TempDir()
		l := opened(t, dir, Options{})
		appended(t, l, "a")
		must.Do(t, touch(filepath.Join(dir, fileName(1))))
		for range 2 {
			if err := l.Append(t.Context(), submit("b")); !errors.Is(err, mover.ErrChanged) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// TestNoSync waits for no disk, but before a file is left behind: what follows
// it names its last hash.
func TestNoSync(t *testing.T) {
	syncs := 0
	l := opened(t, t.TempDir(), Options{NoSync: true, datasync: func(*os.File) error { syncs++; return nil }})
	appended(t, l, "a", "b")
	if syncs != 0 {
		t.Errorf("%d syncs for two records", syncs)
	}
	must.Do(t, l.Rotate())
	if syncs != 1 {
		t.Errorf("%d syncs for a new file", syncs)
	}
	whole(t, l.dir, l.Head())
}

// TestKernelSyncs: what is called when no test watches is fdatasync(2), which takes no pipe.
func TestKernelSyncs(t *testing.T) {
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	if err := datasync(w); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a pipe was synced: %v", err)
	}
}
