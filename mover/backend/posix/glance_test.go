package posix_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
)

// A glance tells what is there now, whatever was there a moment ago, and follows no link.
func TestGlance(t *testing.T) {
	dir := t.TempDir()
	place, err := posix.Open(dir, posix.Options{})
	must.Do(t, err)
	defer place.Close()
	do := func(err error) {
		t.Helper()
		must.Do(t, err)
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	size := func(name string, want int64) {
		t.Helper()
		e, err := place.Glance(t.Context(), name)
		if err != nil || e.Size != want || e.Name != name {
			t.Errorf("%s: %d bytes, %v", name, e.Size, err)
		}
		stat, err := place.Stat(t.Context(), name) // which keeps the directory
		if err == nil && stat.Identity() != e.Identity() && stat.Size == want {
			t.Errorf("%+v is not %+v", e, stat)
		}
	}
	do(os.Mkdir(at("a"), 0o755))
	do(os.Mkdir(at("b"), 0o755))
	do(os.WriteFile(at("a/f"), make([]byte, 1), 0o600))
	do(os.WriteFile(at("b/f"), make([]byte, 2), 0o600))
	size("a/f", 1)
	do(os.Rename(at("a"), at("c")))
	do(os.Rename(at("b"), at("a")))
	size("a/f", 2)
	size("c/f", 1)
	do(os.Symlink("c", at("b")))
	for _, name := range []string{"b/f", "none", "none/f", "a/f/g"} {
		if _, err := place.Glance(t.Context(), name); err == nil {
			t.Errorf("%s was seen", name)
		} else if !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e, err := place.Glance(t.Context(), "b")
	if err != nil || e.Kind != mover.Symlink || e.Size != 0 {
		t.Errorf("%+v, %v", e, err)
	}
	if _, err := place.Glance(t.Context(), "../x"); err == nil {
		t.Error("it left its root")
	}
}
