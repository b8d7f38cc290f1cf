package policyworker

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	facts "datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

// mounted is a place in which a file lies on another file system.
type mounted struct {
	*posix.Backend
	foreign string
}

func (m *mounted) Stat(ctx context.Context, name string) (mover.Entry, error) {
	e, err := m.Backend.Stat(ctx, name)
	if name == m.foreign {
		e.Dev++
	}
	return e, err
}

// TestLook: what is gone, another one, or on another file system where that matters, is left out, and counts as kept.
func TestLook(t *testing.T) {
	dir := t.TempDir()
	place, err := posix.Open(dir, posix.Options{})
	must.Do(t, err)
	defer place.Close()
	programs, err := policy.Read("p", []byte("kind: TierPolicy\nmetadata: {name: p}\nspec:\n  scope: {roots: ['scratch:']}\n  rules: [{name: all, match: {kind: file}, action: purge}]\n"))
	must.Do(t, err)
	items := map[string]*pb.PlanItem{}
	for _, name := range []string{"stays", "gone", "other", "mounted"} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
		e := must.Get(place.Stat(t.Context(), name))(t)
		items[name] = run.ItemOf(programs[0], &policy.Item{File: facts.FileOf(&e, 0)}, catalog.Tree{Tier: "scratch"}, "", "", "")
	}
	must.Do(t, os.Remove(filepath.Join(dir, "gone")))
	must.Do(t, os.WriteFile(filepath.Join(dir, "other"), []byte("longer than it was"), 0o600))
	for one, want := range map[bool]int{false: 2, true: 1} {
		j := worker.NewJob(&agentv1.Job{Spec: &pb.TaskSpec{Tiering: &pb.Tiering{OneFileSystem: one}}}, nil, worker.Options{})
		job := &runPart{Job: j, items: items, there: map[string]mover.Entry{}, failed: map[string]bool{}}
		must.Do(t, job.look(t.Context(), &mounted{place, "mounted"}))
		if _, stays := job.there["stays"]; len(job.there) != want || !stays || job.report.Kept != int64(4-want) || job.report.Failed != 0 {
			t.Errorf("on one file system %v: %d are there, %d kept", one, len(job.there), job.report.Kept)
		}
	}
}
