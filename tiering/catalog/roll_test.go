package catalog_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
)

// TestRoll: parts of a real tree, in which names lie between that of a file and that of a directory, make what is known equal to it, each with about so many entries; one
// that does not begin where the last one has ended is refused, and an empty tree takes nothing away.
//
//safety:4 with TestEmpty
func TestRoll(t *testing.T) {
	dir := t.TempDir()
	put := func(names ...string) {
		for _, name := range names {
			must.Do(t, os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755))
			must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
		}
	}
	put("a", "x-", "x.1", "x/1", "x/2/3", "x0", "z/last")
	src := must.Get(posix.Open(dir, posix.Options{}))(t)
	defer src.Close()
	c := fresh(t)
	if _, err := c.Scan(t.Context(), project, src, catalog.ScanOptions{Part: 1}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a part of what was never scanned: %v", err)
	}
	scan(t, c, src)
	first := must.Get(c.State(project))(t)
	for _, size := range []int{1, 2, 3, 100} {
		put(fmt.Sprintf("x/new-%d", size), fmt.Sprintf("z/new-%d/deep/er", size))
		must.Do(t, os.Remove(filepath.Join(dir, "a")))
		put("a")
		parts := 1
		for ; !part(t, c, src, size); parts++ {
			if parts > 100 {
				t.Fatal("it has no end")
			}
		}
		equal(t, c, project, src)
		if size == 100 && parts > 1 || size == 1 && parts < 8 {
			t.Errorf("%d parts of %d entries", parts, size)
		}
	}
	if now, err := c.State(project); err != nil || !now.Verified.After(first.Verified) || !now.Scanned.Equal(first.Scanned) {
		t.Errorf("%+v, %v", now, err)
	}
	part(t, c, src, 3)
	if _, err := c.Scan(t.Context(), project, src, catalog.ScanOptions{Part: 3}); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a part from somewhere else: %v", err)
	}
	before := known(t, c, project)
	empty := must.Get(posix.Open(t.TempDir(), posix.Options{}))(t)
	defer empty.Close()
	part(t, c, empty, 3)
	if _, err := c.Scan(t.Context(), project, empty, catalog.ScanOptions{Part: 3}); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("an empty tree: %v", err)
	}
	if now := known(t, c, project); !slices.Equal(now, before) {
		t.Errorf("of %d entries %d are left", len(before), len(now))
	}
}
