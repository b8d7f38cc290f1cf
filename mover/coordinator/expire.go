package coordinator

import (
	"context"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/usage"
	"datamove.dev/mover/task"
	"datamove.dev/mover/telemetry"
)

// expire takes from agents that were silent for a lease what they had, and from those
// that never said that they have what they were given. What could not be stored of leads
// that are over is tried again.
func (s *scheduler) expire(ctx context.Context) {
	now := s.now()
	type loss struct {
		l   *lead
		why string
	}
	type ending struct {
		l *lead
		t *pb.Task
	}
	var lost []loss
	var over []ending
	s.mu.Lock()
	for _, l := range s.leads {
		a := s.agents[l.agent]
		switch {
		case l.unstored != nil && !now.Before(l.again):
			over = append(over, ending{l, l.unstored})
			l.unstored = nil
		case l.closing: // how it ends is decided
		case a == nil || now.Sub(a.seen) > s.lease && now.Sub(l.since) > s.lease:
			lost = append(lost, loss{l, "agent " + l.agent + " is not heard of any more"})
		case !l.heard && now.Sub(l.since) > s.lease:
			lost = append(lost, loss{l, "agent " + l.agent + " does not say that it has it"})
		}
		for _, b := range l.batches {
			s.expireBatch(ctx, l, b, now)
		}
	}
	for _, a := range s.agents {
		if a.orders != nil && now.Sub(a.seen) > s.lease {
			a.end() // it may be there again at once; what it had is not
			a.orders = nil
		}
	}
	s.mu.Unlock()
	for _, x := range lost {
		s.lose(ctx, x.l, x.why)
	}
	for _, x := range over {
		s.close(ctx, x.l, x.t)
	}
}

// expireBatch takes a batch from a silent agent: another one does it, or, of parts,
// the lead hears of it. scheduler.mu is held.
func (s *scheduler) expireBatch(ctx context.Context, l *lead, b *batch, now time.Time) {
	if b.meta.GetState() != ledgerv1.BatchState_BATCH_STATE_TAKEN {
		return
	}
	a := s.agents[b.meta.GetAgent()]
	if a != nil && now.Sub(a.seen) <= s.lease || now.Sub(b.since) <= s.lease {
		return
	}
	s.o.Metrics.Batches(telemetry.BatchTakenOver, 1)
	s.takeBack(ctx, l, b)
}

// takeBack ends a try of a batch with an unknown result. The batch waits for another agent;
// parts of a file are answered as silent instead. scheduler.mu is held.
func (s *scheduler) takeBack(ctx context.Context, l *lead, b *batch) {
	s.send(b.meta.GetAgent(), &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{
		Task: b.meta.GetTask(), Batch: b.meta.GetId(), Epoch: b.meta.GetEpoch(), How: agentv1.How_HOW_LOST,
	}}})
	if b.meta.GetParts() {
		s.answer(l, b, &agentv1.GiveResponse{Silent: true})
		return
	}
	m := b.meta
	m.Over = append(m.GetOver(), m.GetEpoch())
	m.State, m.Agent = ledgerv1.BatchState_BATCH_STATE_WAITING, ""
	b.since = s.now()
	if err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { return state.Batches.Put(tx, m) }); err != nil {
		s.log.Warn("a batch that was lost is not stored", "task", m.GetTask(), "batch", m.GetId(), "err", err)
	}
	s.noteHelpers(l)
	s.c.hurry()
}

// lose takes a lead from its agent; the task goes on elsewhere.
func (s *scheduler) lose(ctx context.Context, l *lead, why string) {
	s.mu.Lock()
	if s.leads[l.task.GetId()] != l || l.closing {
		s.mu.Unlock()
		return
	}
	l.closing = true
	s.send(l.agent, &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{Task: l.task.GetId(), Epoch: l.epoch, How: agentv1.How_HOW_LOST}}})
	s.mu.Unlock()
	s.log.Warn("a lead is lost", "task", l.task.GetId(), "agent", l.agent, "why", why)
	s.o.Metrics.LeadLost()
	s.letGo(ctx, l, why)
}

