package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

// filling fills a disk in the middle of a walk.
type filling struct {
	catalog.Source
	after int // entries
	fill  func()
}

func (f *filling) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		n := 0
		for e, err := range f.Source.Walk(ctx, o) {
			if n++; n == f.after {
				f.fill()
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// A disk that becomes full in the middle of a scan is an error, and no signal. The catalog is as old as before, however much of the scan it has; it is no damage when it can
// not be opened, and who closes it does not wait for room; and a scan makes it equal when there is room again.
//
//safety:4 with TestKill
func TestFull(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=300m"); err != nil {
		t.Skip("needs the right to mount a tmpfs:", err)
	}
	defer func() { must.Do(t, unix.Unmount(dir, unix.MNT_DETACH)) }()
	other := filepath.Join(dir, "other")
	take := func(size int64) {
		f := must.Get(os.Create(other))(t)
		must.Do(t, unix.Fallocate(int(f.Fd()), 0, 0, size))
		must.Do(t, f.Close())
	}
	fill := func() { take(100 << 20) }
	tree := mem.NewTree().Files(map[string]string{"a/1": "", "b/2": "old"})
	src := mem.New(tree, mem.Options{})
	c := open(t, filepath.Join(dir, "catalog"))
	scan(t, c, src)
	before, err := c.State(project)
	must.Do(t, err)

	for i := range 40_000 { // of long names: several batches
		tree.Files(map[string]string{fmt.Sprintf("many/%d/%d-%0100d", i%100, i, 0): ""})
	}
	tree.Delete("b/2")
	for _, after := range []int{1, 30_000} {
		_, err = c.Scan(t.Context(), project, &filling{src, after, fill}, catalog.ScanOptions{})
		if !errors.Is(err, mover.ErrFull) {
			t.Fatalf("full after %d entries: %v", after, err)
		}
		if now, err := c.State(project); err != nil || !now.Scanned.Equal(before.Scanned) {
			t.Errorf("full after %d entries: scanned %v, and before %v; %v", after, now.Scanned, before.Scanned, err)
		}
		must.Do(t, os.Remove(other))
	}
	var st unix.Statfs_t
	must.Do(t, unix.Statfs(dir, &st))
	take(int64(st.Bavail)*st.Bsize - 64<<10)
	if err := c.Close(); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Close: %v", err)
	}
	must.Do(t, os.Remove(other))
	must.Do(t, c.Close())
	fill()
	if _, err := catalog.Open(filepath.Join(dir, "catalog"), catalog.Options{}); !errors.Is(err, mover.ErrFull) {
		t.Errorf("Open: %v", err)
	}
	must.Do(t, os.Remove(other))
	if _, err := os.Stat(filepath.Join(dir, "catalog.damaged")); err == nil {
		t.Error("it was taken for damaged")
	}
	c = open(t, filepath.Join(dir, "catalog"))
	defer func() { must.Do(t, c.Close()) }()
	scan(t, c, src)
	equal(t, c, project, src)
}
