package service

import (
	"context"
	"slices"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/telemetry"
)

const (
	batchesMost = 100_000   // of one lead, at one time
	workMost    = 900 << 10 // bytes of one batch: a record of the ledger holds it
	triesMost   = 4         // agents that try a batch before its lead hears that nobody can
)

// Give implements agentv1.LinkServiceServer.
func (s *Service) Give(ctx context.Context, r *agentv1.GiveRequest) (*agentv1.GiveResponse, error) {
	b, err := s.given(ctx, r)
	if err != nil {
		return nil, err
	}
	select {
	case <-b.done:
		s.mu.Lock()
		defer s.mu.Unlock()
		return b.answer, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// given returns the batch of a request, and makes it at the first call.
func (s *Service) given(ctx context.Context, r *agentv1.GiveRequest) (*batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, err := s.held(ctx, r.GetTask(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	if b := l.batches[r.GetBatch()]; b != nil {
		return b, nil
	}
	heard := slices.DeleteFunc(slices.Clone(r.GetHeard()), func(id string) bool { return l.batches[id] == nil })
	b := &batch{give: r, done: make(chan struct{}), since: s.now(), span: telemetry.Inject(ctx), meta: &ledgerv1.Batch{
		Task: r.GetTask(), Id: r.GetBatch(), State: ledgerv1.BatchState_BATCH_STATE_WAITING, LeadEpoch: l.epoch, Bytes: r.GetBytes(),
		Entries: r.GetEntries(), Pair: r.GetPair(), Parts: r.GetParts(), CreateTime: timestamppb.New(s.now()),
	}}
	if len(r.GetWork()) > workMost || len(l.batches) >= batchesMost || !l.need.shared() {
		b.answer = &agentv1.GiveResponse{Nobody: true}
		close(b.done)
		return b, nil
	}
	err = s.ledger.Update(ctx, ledger.Soon, func(tx *ledger.Tx) error {
		for _, id := range heard {
			if err := ledger.Batches.Delete(tx, r.GetTask(), id); err != nil {
				return err
			}
			if err := ledger.Works.Delete(tx, r.GetTask(), id); err != nil {
				return err
			}
		}
		if err := ledger.Batches.Put(tx, b.meta); err != nil {
			return err
		}
		return ledger.Works.Put(tx, &ledgerv1.Work{Task: r.GetTask(), Batch: r.GetBatch(), Work: r.GetWork()})
	})
	if err != nil {
		return nil, err
	}
	for _, id := range heard {
		delete(l.batches, id)
	}
	l.batches[r.GetBatch()] = b
	s.o.Metrics.Batches(telemetry.BatchGiven, 1)
	s.hurry()
	return b, nil
}

// heldBatch returns the batch that the caller has. Service.mu is held.
func (s *Service) heldBatch(ctx context.Context, id, batchID string, epoch uint64) (*lead, *batch, error) {
	agent := access.From(ctx).Agent
	if l := s.leads[id]; l != nil {
		b := l.batches[batchID]
		if b != nil && b.meta.GetEpoch() == epoch && b.meta.GetAgent() == agent && b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			s.agents[agent].seen = s.now()
			return l, b, nil
		}
	}
	return nil, nil, &mover.Error{Op: "do", Place: "batch " + mover.Printable(batchID), Err: errLost}
}

// Reply implements agentv1.LinkServiceServer.
func (s *Service) Reply(ctx context.Context, r *agentv1.ReplyRequest) (*agentv1.ReplyResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, b, err := s.heldBatch(ctx, r.GetTask(), r.GetBatch(), r.GetEpoch())
	if err != nil {
		return nil, err
	}
	switch {
	case r.GetError() == "":
		l.learn(s.now().Sub(b.since))
		s.o.Metrics.Batches(telemetry.BatchDone, 1)
		s.answer(l, b, &agentv1.GiveResponse{Reply: r.GetReply()})
	case b.give.GetParts():
		s.answer(l, b, &agentv1.GiveResponse{Silent: true})
	case b.meta.GetTries() >= triesMost:
		s.answer(l, b, &agentv1.GiveResponse{Error: r.GetError(), ErrorKind: r.GetErrorKind()})
	default:
		s.o.Metrics.Batches(telemetry.BatchRequeued, 1)
		s.takeBack(ctx, l, b)
	}
	return &agentv1.ReplyResponse{}, nil
}

// answer ends a batch. Service.mu is held.
func (s *Service) answer(l *lead, b *batch, a *agentv1.GiveResponse) {
	m := b.meta
	m.State, m.Error = ledgerv1.BatchState_BATCH_STATE_ANSWERED, a.GetError()
	b.answer, b.give = a, &agentv1.GiveRequest{Task: m.GetTask(), Batch: m.GetId(), Parts: b.give.GetParts()}
	err := s.ledger.Update(context.Background(), ledger.Soon, func(tx *ledger.Tx) error {
		begun := a.GetNobody() && len(a.GetOver()) > 0
		if len(a.GetReply()) > workMost || a.GetReply() == nil && !begun { // after a restart the lead gives it again, or hears that it is over
			if err := ledger.Works.Delete(tx, m.GetTask(), m.GetId()); err != nil {
				return err
			}
			return ledger.Batches.Delete(tx, m.GetTask(), m.GetId())
		}
		if err := ledger.Batches.Put(tx, m); err != nil {
			return err
		}
		return ledger.Works.Put(tx, &ledgerv1.Work{Task: m.GetTask(), Batch: m.GetId(), Reply: a.GetReply()})
	})
	if err != nil {
		s.log.Warn("an answer is not stored; it is in memory", "task", m.GetTask(), "batch", m.GetId(), "err", err)
	}
	close(b.done)
	s.noteHelpers(l)
	s.hurry()
}

// noteHelpers notes who helps a lead. Service.mu is held.
func (s *Service) noteHelpers(l *lead) {
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