// letGo ends a lead that is not finished: the task is what its owner wanted, or waits
// for another agent.
func (s *scheduler) letGo(ctx context.Context, l *lead, why string) {
	s.mu.Lock()
	if s.leads[l.task.GetId()] != l {
		s.mu.Unlock()
		return
	}
	t := s.closes(l)
	want, wantedBy := l.want, l.by
	s.mu.Unlock()
	t.Revision++
	t.Agent, t.Phase, t.Why = "", "", why
	restingProgress(t)
	switch want {
	case task.Paused:
		t.State, t.Why = task.Paused, wantedBy
	case task.Cancelled:
		t.Why = wantedBy
		s.ended(t, task.Cancelled, "", "")
	default:
		t.State = task.Queued
	}
	s.close(ctx, l, t)
}

// storeAgain is after how long an end that could not be stored is tried again.
const storeAgain = time.Second

// close stores what a lead leaves and forgets it. Until that can be stored, no other agent gets the task.
func (s *scheduler) close(ctx context.Context, l *lead, t *pb.Task) {
	var f following
	proof, end := s.resultOf(l), t
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) (err error) {
		t = copyOf(end)
		if _, err := handedOn(tx, t); err != nil {
			return err
		}
		if err := state.Tasks.Put(tx, t); err != nil {
			return err
		}
		if err := dropBatches(tx, t.GetId()); err != nil || !task.Ended(t.GetState()) {
			return err
		}
		if err := dropDrafts(tx, t.GetId()); err != nil {
			return err
		}
		if f, err = s.c.applyEnd(tx, t, proof); err != nil {
			return err
		}
		return usage.Add(tx, t)
	})
	if err != nil {
		s.log.Error("the end of a lead can not be stored; it is tried again", "task", t.GetId(), "err", err)
		s.mu.Lock()
		l.unstored, l.again = end, s.now().Add(storeAgain)
		s.mu.Unlock()
		return
	}
	if task.Ended(t.GetState()) {
		s.c.metrics.countEnd(t)
	}
	s.mu.Lock()
	if s.leads[t.GetId()] == l {
		s.dropLead(l)
		s.leaveSwarm(t, t.GetState() == task.Done)
		s.takesBack(l)
		if !task.Ended(t.GetState()) {
			s.leaves(l)
		}
	}
	s.keepOrphans(l)
	for _, b := range l.batches {
		s.stopBatch(b)
	}
	s.mu.Unlock()
	s.c.watch.tell(t.GetId())
	s.c.afterTask(ctx, t, f)
	if t.GetState() == task.Queued {
		s.requeue(ctx, t)
	}
	s.c.hurry()
}

// stopBatch tells the agent that has a batch that the lead is over. scheduler.mu is held.
func (s *scheduler) stopBatch(b *batch) {
	if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
		s.send(b.meta.GetAgent(), &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{
			Task: b.meta.GetTask(), Batch: b.meta.GetId(), Epoch: b.meta.GetEpoch(), How: agentv1.How_HOW_LOST,
		}}})
	}
}

// dropDrafts forgets the drafts of a task that ends. Their pieces go when it does.
func dropDrafts(tx *state.Tx, id string) error {
	for d, err := range state.Drafts.All(tx, state.Range{Prefix: []string{id}}) {
		if err != nil {
			return err
		}
		if err := state.Drafts.Delete(tx, id, d.GetName()); err != nil {
			return err
		}
	}
	return nil
}

// piecesAtOnce bounds what one change deletes. What is left goes with the task.
const piecesAtOnce = 1000

// dropDraft forgets a draft and what is stored of it.
func dropDraft(tx *state.Tx, id, name string) error {
	n := 0
	for p, err := range state.Pieces.All(tx, state.Range{Prefix: []string{id, name}}) {
		if n++; n > piecesAtOnce {
			break
		}
		if err == nil {
			err = state.Pieces.Delete(tx, id, name, state.Number(p.GetNumber()))
		}
		if err != nil {
			return err
		}
	}
	return state.Drafts.Delete(tx, id, name)
}
