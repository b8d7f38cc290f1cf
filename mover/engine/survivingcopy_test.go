package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestCovered: what another place must have before the one may go.
//
//safety:5/datasets with test/cluster TestDatasetSurvivor
func TestCovered(t *testing.T) {
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write})
	}
	at := func(path string) location.Location { return location.Location{Scheme: location.POSIX, Path: path} }
	for what, c := range map[string]struct {
		spoil func(whole, other string) error
		want  error
	}{
		"a copy":           {func(_, _ string) error { return nil }, nil},
		"more than it has": {func(_, other string) error { return os.WriteFile(other+"/more", nil, 0o644) }, nil},
		"a folder's time":  {func(_, other string) error { return os.Chtimes(other+"/d", time.Time{}, time.Unix(1, 0)) }, nil},
		"nothing there":    {func(_, other string) error { return os.RemoveAll(other) }, mover.ErrChanged},
		"an empty folder":  {func(_, other string) error { return errors.Join(os.RemoveAll(other), os.Mkdir(other, 0o755)) }, mover.ErrChanged},
		"one file less":    {func(_, other string) error { return os.Remove(other + "/d/b") }, mover.ErrChanged},
		"another size":     {func(_, other string) error { return os.WriteFile(other+"/d/b", []byte("longer"), 0o644) }, mover.ErrChanged},
		"written since":    {func(_, other string) error { return os.WriteFile(other+"/d/b", []byte("B"), 0o644) }, mover.ErrChanged},
		"another link": {func(_, other string) error {
			return errors.Join(os.Remove(other+"/l"), os.Symlink("elsewhere", other+"/l"))
		}, mover.ErrChanged},
		"the same by a link": {func(whole, other string) error {
			return errors.Join(os.RemoveAll(other), os.Symlink(whole, other))
		}, mover.ErrConflict},
		"a hard link": {func(whole, other string) error {
			return errors.Join(os.Remove(other+"/d/b"), os.Link(whole+"/d/b", other+"/d/b"))
		}, mover.ErrConflict},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			whole, other := filepath.Join(dir, "whole"), filepath.Join(dir, "other")
			if err := errors.Join(os.MkdirAll(whole+"/d", 0o755), os.WriteFile(whole+"/a", []byte("a"), 0o644),
				os.WriteFile(whole+"/d/b", []byte("b"), 0o644), os.Symlink("a", whole+"/l")); err != nil {
				t.Fatal(err)
			}
			state := filepath.Join(dir, "state")
			task, err := Start(t.Context(), Request{Work: Copy, Source: at(whole), Target: at(other), StateDir: state, Reflink: ReflinkNever}, open)
			must.Do(t, err)
			if _, err := task.Wait(); err != nil {
				t.Fatal(err)
			}
			must.Do(t, c.spoil(whole, other))
			err = VerifySurvivingCopy(t.Context(), at(whole), at(other), Request{StateDir: state}, open)
			if c.want == nil && err != nil || c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
			if _, err := os.Stat(whole + "/d/b"); err != nil {
				t.Error(err)
			}
		})
	}
}
