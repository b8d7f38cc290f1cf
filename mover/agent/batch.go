package agent

import (
	"context"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// idleTime is how long a process without batches waits for another one.
const idleTime = 10 * time.Second

// beginBatch gives a batch to the process of its task, and starts one if need be.
func (a *Agent) beginBatch(ctx context.Context, b *agentv1.Batch, s *session) {
	s.span = b.GetTraceParent()
	p, err := a.helper(ctx, b)
	if err == nil {
		err = p.take(b.GetId(), s)
	}
	if err != nil {
		a.log.Warn("a batch can not begin", "task", b.GetTask(), "batch", b.GetId(), "err", err)
		a.reply(s.span, &agentv1.ReplyRequest{Task: b.GetTask(), Batch: b.GetId(), Epoch: b.GetEpoch(), Error: err.Error(), ErrorKind: mover.KindName(err)})
		a.drop(sessionKey{b.GetTask(), b.GetId()}, b.GetEpoch())
		return
	}
	p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Batch{Batch: &agentv1.WorkerBatch{
		Id: b.GetId(), Epoch: b.GetEpoch(), Pair: b.GetPair(), Work: b.GetWork(), Again: len(b.GetOver()) > 0, Over: b.GetOver(), TraceParent: b.GetTraceParent(),
	}}})
	a.mu.Lock()
	s.proc = p // from here on a Stop reaches it by itself
	stop := s.stop
	a.mu.Unlock()
	if stop != agentv1.How_HOW_UNSPECIFIED {
		p.stopBatch(b.GetId(), stop)
	}
}

// take makes a batch one of the process. A process that has ended meanwhile takes none:
// the batch would never be reported.
func (p *process) take(id string, s *session) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buried != nil {
		return p.buried
	}
	if p.idle != nil {
		p.idle.Stop()
	}
	p.batches[id] = s
	return nil
}

// stopBatch has the process let go of a batch in the way that is said.
func (p *process) stopBatch(id string, how agentv1.How) {
	p.send(&agentv1.WorkerOrder{What: &agentv1.WorkerOrder_Stop{Stop: &agentv1.WorkerStop{Batch: id, How: how}}})
}

// helper is the process that does batches of a task.
func (a *Agent) helper(ctx context.Context, b *agentv1.Batch) (*process, error) {
	started, err := a.startsHelper(ctx, b.GetTask())
	if err != nil {
		return nil, err
	}
	defer started()
	a.mu.Lock()
	p := a.procs[b.GetTask()]
	a.mu.Unlock()
	if p != nil && p.lead == nil && p.epoch == b.GetLeadEpoch() && p.ctx.Err() == nil {
		return p, nil
	}
	task := &pb.Task{Id: b.GetTask(), Spec: b.GetSpec(), Owner: b.GetOwner()}
	p = newProcess(a, task, a.job(b.GetTask(), b.GetSpec(), b.GetRoots()))
	p.epoch = b.GetLeadEpoch()
	p.job.Expects = b.GetExpects()
	p.limit(b.GetBytesPerSecond())
	p.relay(b.GetTraceParent())
	return p, a.start(ctx, p)
}

// startsHelper waits until no other batch of a task has a helper started, so that a task has one process. A start may take long, as where a file
// system does not answer: helpers of other tasks start meanwhile.
func (a *Agent) startsHelper(ctx context.Context, id string) (started func(), err error) {
	for {
		a.mu.Lock()
		other := a.starting[id]
		if other == nil {
			done := make(chan struct{})
			a.starting[id] = done
			a.mu.Unlock()
			return func() {
				a.mu.Lock()
				delete(a.starting, id)
				a.mu.Unlock()
				close(done)
			}, nil
		}
		a.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// rest ends the process when no batch comes for a while.
func (p *process) rest() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lead != nil {
		return
	}
	p.idle = time.AfterFunc(idleTime, func() {
		p.mu.Lock()
		busy := len(p.batches) > 0
		p.mu.Unlock()
		if !busy {
			p.halt(agentv1.How_HOW_PAUSE, stopGrace)
		}
	})
}
