package coordinator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
)

// TestForgetTasks: what ended long ago is forgotten by itself, and nothing else; what it
// has moved stays counted.
//
//safety:8 tasks that ended long ago are forgotten, with what is theirs
func TestForgetTasks(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	submit := func(target string) *pb.Task {
		made, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:a", Target: target}})
		wants(t, target, err, nil)
		return made
	}
	old := d.done(submit("project:old"), nil, 0)
	waits := submit("project:waits")
	if _, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: waits.GetId()}); err != nil {
		t.Fatal(err)
	}
	d.pass(endedKept)
	young := d.done(submit("project:young"), nil, 0)
	begun := timestamppb.New(old.GetCreateTime().AsTime())
	before, err := d.usage.GetUsage(root, &pb.GetUsageRequest{Since: begun})
	wants(t, "usage", err, nil)
	d.pass(time.Hour)
	for _, c := range d.chores() {
		wants(t, c.what, c.do(t.Context()), nil)
	}
	for id, want := range map[string]error{old.GetId(): mover.ErrNotExist, waits.GetId(): nil, young.GetId(): nil} {
		wants(t, id, second(d.GetTask(root, &pb.GetTaskRequest{Id: id})), want)
	}
	after, err := d.usage.GetUsage(root, &pb.GetUsageRequest{Since: begun})
	if wants(t, "usage", err, nil); len(before.GetUsage()) != 2 || len(after.GetUsage()) != 2 {
		t.Errorf("usage was %v and is %v", before, after)
	}
}
