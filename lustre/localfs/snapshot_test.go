package localfs

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// TestSnapshots: a clone has what its source had, a limit of its own, and a frozen one is changed by nobody.
func TestSnapshots(t *testing.T) {
	dir, top, s := volumes(t)
	p, err := s.MakeProject(t.Context(), top, "first", 0o755)
	must.Do(t, err)
	must.Do(t, write(filepath.Join(dir, "first", "file"), 1<<20))
	source := opened(t, filepath.Join(dir, "first"))
	clone, err := s.CloneProject(t.Context(), source, top, "second")
	must.Do(t, err)
	if clone.ID == p.ID || projectOf(t, s, filepath.Join(dir, "second")) != clone {
		t.Errorf("%+v of %+v", clone, p)
	}
	must.Do(t, os.Remove(filepath.Join(dir, "first", "file")))
	if info, err := os.Stat(filepath.Join(dir, "second", "file")); err != nil || info.Size() != 1<<20 {
		t.Errorf("%v, %v", info, err)
	}
	second := opened(t, filepath.Join(dir, "second"))
	must.Do(t, s.Freeze(t.Context(), second, true))
	if err := os.WriteFile(filepath.Join(dir, "second", "new"), nil, 0o600); !errors.Is(err, unix.EROFS) {
		t.Errorf("%v", err)
	}
	third, err := s.CloneProject(t.Context(), second, top, "third") // of a frozen one, not frozen
	must.Do(t, err)
	must.Do(t, os.WriteFile(filepath.Join(dir, "third", "new"), nil, 0o600))
	must.Do(t, s.RemoveProject(t.Context(), top, "second", clone))
	must.Do(t, s.Freeze(t.Context(), opened(t, filepath.Join(dir, "third")), true))
	must.Do(t, s.Freeze(t.Context(), opened(t, filepath.Join(dir, "third")), false))
	must.Do(t, os.WriteFile(filepath.Join(dir, "third", "again"), nil, 0o600))
	must.Do(t, s.RemoveProject(t.Context(), top, "third", third))

	must.Do(t, os.Mkdir(filepath.Join(dir, "first", "inner"), 0o700))
	if _, err := s.CloneProject(t.Context(), opened(t, filepath.Join(dir, "first", "inner")), top, "fourth"); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a directory was taken for a subvolume: %v", err)
	}
	if _, err := s.CloneProject(t.Context(), source, top, "../x"); err == nil {
		t.Error("a name with a slash was taken")
	}
}
