package coordinator

import (
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// TestSubmittedPaused: a task that is submitted to wait is given to nobody, also after a restart, until it is resumed.
func TestSubmittedPaused(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	r := &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:a", Target: "archive:a"}, IdempotencyKey: "once", Paused: true}
	x, err := d.SubmitTask(root, r)
	wants(t, "submit", err, nil)
	again, err := d.SubmitTask(root, r)
	if wants(t, "submit again", err, nil); again.GetId() != x.GetId() {
		t.Errorf("%s, and %s", x.GetId(), again.GetId())
	}
	for _, when := range []string{"at first", "after a restart"} {
		d.give()
		if y := d.state(x.GetId()); y.GetState() != task.Paused || d.taken[x.GetId()] != nil || y.GetWhy() == "" {
			t.Errorf("%s it is %v", when, y)
		}
		d.close()
		d.open()
	}
	_, err = d.ResumeTask(root, &pb.ResumeTaskRequest{Id: x.GetId()})
	wants(t, "resume", err, nil)
	d.give()
	if d.taken[x.GetId()] == nil {
		t.Errorf("it was resumed, and is %v", d.state(x.GetId()))
	}
}
