package service

import (
	"context"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
)

// TestBlockedLine: many tasks that wait for somebody on their target do not keep back those
// behind them that write elsewhere.
func TestBlockedLine(t *testing.T) {
	d, _ := crewed(t) // writes to project:out
	submit := func(target string) *pb.Task {
		made, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:in", Target: target}})
		wants(t, "submit", err, nil)
		return made
	}
	const blocked = 3 * looksMost
	var first *pb.Task
	for i := range blocked {
		if made := submit("project:out"); i == 0 {
			first = made
		}
	}
	free := submit("project:elsewhere")
	for range blocked/looksMost + 1 {
		d.giveLeads(context.Background())
	}
	if got := d.state(free.GetId()); got.GetState() != task.Running {
		t.Errorf("a task that nobody is in the way of is %v: %s", got.GetState(), got.GetWhy())
	}
	if got := d.state(first.GetId()); got.GetState() != task.Queued || got.GetWhy() == "" {
		t.Errorf("a task whose target is in use is %v: %q", got.GetState(), got.GetWhy())
	}
}
