package engine

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// TestExcludedStays: a directory of the target in which something excluded lies stays with it, which is no failure; a dry run, a
// verification and a second run say the same.
func TestExcludedStays(t *testing.T) {
	keep := must.Get(plan.NewFilter([]plan.Rule{{Pattern: "*.keep"}, {Pattern: "cache/"}}, nil))(t)
	had := map[string]string{
		"same": "s", "sub/f.keep": "k", "sub/z": "z", "sub2/x/g.keep": "k", "sub2/y/z": "z", "gone/deep/z": "z", "sub3/cache/c": "c", "sub4/": "",
	}
	goes := []string{"gone", "gone/deep", "gone/deep/z", "sub/z", "sub2/y", "sub2/y/z", "sub4"}
	stays := []string{"same", "sub", "sub/f.keep", "sub2", "sub2/x", "sub2/x/g.keep", "sub3", "sub3/cache", "sub3/cache/c"}
	for _, store := range []bool{false, true} {
		t.Run(fmt.Sprintf("store %v", store), func(t *testing.T) {
			trees := map[string]*mem.Tree{"/s": mem.NewTree().Files(map[string]string{"same": "s"}), "/d": mem.NewTree().Files(had)}
			open := func(_ context.Context, l location.Location, _ OpenOptions) (mover.Backend, error) {
				return mem.New(trees[l.Path], mem.Options{ObjectStore: store}), nil
			}
			at := func(path string) location.Location { return location.Location{Scheme: location.POSIX, Path: path} }
			r := Request{Work: Sync, Delete: true, Filter: keep, Source: at("/s"), Target: at("/d"), StateDir: t.TempDir(), CompareBy: plan.ByContent}
			planned := func() (names []string) {
				for a, err := range Plan(t.Context(), r, open) {
					must.Do(t, err)
					if a.Op == plan.Remove {
						names = append(names, a.Target.Name)
					}
				}
				return names
			}
			if got := slices.Sorted(slices.Values(planned())); !slices.Equal(got, goes) {
				t.Errorf("it would remove %q, want %q", got, goes)
			}
			for range 2 {
				r.MaxDelete = MaxDelete{Set: true, Entries: int64(len(planned()))}
				report, err := must.Get(Start(t.Context(), r, open))(t).Wait()
				if err != nil || report.Failed > 0 || report.Removed != r.MaxDelete.Entries {
					t.Errorf("removed %d of %d, %d failed: %v", report.Removed, r.MaxDelete.Entries, report.Failed, err)
				}
				var left []string
				for e, err := range List(t.Context(), at("/d"), true, open) {
					must.Do(t, err)
					left = append(left, e.Name)
				}
				if slices.Sort(left); !slices.Equal(left, stays) {
					t.Errorf("left %q, want %q", left, stays)
				}
			}
			verify := r
			verify.Work, verify.Delete, verify.MaxDelete = Verify, false, MaxDelete{}
			if report, err := must.Get(Start(t.Context(), verify, open))(t).Wait(); err != nil {
				t.Errorf("verify: %v, %+v", err, report.Failures)
			}
		})
	}
}
