package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestMayLack: who says that the source may not be there has nothing to copy then, and makes nothing; what is there is copied all the same, and a
// source that can not be seen is an error.
func TestMayLack(t *testing.T) {
	dir := t.TempDir()
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write})
	}
	at := func(name string) location.Location {
		return location.Location{Scheme: location.POSIX, Path: filepath.Join(dir, name)}
	}
	copied := func(from, to string, lack bool) (Report, error) {
		task, err := Start(t.Context(), Request{Work: Copy, Source: at(from), Target: at(to), StateDir: filepath.Join(dir, "state"), AllowMissingSource: lack}, open)
		if err != nil {
			return Report{}, err
		}
		return task.Wait()
	}
	must.Do(t, errors.Join(os.Mkdir(filepath.Join(dir, "there"), 0o755), os.WriteFile(filepath.Join(dir, "there/file"), []byte("x"), 0o644)))
	if _, err := copied("nothing", "target", false); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("without the word: %v", err)
	}
	r, err := copied("nothing", "target", true)
	if err != nil || r.Files != 0 || len(r.Notes) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := os.Lstat(filepath.Join(dir, "target")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its target: %v", err)
	}
	if r, err := copied("there", "target", true); err != nil || r.Files != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := copied("there/file/below", "target", true); err == nil {
		t.Error("a file as a directory counts as nothing")
	}
}
