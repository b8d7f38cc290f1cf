package engine

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestProgressIsWhole: when a task has ended, as much is done as was planned, also of what a
// closer look has found to be there.
func TestProgressIsWhole(t *testing.T) {
	open := func(_ context.Context, l location.Location, o OpenOptions) (mover.Backend, error) {
		return posix.Open(l.Path, posix.Options{Create: o.Write})
	}
	for name, row := range map[string]struct {
		request Request
		change  func(target string) error // of what a copy has made
		files   int64
	}{
		"copy":                {request: Request{Work: Copy}, change: os.RemoveAll, files: 3},
		"by checksum, equal":  {request: Request{Work: Copy, CompareBy: plan.ByContent}, files: 3},
		"by checksum, one is": {request: Request{Work: Copy, CompareBy: plan.ByContent}, change: func(path string) error { return os.WriteFile(filepath.Join(path, "a"), []byte("b"), 0o644) }, files: 3},
		"verify, equal":       {request: Request{Work: Verify}, files: 3},
		"verify, one differs": {request: Request{Work: Verify}, change: func(path string) error { return os.WriteFile(filepath.Join(path, "a"), []byte("b"), 0o644) }, files: 3},
		"verify, one lacks":   {request: Request{Work: Verify}, change: func(path string) error { return os.Remove(filepath.Join(path, "a")) }, files: 3},
	} {
		t.Run(name, func(t *testing.T) {
			source, target := filepath.Join(t.TempDir(), "s"), filepath.Join(t.TempDir(), "t")
			must.Do(t, os.Mkdir(source, 0o755))
			for _, file := range []string{"a", "b", "c"} {
				must.Do(t, os.WriteFile(filepath.Join(source, file), []byte(file), 0o644))
			}
			work := func(r Request) Snapshot {
				r.Source, r.Target, r.StateDir = at(source), at(target), t.TempDir()
				task := must.Get(Start(t.Context(), r, open))(t)
				_, err := task.Wait()
				t.Log(err)
				return task.Snapshot()
			}
			work(Request{Work: Copy})
			if row.change != nil {
				must.Do(t, row.change(target))
			}
			s := work(row.request)
			if w := s.Work(); !w.Complete || w.Files != w.PlannedFiles || w.Bytes != w.PlannedBytes || w.Files != row.files {
				t.Errorf("%+v", w)
			}
		})
	}
}
