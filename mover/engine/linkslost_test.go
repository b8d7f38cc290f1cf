package engine

import (
	"context"
	"slices"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestLinksLostAreTold: each run tells how many hard links are not in the target, also the one that finds nothing to move.
func TestLinksLostAreTold(t *testing.T) {
	source, target := mem.NewTree().Files(map[string]string{"a": "content"}).Link("a", "b").Link("a", "c"), mem.NewTree()
	refuses := true
	open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
		if l.Path == "/source" {
			return mem.New(source, mem.Options{}), nil
		}
		return faulty.New(mem.New(target, mem.Options{}), faulty.Options{Script: func(c faulty.Call) faulty.Fault {
			if refuses && c.Op == faulty.Draft && c.Name != "a" && c.Nth%2 == 0 { // not the file of its own
				return faulty.Unsupported
			}
			return faulty.None
		}}), nil
	}
	r := Request{Work: Sync, StateDir: t.TempDir()}
	r.Source, r.Target = location.Location{Scheme: location.POSIX, Path: "/source"}, location.Location{Scheme: location.POSIX, Path: "/target"}
	for _, run := range []struct {
		refuses bool
		files   int64
		notes   []string
	}{
		{true, 3, []string{"hard links that are files of their own in the target: 2"}},
		{true, 0, []string{"hard links that are files of their own in the target: 2"}},
		{false, 0, nil},
	} {
		refuses = run.refuses
		report, err := must.Get(Start(t.Context(), r, open))(t).Wait()
		if err != nil || report.Files != run.files || !slices.Equal(report.Notes, run.notes) {
			t.Errorf("%v; %d files are moved, and it notes %q; want %d, and %q", err, report.Files, report.Notes, run.files, run.notes)
		}
	}
}
