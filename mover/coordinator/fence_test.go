package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// telling is the stream on which a lead hears what its source has to be.
type telling struct {
	grpc.ServerStream
	ctx context.Context
}

func (t *telling) Context() context.Context { return t.ctx }

func (t *telling) Send(*agentv1.ReadManifestResponse) error { return nil }

// TestEndIsStoredLater: an end that can not be stored, as on a full disk, is decided all the same. No other agent gets the task, silent agents lose nothing again,
// and it is stored when that is possible.
//
//safety:3 the disk of the coordinator is full when an end has to be stored, and its agent is silent for longer than a lease
func TestEndIsStoredLater(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	submitted, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "project:out"}})
	wants(t, "submit", err, nil)
	d.give()
	id := submitted.GetId()
	revision, epoch := d.state(id).GetRevision(), d.taken[id].GetEpoch()
	l := d.scheduler.leads[id]
	d.scheduler.lose(context.Background(), l, strings.Repeat("!", 2*state.RecordBytes)) // more than a record may have
	d.pass(2 * d.lease)
	for range 5 {
		d.scheduler.expire(context.Background())
		d.pass(storeAgain / 2)
		d.give()
		if now := d.state(id); now.GetState() != task.Running || now.GetRevision() != revision || d.taken[id].GetEpoch() != epoch {
			t.Fatalf("it is %v", now)
		}
	}
	d.pass(storeAgain)
	l.unstored.Why = "its agent is silent"
	d.scheduler.expire(context.Background())
	if now := d.state(id); now.GetState() != task.Queued || now.GetRevision() != revision+1 || now.GetWhy() != "its agent is silent" {
		t.Errorf("it is %v", now)
	}
}

// TestFence: what only the lead of a task may do, and who has a batch, nobody else may: not
// another node with its epoch, and not itself with an epoch that is over or made up.
//
//safety:7 a node with the epoch of another one's lead or batch, and epochs that are over or made up
func TestFence(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	submitted, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "project:out"}})
	wants(t, "submit", err, nil)
	d.give()
	id, l := submitted.GetId(), d.taken[submitted.GetId()]
	lead, helper, epoch := d.led[id], d.helper(id), l.GetEpoch()
	d.handOver(l, "b")
	taken := d.help(l, 1)
	if len(taken) != 1 {
		t.Fatalf("%d batches were taken", len(taken))
	}
	of := func(agent string, epoch uint64) map[string]func() error {
		ctx := asAgent(agent)
		return map[string]func() error{
			"confirm": func() error { return second(d.agents.Confirm(ctx, &agentv1.ConfirmRequest{Task: id, Epoch: epoch})) },
			"keep": func() error {
				return second(d.agents.Keep(ctx, &agentv1.KeepRequest{Task: id, Epoch: epoch, Draft: "draft", On: true}))
			},
			"read the manifest": func() error {
				return d.datasets.ReadManifest(&agentv1.ReadManifestRequest{Task: id, Epoch: epoch}, &telling{ctx: ctx})
			},
			"give": func() error {
				return second(d.scheduler.given(ctx, &agentv1.GiveRequest{Task: id, Epoch: epoch, Batch: "b", Work: []byte("work of b")}))
			},
			"finish": func() error {
				return second(d.scheduler.Finish(ctx, &agentv1.FinishRequest{Task: id, Epoch: epoch, Report: &pb.Report{}}))
			},
		}
	}
	batch := func(agent string, epoch uint64) map[string]func() error {
		ctx := asAgent(agent)
		return map[string]func() error{
			"confirm a batch": func() error {
				return second(d.agents.Confirm(ctx, &agentv1.ConfirmRequest{Task: id, Batch: "b", Epoch: epoch}))
			},
			"reply": func() error {
				return second(d.scheduler.Reply(ctx, &agentv1.ReplyRequest{Task: id, Batch: "b", Epoch: epoch, Reply: []byte("reply to b")}))
			},
		}
	}
	for _, c := range []struct {
		who  string
		do   map[string]func() error
		kind error
	}{
		{"another node with the epoch of the lead", of(helper, epoch), mover.ErrHeld},
		{"the lead with an epoch that is over", of(lead, epoch-1), mover.ErrHeld},
		{"the lead with one that is to come", of(lead, epoch+1), mover.ErrHeld},
		{"the lead as who has the batch", batch(lead, taken[0].GetEpoch()), mover.ErrHeld},
		{"a helper with an epoch that is over", batch(helper, taken[0].GetEpoch()-1), mover.ErrHeld},
		{"a helper with the epoch of the lead", batch(helper, epoch), mover.ErrHeld},
	} {
		for what, do := range c.do {
			wants(t, c.who+": "+what, do(), c.kind)
		}
	}
	for _, what := range []string{"confirm a batch", "reply"} {
		wants(t, "the helper: "+what, batch(helper, taken[0].GetEpoch())[what](), nil)
	}
	for _, what := range []string{"confirm", "keep", "read the manifest", "give", "finish"} {
		wants(t, "the lead: "+what, of(lead, epoch)[what](), nil)
	}
}

// TestSilence: an agent that is not heard of for a lease loses what it has, and not before: a helper its batch, which another
// one is given, and a lead its task.
func TestSilence(t *testing.T) {
	d, l := crewed(t)
	ctx, id := context.Background(), l.GetTask().GetId()
	lead, helper := d.led[id], d.helper(id)
	hear := func(agent string, s *agentv1.Status) {
		d.scheduler.mu.Lock()
		defer d.scheduler.mu.Unlock()
		d.agents.note(d.scheduler.agents[agent], s)
	}
	leads := &agentv1.Status{Sessions: []*agentv1.Session{{Task: id, Epoch: l.GetEpoch()}}}
	hear(lead, leads)
	b := d.handOver(l, "b")
	if taken := d.help(l, 1); len(taken) != 1 {
		t.Fatalf("%d batches were taken", len(taken))
	}
	state := func() (is ledgerv1.BatchState) {
		d.scheduler.mu.Lock()
		defer d.scheduler.mu.Unlock()
		return b.meta.GetState()
	}
	for _, c := range []struct {
		pass  time.Duration
		heard []string // after that
		batch ledgerv1.BatchState
		task  pb.TaskState
	}{
		{d.lease, nil, ledgerv1.BatchState_BATCH_STATE_TAKEN, task.Running},
		{time.Second, []string{lead, helper}, ledgerv1.BatchState_BATCH_STATE_TAKEN, task.Running},
		{d.lease + time.Second, []string{lead}, ledgerv1.BatchState_BATCH_STATE_WAITING, task.Running},
		{d.lease + time.Second, []string{helper}, ledgerv1.BatchState_BATCH_STATE_WAITING, task.Queued},
	} {
		d.pass(c.pass)
		for _, agent := range c.heard {
			if agent == lead {
				hear(agent, leads)
			} else {
				hear(agent, &agentv1.Status{})
			}
		}
		d.scheduler.expire(ctx)
		if got := d.state(id).GetState(); state() != c.batch || got != c.task {
			t.Errorf("after %v without %v: the batch is %v and the task %v", c.pass, c.heard, state(), got)
		}
	}
	wants(t, "the lead that was silent", second(d.agents.Confirm(asAgent(lead), &agentv1.ConfirmRequest{Task: id, Epoch: l.GetEpoch()})), mover.ErrHeld)
}
