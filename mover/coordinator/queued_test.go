package coordinator

import (
	"fmt"
	"slices"
	"testing"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/queue"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// TestQueuedBeforeACrash: the ledger alone has what waits. A coordinator that crashes again and again, also with an id in its hand, gives out each queued task
// once: urgent ones first, each line in the order in which its tasks were submitted, and more of them than the queue has in memory.
//
//safety:3 a coordinator that crashes again and again over a line that is longer than its queue, with a task in its hand: each queued task is given out once, in order
func TestQueuedBeforeACrash(t *testing.T) {
	const tasks, slots, window = 130, 10, 16
	d := newDesk(t, site(), authz.Input{})
	d.close()
	lines := []pb.TaskClass{pb.TaskClass_TASK_CLASS_REPLICATE, pb.TaskClass_TASK_CLASS_SCRUB, pb.TaskClass_TASK_CLASS_RESTORE, pb.TaskClass_TASK_CLASS_REPLICATE, pb.TaskClass_TASK_CLASS_REPLICATE}
	fill(t, d.dir+"/ledger", tasks, func(tx *state.Tx, i int) error {
		made := taskNumber(i)
		made.Owner, made.Spec.Class = &pb.Account{Name: "root"}, lines[i%len(lines)]
		return state.Tasks.Put(tx, made)
	})
	start := func() {
		d.start()
		d.Service.scheduler.queue = queue.New(queue.Options{Window: window, Refill: d.scheduler.refill})
	}
	start()
	led := map[pb.TaskClass][]string{}
	for round := 0; ; round++ {
		if round%4 == 3 { // it crashes, and what it has just taken is recorded nowhere
			for _, f := range d.scheduler.fair() {
				_, _, err := d.Service.scheduler.queue.Take(t.Context(), f.name)
				wants(t, "take", err, nil)
			}
			d.close()
			start()
		}
		d.attend("n1")
		d.scheduler.discover(t.Context())
		d.scheduler.agents["n1"].leads = slots
		d.scheduler.giveLeads(t.Context())
		leads := leadsOf(d.orders["n1"])
		if len(leads) == 0 {
			break
		}
		for _, l := range leads {
			class := l.GetSpec().GetClass()
			if waits := len(led[pb.TaskClass_TASK_CLASS_RESTORE]) < tasks/len(lines); waits && class != pb.TaskClass_TASK_CLASS_RESTORE {
				t.Fatalf("a task of %v is led while a restore waits", class)
			}
			led[class] = append(led[class], l.GetTask().GetId())
			_, err := d.scheduler.Finish(asAgent("n1"), &agentv1.FinishRequest{Task: l.GetTask().GetId(), Epoch: l.GetEpoch(), Report: &pb.Report{}})
			wants(t, "finish", err, nil)
		}
	}
	n := 0
	for class, ids := range led {
		if n += len(ids); !slices.IsSorted(ids) || len(slices.Compact(slices.Clone(ids))) != len(ids) {
			t.Errorf("tasks of %v were led in the order %q", class, ids)
		}
	}
	if n != tasks {
		t.Errorf("%d leads were given of %d tasks", n, tasks)
	}
	for i := range tasks {
		if x := must.Get(d.Task(fmt.Sprintf("%020d", i)))(t); x.GetState() != task.Done || x.GetTries() != 1 {
			t.Fatalf("task %s is %v after %d tries", x.GetId(), x.GetState(), x.GetTries())
		}
	}
}

// leadsOf are the leads among the orders that an agent has been sent.
func leadsOf(orders chan *agentv1.Order) (leads []*agentv1.Lead) {
	for len(orders) > 0 {
		if l := (<-orders).GetLead(); l != nil {
			leads = append(leads, l)
		}
	}
	return leads
}
