package worker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
)

// lister is a Runner that lists its source.
type lister struct{ strict string } // the path that is reached without links

func (lister) Run(ctx context.Context, j *Job) (r engine.Report, err error) {
	l, err := j.At(j.Spec().GetSource())
	if err != nil {
		return r, err
	}
	for _, err := range engine.List(ctx, l, false, j.Open) {
		if err != nil {
			return r, err
		}
		r.Files++
	}
	return r, nil
}

func (r lister) Strict(_ *Job, path location.Location) bool { return path.Path == r.strict }

// TestRunner: a task is done by the Runner of its kind, and refused without one; a strict path leads over no symbolic link.
func TestRunner(t *testing.T) {
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	must.Do(t, os.MkdirAll(filepath.Join(dir, "real", "data"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "real", "data", "a"), []byte("a"), 0o600))
	must.Do(t, os.Symlink("real", filepath.Join(dir, "link")))
	const kind = pb.TaskKind_TASK_KIND_SCAN
	linked, direct := filepath.Join(dir, "link", "data"), filepath.Join(dir, "real", "data")
	tiers := []*agentv1.TierAccess{{Name: "scratch", Level: "hot", Path: dir}}
	for _, row := range []struct {
		what    string
		runners Runners
		source  string
		want    error // nil: it lists one name
	}{
		{"over a link", Runners{kind: lister{}}, "scratch:link/data", nil},
		{"a strict path over a link", Runners{kind: lister{linked}}, "scratch:link/data", mover.ErrConflict},
		{"a strict path without one", Runners{kind: lister{direct}}, "scratch:real/data", nil},
		{"another path is strict", Runners{kind: lister{direct}}, "scratch:link/data", nil},
		{"of another kind", Runners{pb.TaskKind_TASK_KIND_COPY: lister{}}, "scratch:real/data", mover.ErrUsage},
		{"without runners", nil, "scratch:real/data", mover.ErrUsage},
	} {
		order := &agentv1.Job{Spec: &pb.TaskSpec{Kind: kind, Source: row.source}, Tiers: tiers}
		report, err := NewJob(order, nil, Options{Runners: row.runners}).run(t.Context())
		if !errors.Is(err, row.want) || row.want == nil && report.Files != 1 {
			t.Errorf("%s: %d names, %v", row.what, report.Files, err)
		}
	}
}

// TestUnknownKind: a worker says what to do about a kind that it does not know.
func TestUnknownKind(t *testing.T) {
	_, err := NewJob(&agentv1.Job{Spec: &pb.TaskSpec{Kind: 99}}, nil, Options{}).run(t.Context())
	if err == nil || err.Error() != "invalid request: this worker does not know tasks of kind 99; upgrade its agent" {
		t.Error(err)
	}
}
