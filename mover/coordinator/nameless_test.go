package coordinator

import (
	"strings"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// TestNamelessWaits: a task of a uid without a name waits, also over restarts, where no agent knows its groups any more, and begins where one does.
func TestNamelessWaits(t *testing.T) {
	const why = "uid 54001 has no name"
	d := newDesk(t, site(), authz.Input{})
	made, err := d.SubmitTask(as("", 54001), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:a", Target: "project:b"}})
	wants(t, "submit", err, nil)
	id := made.GetId()
	for range 2 * crashesMost {
		asked := map[string]bool{}
		for range 2 {
			d.give()
			l, who := d.taken[id], d.led[id]
			if l == nil || asked[who] {
				t.Fatalf("it is %v, and %s is asked after %v", d.state(id), who, asked)
			}
			asked[who] = true
			delete(d.taken, id)
			_, err := d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), Error: why, ErrorKind: mover.KindName(mover.ErrPermission), PutBack: true, Untouched: true})
			wants(t, "put back", err, nil)
		}
		d.give()
		if got := d.state(id); got.GetState() != task.Queued || !strings.Contains(got.GetWhy(), why) || got.GetTries() != 0 || got.GetStartTime() != nil {
			t.Fatalf("it is %v", got)
		}
		d.pass(namelessPause)
	}
	d.close()
	d.open()
	d.give()
	if got := d.state(id); got.GetState() != task.Running || got.GetTries() != 1 {
		t.Errorf("it is %v", got)
	}
}
