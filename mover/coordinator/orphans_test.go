package coordinator

import (
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestLinger: a task whose lead is lost waits for its helper to let go, which it does by
// what it replies, by having begun anew, or by being silent for a lease. Who writes elsewhere
// does not wait. A coordinator that begins anew meanwhile waits as long.
//
//safety:3/takeover helpers of a lead that is over, which make drafts still: the next lead begins when they have let go
func TestLinger(t *testing.T) {
	letsGo := map[string]func(d *desk){
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
	}
	for how, letGo := range letsGo {
		t.Run(how, func(t *testing.T) {
			d, id := lingers(t)
			other, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:in", Target: "project:elsewhere"}})
			wants(t, "submit", err, nil)
			d.give()
			if d.taken[other.GetId()] == nil {
				t.Error("a task that writes elsewhere is not given out")
			}
			d.givenOnce(t, id, letGo)
		})
		for back, comes := range map[string]func(d *desk, helper string){
			"it is back":     func(d *desk, helper string) { d.attend(helper) },
			"it is not back": func(*desk, string) {},
		} {
			if how == "it replies" && back == "it is not back" {
				continue
			}
			t.Run("a new coordinator, "+back+", "+how, func(t *testing.T) {
				d, id := lingers(t)
				helper := d.helper(id)
				d.close()
				d.start()
				for _, name := range []string{"n1", "n2"} {
					if name != helper {
						d.attend(name)
					}
				}
				d.give()
				if d.taken[id] != nil {
					t.Fatal("the task is given out before its helper has come back")
				}
				comes(d, helper)
				d.givenOnce(t, id, letGo)
			})
		}
	}
}

// TestLostLead: the agent of a lead that is lost may have its worker still, which has the lock of the target. The next task for it begins, and
// hears that the writer that has the lock is over. Of a lead that is not, and of a writer that no lead of ours was, it does not hear that.
//
//safety:3/takeover with TestLinger
func TestLostLead(t *testing.T) {
	for name, again := range map[string]func(*desk){
		"":                            func(*desk) {},
		"after the coordinator ended": func(d *desk) { d.close(); d.start(); d.attend("n1"); d.attend("n2") },
	} {
		t.Run(name, func(t *testing.T) {
			d, l := crewed(t)
			id := l.GetTask().GetId()
			must.Get(d.CancelTask(root, &pb.CancelTaskRequest{Id: id}))(t)
			d.scheduler.lose(t.Context(), d.scheduler.leads[id], "test")
			again(d)
			next := must.Get(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: l.GetSpec()}))(t).GetId()
			d.give()
			own := d.taken[next]
			if own == nil {
				t.Fatalf("it is not given out: %v", d.state(next))
			}
			spec := proto.CloneOf(l.GetSpec())
			spec.Target += "-elsewhere"
			elsewhere := must.Get(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: spec}))(t).GetId()
			d.give()
			for epoch, want := range map[uint64]bool{l.GetEpoch(): true, own.GetEpoch(): false, d.taken[elsewhere].GetEpoch(): false, 1: false} {
				a, err := d.agents.Confirm(asAgent(d.led[next]), &agentv1.ConfirmRequest{Task: next, Epoch: own.GetEpoch(), Holder: epoch})
				if err != nil || a.GetOver() != want {
					t.Errorf("epoch %d is over: %v %v, want %v", epoch, a.GetOver(), err, want)
				}
			}
		})
	}
}

// TestNobodyLingers: who was no helper is not waited for when a lead is lost at a time at
// which it is known who was.
func TestNobodyLingers(t *testing.T) {
	d, l := crewed(t)
	id := l.GetTask().GetId()
	lead := d.led[id]
	d.close()
	d.start()
	delete(d.taken, id)
	d.attend(lead)
	d.give()
	if d.taken[id] == nil {
		t.Errorf("the task waits: %v", d.state(id))
	}
}

// TestLingersAnywhere: of a batch whose task the ledger can not tell, the helper may draft anywhere; of one whose task is forgotten it drafts nowhere.
func TestLingersAnywhere(t *testing.T) {
	d, l := crewed(t)
	task, name := l.GetTask(), d.led[l.GetTask().GetId()]
	holds := func(id string) bool {
		s := d.scheduler
		s.mu.Lock()
		defer s.mu.Unlock()
		n := s.agents[name]
		n.lingers = nil
		s.endOrphans(n, &agentv1.Session{Task: id, Batch: "b", Epoch: 1})
		return s.orphanAt("n9:/elsewhere", task)
	}
	if holds(task.GetId()) {
		t.Error("a batch of a task that writes elsewhere holds it up")
	}
	if holds("forgotten") {
		t.Error("a batch of a forgotten task holds it up")
	}
	must.Do(t, d.ledger.Close())
	if !holds(task.GetId()) {
		t.Error("a ledger that can not be read is taken for a forgotten task")
	}
	d.start()
}

// lingers is a desk with a task that has lost its lead, and has a helper.
func lingers(t *testing.T) (d *desk, id string) {
	d, l := crewed(t)
	id = l.GetTask().GetId()
	d.handOver(l, "b")
	d.help(l, 1)
	delete(d.taken, id)
	d.attend(d.led[id]) // without it: the lead is lost
	return d, id
}

// givenOnce checks that a task is given out when its helper lets go, and not before.
func (d *desk) givenOnce(t *testing.T, id string, letGo func(d *desk)) {
	t.Helper()
	d.give()
	if d.taken[id] != nil {
		t.Fatal("the task is given out while its helper may still make drafts")
	}
	letGo(d)
	d.give()
	if d.taken[id] == nil {
		t.Error("the task is not given out, though its helper has let go")
	}
}
