package casefold

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// TestFolds: the file system does what those do that it stands for.
func TestFolds(t *testing.T) {
	dir := Mount(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	names := func() (all []string) {
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			all = append(all, e.Name())
		}
		return all
	}
	must.Do(t, os.WriteFile(at("ReadMe"), []byte("1"), 0o644))
	if b := must.Get(os.ReadFile(at("README")))(t); string(b) != "1" {
		t.Errorf("by another spelling it is %q", b)
	}
	must.Do(t, os.WriteFile(at("other"), []byte("2"), 0o644))
	if err := unix.Renameat2(unix.AT_FDCWD, at("other"), unix.AT_FDCWD, at("readme"), unix.RENAME_NOREPLACE); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a rename to a name that has to be free: %v", err)
	}
	must.Do(t, os.Rename(at("other"), at("readme")))
	if got := names(); !slices.Equal(got, []string{"ReadMe"}) {
		t.Errorf("a replaced entry keeps its spelling: %q", got)
	}
	must.Do(t, os.Mkdir(at("d"), 0o755))
	if err := os.Mkdir(at("D"), 0o755); !errors.Is(err, os.ErrExist) {
		t.Errorf("mkdir of another spelling: %v", err)
	}
	must.Do(t, os.Remove(at("readme")))
	must.Do(t, os.Remove(at("D")))
	if got := names(); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
}
