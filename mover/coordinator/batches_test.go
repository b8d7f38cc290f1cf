package coordinator

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// crewed is a desk with a task that n1 leads and n2 may help with.
func crewed(t *testing.T) (d *desk, l *agentv1.Lead) {
	t.Helper()
	d = newDesk(t, site(), authz.Input{})
	task, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "project:in", Target: "project:out"}})
	must.Do(t, err)
	d.give()
	if l = d.taken[task.GetId()]; l == nil {
		t.Fatal("nobody leads the task")
	}
	return d, l
}

// handOver has the lead give a batch away, without waiting for its end.
func (d *desk) handOver(l *agentv1.Lead, id string, heard ...string) *batch {
	d.t.Helper()
	b, err := d.scheduler.given(asAgent(d.led[l.GetTask().GetId()]), d.giving(l, id, heard...))
	if err != nil {
		d.t.Fatalf("batch %s: %v", id, err)
	}
	return b
}

func (d *desk) giving(l *agentv1.Lead, id string, heard ...string) *agentv1.GiveRequest {
	return &agentv1.GiveRequest{Task: l.GetTask().GetId(), Epoch: l.GetEpoch(), Batch: id, Work: []byte("work of " + id), Heard: heard}
}

// help has whoever does not lead a task take up to n of its batches.
func (d *desk) help(l *agentv1.Lead, n int) (taken []*agentv1.Batch) {
	d.t.Helper()
	helper := d.helper(l.GetTask().GetId())
	d.scheduler.mu.Lock()
	d.agents.note(d.scheduler.agents[helper], &agentv1.Status{BatchSlots: int32(n)})
	d.scheduler.mu.Unlock()
	d.scheduler.giveBatches(context.Background())
	for len(d.orders[helper]) > 0 {
		if b := (<-d.orders[helper]).GetBatch(); b != nil {
			if want := "work of " + b.GetId(); string(b.GetWork()) != want {
				d.t.Fatalf("batch %s is told to do %q, not %q", b.GetId(), b.GetWork(), want)
			}
			taken = append(taken, b)
		}
	}
	d.helped = append(d.helped, taken...)
	return taken
}

// helper is the node that does not lead a task.
func (d *desk) helper(task string) string {
	if d.led[task] == "n1" {
		return "n2"
	}
	return "n1"
}

func (d *desk) reply(b *agentv1.Batch) error {
	_, err := d.scheduler.Reply(asAgent(d.helper(b.GetTask())), &agentv1.ReplyRequest{Task: b.GetTask(), Batch: b.GetId(), Epoch: b.GetEpoch(), Reply: []byte("reply to " + b.GetId())})
	return err
}

// TestBatchesAfterRestart: batches that were given before a restart of the service are
// what they were for their lead and for who has them, and nobody else's are in memory.
func TestBatchesAfterRestart(t *testing.T) {
	d, l := crewed(t)
	d.handOver(l, "answered")
	for _, b := range d.help(l, 1) {
		must.Do(t, d.reply(b))
	}
	d.handOver(l, "taken")
	taken := d.help(l, 1)
	if len(taken) != 1 || taken[0].GetId() != "taken" {
		t.Fatalf("taken: %v", taken)
	}
	for i := range 100 {
		d.handOver(l, fmt.Sprint("waiting ", i))
	}

	d.close()
	d.open()
	if got := d.scheduler.leads[l.GetTask().GetId()].batches; len(got) != 1 || got["taken"] == nil {
		t.Errorf("%d batches are in memory, of which nobody has asked for any", len(got))
	}
	if answer, err := d.scheduler.Give(asAgent(d.led[l.GetTask().GetId()]), d.giving(l, "answered")); string(answer.GetReply()) != "reply to answered" {
		t.Errorf("what was answered is %v, %v", answer, err)
	}
	b := d.handOver(l, "taken")
	wants(t, "the reply of who has it", d.reply(taken[0]), nil)
	<-b.done
	if answer, err := d.scheduler.answerOf(b); string(answer.GetReply()) != "reply to taken" {
		t.Errorf("what was taken is answered %v, %v", answer, err)
	}
	d.handOver(l, "waiting 7", "answered", "taken")
	if again := d.help(l, 5); len(again) != 1 || again[0].GetId() != "waiting 7" {
		t.Errorf("of those that wait, these are done that the lead still wants: %v", again)
	}
}

