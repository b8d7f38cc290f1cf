package checkpointworker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/test/must"
)

// agent is that of a worker.
type agent struct {
	agentv1.WorkerServiceClient
	lost error // what is answered to the question whether the task is this worker's still
}

func (a *agent) Mine(context.Context, *agentv1.MineRequest, ...grpc.CallOption) (*agentv1.MineResponse, error) {
	return &agentv1.MineResponse{}, a.lost
}

// TestRetain: the newest that arrived stay, and the ones before them go, but not for a worker that has lost the task. What did not arrive by a task is none of the newest, and stays.
func TestRetain(t *testing.T) {
	dir, state := t.TempDir(), t.TempDir()
	save := func(name string, at int64) {
		for _, file := range []string{"weights", "_SUCCESS"} {
			path := filepath.Join(dir, name, file)
			must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
			must.Do(t, os.WriteFile(path, []byte(name+file), 0o600))
			must.Do(t, os.Chtimes(path, time.Unix(at, 0), time.Unix(at, 0)))
		}
	}
	retain := func(arrived string, lost error) (notes string, err error) {
		spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_RETAIN, Target: "cold:", Retention: &pb.Retention{Profile: "plain", Arrived: []byte(arrived), Last: 2}}
		order := &agentv1.Job{Task: "t1", Epoch: 1, Spec: spec, StateDir: state, Tiers: []*agentv1.TierAccess{{Name: "cold", Level: "cold", Path: dir}}}
		report, err := (Retain{}).Run(t.Context(), worker.NewJob(order, &agent{lost: lost}, worker.Options{}))
		return strings.Join(report.Notes, "|"), err
	}
	there := func() (names []string) {
		for _, e := range must.Get(os.ReadDir(dir))(t) {
			if !strings.HasPrefix(e.Name(), ".") {
				names = append(names, e.Name())
			}
		}
		return names
	}
	save("step-0", 1e9)
	for i, row := range []struct {
		arrived string
		lost    error
		want    []string
		notes   string
	}{
		{"step-1", nil, []string{"step-0", "step-1"}, ""},
		{"step-2", nil, []string{"step-0", "step-1", "step-2"}, ""},
		{"step-3", mover.ErrHeld, []string{"step-0", "step-1", "step-2", "step-3"}, ""},
		{"step-3", nil, []string{"step-0", "step-2", "step-3"}, "step-1 was removed: "},
	} {
		save(row.arrived, 1e9+100*int64(i+1))
		notes, err := retain(row.arrived, row.lost)
		if !errors.Is(err, row.lost) || !strings.HasPrefix(notes, row.notes) || row.notes == "" && notes != "" {
			t.Errorf("%s: %q, %v", row.arrived, notes, err)
		}
		if got := there(); !slices.Equal(got, row.want) {
			t.Errorf("after %s there is %v", row.arrived, got)
		}
	}
}
