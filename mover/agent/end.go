package agent

import (
	"context"
	"errors"
	"time"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
)

// tellTimeout is how long the agent tries to tell the coordinator how something
// ended. After that the coordinator finds out by itself: the lease ends.
const tellTimeout = time.Minute

// EndLead implements agentv1.WorkerServiceServer.
func (p *process) EndLead(_ context.Context, r *agentv1.EndLeadRequest) (*agentv1.EndLeadResponse, error) {
	if d := p.describer; d != nil {
		p.counted(r.GetCounts())
		select {
		case d.ended <- r:
		default: // it has ended already
		}
		return &agentv1.EndLeadResponse{}, nil
	}
	if p.lead == nil {
		return nil, errNoLead
	}
	p.counted(r.GetCounts())
	p.sealing.Lock() // what it has had unsealed is known after that
	p.mu.Lock()
	p.done = true
	digest, unguarded, unsealed := p.digest, p.unguarded, p.unsealed
	p.mu.Unlock()
	p.sealing.Unlock()
	if r.GetError() == "" && !r.GetStopped() {
		p.agent.clearReplica(p.job.GetSpec())
	}
	p.agent.finish(p, &agentv1.FinishRequest{
		Task: p.task.GetId(), Epoch: p.epoch, Report: r.GetReport(), Error: r.GetError(), ErrorKind: r.GetErrorKind(), PutBack: r.GetStopped(), Digest: digest,
		Untouched: r.GetUntouched() && !unsealed, Unlike: r.GetUnlike(), FirstByteTime: r.GetFirstByteTime(), Unguarded: unguarded,
	})
	return &agentv1.EndLeadResponse{}, nil
}

// EndBatch implements agentv1.WorkerServiceServer.
func (p *process) EndBatch(_ context.Context, r *agentv1.EndBatchRequest) (*agentv1.EndBatchResponse, error) {
	p.counted(r.GetCounts())
	p.wants.Store(min(r.GetWants(), max(p.wants.Load(), int32(p.agent.o.BatchSlots))+1)) // by one, or the first to end would take all that is left
	p.mu.Lock()
	s := p.batches[r.GetId()]
	delete(p.batches, r.GetId())
	left := len(p.batches)
	p.mu.Unlock()
	if s == nil {
		return nil, errNoLead
	}
	p.agent.reply(s.span, &agentv1.ReplyRequest{
		Task: p.task.GetId(), Batch: r.GetId(), Epoch: s.epoch, Reply: r.GetReply(), Error: r.GetError(), ErrorKind: r.GetErrorKind(),
	})
	p.agent.drop(sessionKey{p.task.GetId(), r.GetId()}, s.epoch)
	if left == 0 {
		p.rest()
	}
	return &agentv1.EndBatchResponse{}, nil
}

// finish tells the coordinator how a lead ended.
func (a *Agent) finish(p *process, r *agentv1.FinishRequest) {
	if task.Of(p.task.GetSpec()).Probe {
		a.admits(p.task, r) // before the caller gets the answer
	}
	a.report(p.traced(context.Background(), ""), "task", r.GetTask(), func(ctx context.Context) error { _, err := a.link.Finish(ctx, r); return err })
}

// reply tells the coordinator how a batch ended.
func (a *Agent) reply(span string, r *agentv1.ReplyRequest) {
	a.report(telemetry.Extract(context.Background(), span), "batch", r.GetBatch(), func(ctx context.Context) error { _, err := a.link.Reply(ctx, r); return err })
}

func (a *Agent) report(ctx context.Context, what, id string, call func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, tellTimeout)
	defer cancel()
	for {
		err := api.FromStatus(call(ctx))
		if err == nil {
			return
		}
		if ctx.Err() != nil || !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) {
			a.log.Warn("the coordinator does not take the end", what, id, "err", err)
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(confirmPause):
		}
	}
}
