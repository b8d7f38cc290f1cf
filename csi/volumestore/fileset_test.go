package volumestore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// filesets is a file system where a project is made with its directory, has a name, and is removed in two steps.
type filesets struct {
	numbered
	dies  bool // after the first step
	names map[string]bool
}

func (f *filesets) Project(context.Context, int) (lustre.Project, error) {
	return lustre.Project{ID: 7, Name: "p-data-7", Inherit: true}, nil
}

func (f *filesets) MakeProject(ctx context.Context, dir int, base string, mode uint32) (lustre.Project, error) {
	p, _ := f.Project(ctx, dir)
	f.names[p.Name] = true
	return p, unix.Mkdirat(dir, base, mode)
}

var errDied, errOpen = errors.New("killed"), errors.New("a file of it is open")

func (f *filesets) RemoveProject(_ context.Context, at int, base string, p lustre.Project) error {
	path := filepath.Join(dir(at).name(), base)
	for _, open := range openFiles() {
		if open == path {
			return errOpen
		}
	}
	err := os.RemoveAll(path)
	if f.dies {
		return errors.Join(err, errDied)
	}
	if !f.names[p.Name] {
		return fs.ErrNotExist
	}
	delete(f.names, p.Name)
	return err
}

func openFiles() (paths []string) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		if path, err := os.Readlink(link); err == nil {
			paths = append(paths, path)
		}
	}
	return paths
}

// TestFilesetGoes: nothing of a volume is open while its fileset goes, and one whose directory is gone already is ended by
// its name, which the record has from its beginning.
//
//safety:5/volumes a kill between the two steps in which a fileset goes
func TestFilesetGoes(t *testing.T) {
	f := &filesets{names: map[string]bool{}}
	b := onNumbered(t, &f.numbered)
	b.handle.System.Quota = f
	w := wish(t, b, "pvc-1", mib, "trash", "0s")
	_, err := b.Make(t.Context(), w)
	must.Do(t, err)
	must.Do(t, b.Remove(t.Context(), w.ID, "test"))
	f.dies = true
	if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 0 || left != 1 || !errors.Is(err, errDied) {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	f.dies = false
	if gone, left, err := b.Reap(t.Context(), time.Now()); gone != 1 || left != 0 || err != nil {
		t.Errorf("%d, %d, %v", gone, left, err)
	}
	if len(f.names) > 0 {
		t.Errorf("%v is left", f.names)
	}
}
