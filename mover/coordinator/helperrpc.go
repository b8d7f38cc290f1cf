package coordinator

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

const (
	batchesMost = 100_000   // of one lead, at one time; a worker gives some hundred
	workMost    = 900 << 10 // bytes of one batch: a record of the ledger holds it
	triesMost   = 4         // agents that try a batch before its lead hears that no helper can
)

// Give implements agentv1.LinkServiceServer.
func (s *scheduler) Give(ctx context.Context, r *agentv1.GiveRequest) (*agentv1.GiveResponse, error) {
	b, err := s.given(ctx, r)
	if err != nil {
		return nil, err
	}
	r.Work = nil // it is in the ledger, and the answer may take long
	select {
	case <-b.done:
		return s.answerOf(b)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// given returns the batch of a request, and makes it at the first call.
func (s *scheduler) given(ctx context.Context, r *agentv1.GiveRequest) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.c.agents.held(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	if b, err := s.batchOf(l, r.GetBatch()); b != nil || err != nil {
		return b, err
	}
	b := &batch{done: make(chan struct{}), since: s.now(), span: telemetry.Inject(ctx), meta: &ledgerv1.Batch{
		Task: r.GetTask(), Id: r.GetBatch(), State: ledgerv1.BatchState_BATCH_STATE_WAITING, LeadEpoch: l.epoch, Bytes: r.GetBytes(),
		Entries: r.GetEntries(), Pair: r.GetPair(), Parts: r.GetParts(), CreateTime: timestamppb.New(s.now()),
	}}
	if len(r.GetWork()) > workMost || len(l.batches) >= batchesMost || !l.need.Shared() {
		b.answer = &agentv1.GiveResponse{Nobody: true}
		close(b.done)
		return b, nil
	}
	if err := s.storeGiven(ctx, b, r); err != nil {
		return nil, err
	}
	for _, id := range r.GetHeard() {
		delete(l.batches, id)
	}
	l.batches[r.GetBatch()] = b
	s.o.Metrics.Batches(telemetry.BatchGiven, 1)
	s.c.hurry()
	return b, nil
}

// heldBatch returns the batch that the caller has. scheduler.mu is held.
func (s *scheduler) heldBatch(ctx context.Context, id, batchID string, epoch uint64) (*lead, *batch, error) {
	agent := authz.From(ctx).Agent
	if l := s.leads[id]; l != nil {
		b := l.batches[batchID]
		if n := s.agents[agent]; n != nil && b != nil && b.meta.GetEpoch() == epoch && b.meta.GetAgent() == agent && b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			n.seen = s.now()
			return l, b, nil
		}
	}
	return nil, nil, lostBatch(batchID)
}

// Reply implements agentv1.LinkServiceServer.
func (s *scheduler) Reply(ctx context.Context, r *agentv1.ReplyRequest) (*agentv1.ReplyResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.agents[authz.From(ctx).Agent]; n != nil { // the agent has ended its try, even if another agent has the batch now
		delete(n.lingers, claim{r.GetTask(), r.GetBatch(), r.GetEpoch()})
	}
	l, b, err := s.heldBatch(ctx, r.GetTask(), r.GetBatch(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	switch {
	case r.GetError() == "":
		l.learn(s.now().Sub(b.since))
		s.o.Metrics.Batches(telemetry.BatchDone, 1)
		s.answer(l, b, &agentv1.GiveResponse{Reply: r.GetReply()})
	case b.meta.GetParts():
		s.answer(l, b, &agentv1.GiveResponse{Silent: true})
	case b.meta.GetTries() >= triesMost:
		s.answer(l, b, &agentv1.GiveResponse{Error: r.GetError(), ErrorKind: r.GetErrorKind()})
	default:
		s.o.Metrics.Batches(telemetry.BatchRequeued, 1)
		s.takeBack(ctx, l, b)
	}
	return &agentv1.ReplyResponse{}, nil
}

// answer ends a batch. scheduler.mu is held.
func (s *scheduler) answer(l *lead, b *batch, a *agentv1.GiveResponse) {
	b.meta.State, b.meta.Error = ledgerv1.BatchState_BATCH_STATE_ANSWERED, a.GetError()
	var err error
	if b.stored, err = s.storeAnswer(b.meta, a); err != nil {
		s.log.Warn("an answer is not stored; it is in memory", "task", b.meta.GetTask(), "batch", b.meta.GetId(), "err", err)
	}
	if !b.stored {
		b.answer = a
	}
	close(b.done)
	s.noteHelpers(l)
	s.c.hurry()
}

// noteHelpers stores the names of the agents that help a lead in its task. scheduler.mu is held.
func (s *scheduler) noteHelpers(l *lead) {
	if l.closing {
		return
	}
	var names []string
	for _, b := range l.batches {
		if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN && !slices.Contains(names, b.meta.GetAgent()) {
			names = append(names, b.meta.GetAgent())
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, l.task.GetHelpers()) {
		l.task.Helpers = names
		s.changed(l.task)
	}
}
