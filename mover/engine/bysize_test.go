package engine

import (
	"context"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestBySize: where sizes alone count, a file of equal size stays, with other facts brought over; nothing says then that it has the content of its source, also
// where that tells its checksum and the target has a manifest.
func TestBySize(t *testing.T) {
	for name, row := range map[string]struct {
		objects mem.Options // of the source
		target  mem.Options
	}{
		"files":              {},
		"files to objects":   {target: mem.Options{ObjectStore: true}},
		"objects to files":   {objects: mem.Options{ObjectStore: true}},
		"objects to objects": {objects: mem.Options{ObjectStore: true}, target: mem.Options{ObjectStore: true}},
	} {
		t.Run(name, func(t *testing.T) {
			source := mem.NewTree().Files(map[string]string{"same": "new", "longer": "longer", "missing": "m"})
			target := mem.NewTree().Files(map[string]string{"same": "old", "longer": "long"})
			open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
				if l.Path == "/s" {
					return mem.New(source, row.objects), nil
				}
				return mem.New(target, row.target), nil
			}
			work := func(r Request) (Report, error) {
				r.Source, r.Target, r.StateDir = location.OfPath("/s"), location.OfPath("/d"), t.TempDir()
				return must.Get(Start(t.Context(), r, open))(t).Wait()
			}
			report, err := work(Request{Work: Sync, CompareBy: plan.BySize})
			if err != nil || report.Files != 2 {
				t.Fatalf("%d files were copied, want 2: %v", report.Files, err)
			}
			if report, err := work(Request{Work: Verify}); report.Failed != 1 {
				t.Errorf("%d differ, want the one of equal size: %v", report.Failed, err)
			}
			if report, err := work(Request{Work: Sync, CompareBy: plan.ByContent}); err != nil || report.Files != 1 {
				t.Errorf("%d files had another content, want 1: %v", report.Files, err)
			}
			if report, err := work(Request{Work: Sync, CompareBy: plan.BySize}); err != nil || report.Files+report.Updated != 0 {
				t.Errorf("at last %d files were copied, and %d updated: %v", report.Files, report.Updated, err)
			}
		})
	}
}
