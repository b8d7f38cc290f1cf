package service

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
)

// telling is the stream on which a lead hears what its source has to be.
type telling struct {
	grpc.ServerStream
	ctx context.Context
}

func (t *telling) Context() context.Context { return t.ctx }

func (t *telling) Send(*agentv1.ReadManifestResponse) error { return nil }

// TestFence: what only the lead of a task may do, and who has a batch, nobody else may: not
// another node with its epoch, and not itself with an epoch that is over or made up.
//
//safety:7 a node with the epoch of another one's lead or batch, and epochs that are over or made up
func TestFence(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	task, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "project:out"}})
	wants(t, "submit", err, nil)
	d.give()
	id, l := task.GetId(), d.taken[task.GetId()]
	lead, helper, epoch := d.led[id], d.helper(id), l.GetEpoch()
	d.handOver(l, "b")
	taken := d.help(l, 1)
	if len(taken) != 1 {
		t.Fatalf("%d batches were taken", len(taken))
	}
	of := func(agent string, epoch uint64) map[string]func() error {
		ctx := asAgent(agent)
		return map[string]func() error{
			"confirm": func() error { return second(d.Confirm(ctx, &agentv1.ConfirmRequest{Task: id, Epoch: epoch})) },
			"keep": func() error {
				return second(d.Keep(ctx, &agentv1.KeepRequest{Task: id, Epoch: epoch, Draft: "draft", On: true}))
			},
			"read the manifest": func() error {
				return d.ReadManifest(&agentv1.ReadManifestRequest{Task: id, Epoch: epoch}, &telling{ctx: ctx})
			},
			"give": func() error {
				return second(d.given(ctx, &agentv1.GiveRequest{Task: id, Epoch: epoch, Batch: "b", Work: []byte("work of b")}))
			},
			"finish": func() error {
				return second(d.Finish(ctx, &agentv1.FinishRequest{Task: id, Epoch: epoch, Report: &pb.Report{}}))
			},
		}
	}
	batch := func(agent string, epoch uint64) map[string]func() error {
		ctx := asAgent(agent)
		return map[string]func() error{
			"confirm a batch": func() error {
				return second(d.Confirm(ctx, &agentv1.ConfirmRequest{Task: id, Batch: "b", Epoch: epoch}))
			},
			"reply": func() error {
				return second(d.Reply(ctx, &agentv1.ReplyRequest{Task: id, Batch: "b", Epoch: epoch, Reply: []byte("reply to b")}))
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