// TestHelpersThatHaveLetGo: of a task that ends, or that a coordinator finds in its ledger,
// those are said to help who do, and how fast it is when nobody works on it.
func TestHelpersThatHaveLetGo(t *testing.T) {
	d, l := crewed(t)
	id := l.GetTask().GetId()
	helpers := func(what string, want ...string) *pb.Task {
		t.Helper()
		x, err := d.GetTask(root, &pb.GetTaskRequest{Id: id})
		if err != nil || !slices.Equal(x.GetHelpers(), want) {
			t.Errorf("%s: %v help, want %v: %v", what, x.GetHelpers(), want, err)
		}
		return x
	}
	d.handOver(l, "one")
	one := d.help(l, 1)
	helpers("it has a batch", d.helper(id))
	_, err := d.PauseTask(root, &pb.PauseTaskRequest{Id: id}) // which stores the task as it is
	wants(t, "pause", err, nil)
	wants(t, "reply", d.reply(one[0]), nil)
	d.close()
	d.open()
	helpers("it has let go, and the coordinator begins anew")

	d.handOver(l, "two")
	d.help(l, 1)
	helpers("it has another one", d.helper(id))
	lead, revision := d.scheduler.leads[id], d.scheduler.leads[id].task.GetRevision()
	lead.task.Progress = &pb.Progress{BytesDone: 7, BytesPerSecond: 5, FilesPerSecond: 3, InFlight: 2, Slowest: []*pb.SlowItem{{Agent: d.helper(id)}}}
	d.scheduler.mu.Lock()
	d.scheduler.closes(lead)
	d.scheduler.mu.Unlock()
	if x := helpers("its end is being stored"); x.GetState() != task.Running || x.GetRevision() <= revision {
		t.Errorf("while its end is being stored it is %v", x)
	}
	d.scheduler.letGo(context.Background(), lead, "test")
	if x := helpers("it is paused"); x.GetState() != task.Paused || !proto.Equal(x.GetProgress(), &pb.Progress{BytesDone: 7}) {
		t.Errorf("nobody works on it, and it is %v", x)
	}
}

// TestBatchNobodyDoes: a batch that nobody could do goes back to its lead, before a
// restart and after it.
func TestBatchNobodyDoes(t *testing.T) {
	d, l := crewed(t)
	d.handOver(l, "a")
	d.pass(nobodyAfter)
	d.scheduler.giveBatches(context.Background())
	b := d.handOver(l, "b")
	d.pass(nobodyAfter + 1)
	d.scheduler.giveBatches(context.Background())
	<-b.done
	for _, open := range []func(){func() {}, func() { d.close(); d.open() }} {
		open()
		b := d.handOver(l, "a")
		d.pass(nobodyAfter + 1)
		d.scheduler.giveBatches(context.Background())
		<-b.done
		if answer, err := d.scheduler.answerOf(b); err != nil || !answer.GetNobody() {
			t.Errorf("the lead is told %v, %v", answer, err)
		}
	}
}

// TestEndWithManyBatches: a lead with more batches than one change can delete comes to
// its end, and what is left of them is nobody's.
//
//safety:8 a lead that ends with more batches than one change of the ledger may hold
func TestEndWithManyBatches(t *testing.T) {
	d, l := crewed(t)
	id := l.GetTask().GetId()
	for i := range 24 {
		err := d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) error {
			for j := range 500 {
				if err := state.Batches.Put(tx, &ledgerv1.Batch{Task: id, Id: fmt.Sprint(i, ".", j), State: ledgerv1.BatchState_BATCH_STATE_WAITING, LeadEpoch: l.GetEpoch()}); err != nil {
					return err
				}
			}
			return nil
		})
		must.Do(t, err)
	}
	d.scheduler.lose(context.Background(), d.scheduler.leads[id], "test")
	delete(d.taken, id)
	d.give()
	l = d.taken[id]
	if l == nil {
		t.Fatal("the task is not given to another agent")
	}
	d.close()
	d.open()
	d.handOver(l, "0.3") // a name that the lead before had used
	if got := d.help(l, 5); len(got) != 1 {
		t.Errorf("batches of the lead before are done: %v", got)
	}
	wants(t, "the end", d.finish(id, 0, nil), nil)
	_, err := d.scheduler.given(asAgent(d.led[id]), d.giving(l, "late"))
	wants(t, "a batch after the end", err, mover.ErrHeld)
}
