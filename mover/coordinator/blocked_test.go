package coordinator

import (
	"context"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/authz"
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
		d.scheduler.giveLeads(context.Background())
	}
	if got := d.state(free.GetId()); got.GetState() != task.Running {
		t.Errorf("a task that nobody is in the way of is %v: %s", got.GetState(), got.GetWhy())
	}
	if got := d.state(first.GetId()); got.GetState() != task.Queued || got.GetWhy() == "" {
		t.Errorf("a task whose target is in use is %v: %q", got.GetState(), got.GetWhy())
	}
}

// TestBars: a task waits for a writer of its own account and of root anywhere around its target, and for one of another account at its very target.
func TestBars(t *testing.T) {
	carol := as("carol", 1003)
	for _, row := range []struct {
		what           string
		writer, ctx    context.Context
		target, at     string
		remove, begins bool
	}{
		{"another account, above", alice, carol, "project:", "project:carol", false, true},
		{"another account, below", alice, carol, "project:carol/in/it", "project:carol", false, true},
		{"another account, above a removal", alice, carol, "project:", "project:carol", true, true},
		{"root, below another account", alice, root, "project:a/b", "project:a", false, true},
		{"another account, the same target", alice, carol, "project:a", "project:a", false, true},
		{"root, the same target as another account", alice, root, "project:a/", "project:a/", false, true},
		{"the same account, above", alice, alice, "project:", "project:a", false, false},
		{"the same account, below", alice, alice, "project:a/b", "project:a", false, false},
		{"below root", root, carol, "project:", "project:carol", false, false},
	} {
		t.Run(row.what, func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{UID: 990})
			submit := func(ctx context.Context, spec *pb.TaskSpec) string {
				made, err := d.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: spec})
				wants(t, "submit", err, nil)
				d.give()
				return made.GetId()
			}
			if first := submit(row.writer, &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/in", Target: row.target}); d.taken[first] == nil {
				t.Fatalf("the writer is %v", d.state(first))
			}
			spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/elsewhere", Target: row.at}
			if row.remove {
				spec = &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: row.at}
			}
			if id := submit(row.ctx, spec); (d.taken[id] != nil) != row.begins {
				t.Errorf("it is %v", d.state(id))
			}
		})
	}
}
