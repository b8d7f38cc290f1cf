package service

import (
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// TestLinger: a task whose lead is lost waits for its helper to let go, which it does by
// what it replies, by having begun anew, or by being silent for a lease. Who writes elsewhere
// does not wait.
func TestLinger(t *testing.T) {
	for how, letsGo := range map[string]func(d *desk){
		"it replies": func(d *desk) {
			wants(t, "the reply of a helper whose lead is over", d.reply(d.helped[0]), mover.ErrHeld)
		},
		"it has begun anew": func(d *desk) {
			helper := d.helper(d.helped[0].GetTask())
			d.helped = nil
			d.attend(helper)
		},
		"it is silent": func(d *desk) {
			d.pass(d.lease + time.Second)
		},
	} {
		t.Run(how, func(t *testing.T) {
			d, l := crewed(t)
			id := l.GetTask().GetId()
			lead, helper := d.led[id], d.helper(id)
			d.handOver(l, "b")
			d.help(l, 1)
			delete(d.taken, id)
			d.attend(lead) // without it: the lead is lost
			d.attend(helper)
			other, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:in", Target: "project:elsewhere"}})
			wants(t, "submit", err, nil)
			d.give()
			if d.taken[other.GetId()] == nil {
				t.Error("a task that writes elsewhere is not given out")
			}
			if how == "it replies" { // and the coordinator has forgotten that it waits for that
				d.close()
				d.open()
				d.give()
			}
			if d.taken[id] != nil {
				t.Fatal("the task is given out while its helper may still make drafts")
			}
			letsGo(d)
			d.give()
			if d.taken[id] == nil {
				t.Error("the task is not given out, though its helper has let go")
			}
		})
	}
}
