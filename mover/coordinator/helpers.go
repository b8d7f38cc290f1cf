package coordinator

import (
	"cmp"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/telemetry"
)

// giveBatches gives waiting batches to agents that are not their lead's.
func (s *scheduler) giveBatches(ctx context.Context) {
	for _, b := range s.waiting() {
		if err := s.giveBatch(ctx, b); err != nil {
			s.log.Warn("a batch can not be given out", "task", b.meta.GetTask(), "batch", b.meta.GetId(), "err", err)
		}
	}
}

// nobodyAfter is how long a batch waits for an agent before its lead does it itself.
const nobodyAfter = 2 * time.Second

// waiting returns the waiting batches for which there is a helper. A batch that has waited
// longer than nobodyAfter without one goes back to its lead.
func (s *scheduler) waiting() (waiting []*batch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leads {
		helped := s.pickHelper(l) != nil
		for _, b := range l.batches {
			switch {
			case b.meta.GetState() != ledgerv1.BatchState_BATCH_STATE_WAITING:
			case helped:
				waiting = append(waiting, b)
			case s.now().Sub(b.since) > nobodyAfter:
				s.answer(l, b, &agentv1.GiveResponse{Nobody: true, Over: b.meta.GetOver()})
			}
		}
	}
	return waiting
}

func (s *scheduler) giveBatch(ctx context.Context, b *batch) error {
	epoch, err := s.ledger.Epoch(ctx)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.leads[b.meta.GetTask()]
	if l == nil || l.closing || l.batches[b.meta.GetId()] != b || b.meta.GetState() != ledgerv1.BatchState_BATCH_STATE_WAITING {
		return nil
	}
	agent := s.pickHelper(l)
	if agent == nil {
		return nil
	}
	roots, err := s.c.rootsOf(l.task.GetSpec())
	if err != nil {
		return err
	}
	w, err := s.works(b.meta)
	if err != nil {
		return err
	}
	m := b.meta
	m.State, m.Epoch, m.Agent, m.TakeTime = ledgerv1.BatchState_BATCH_STATE_TAKEN, epoch, agent.name, timestamppb.New(s.now())
	m.Tries++
	if err := s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error { return state.Batches.Put(tx, m) }); err != nil {
		return err
	}
	agent.batches--
	b.since, b.yielding = s.now(), false
	s.o.Metrics.Batches(telemetry.BatchLeased, 1)
	s.noteHelpers(l)
	s.tellParts(l) // the others read less before this one begins
	s.send(agent.name, &agentv1.Order{What: &agentv1.Order_Batch{Batch: &agentv1.Batch{
		Task: m.GetTask(), Id: m.GetId(), Epoch: epoch, LeadEpoch: l.epoch, Spec: l.task.GetSpec(), Owner: l.task.GetOwner(),
		Work: w.GetWork(), Over: m.GetOver(), Pair: m.GetPair(), Roots: roots, TraceParent: b.span,
		BytesPerSecond: l.parts.Part(agent.name), Expects: reads(l.task),
	}}})
	return nil
}

// pickHelper chooses an agent for a batch: of those that have a slot, one that has the
// fewest of its lead, so that the last batches are not all with one. scheduler.mu is held.
func (s *scheduler) pickHelper(l *lead) (best *node) {
	if !l.need.Shared() {
		return nil
	}
	var can []*node
	for _, a := range s.agents {
		if a.name != l.agent && a.ready() && a.batches > 0 && a.reaches(l.need, l.task.GetOwner()) {
			can = append(can, a)
		}
	}
	if len(can) == 0 {
		return nil
	}
	if len(can) == 1 {
		return can[0]
	}
	has := map[string]int{}
	for _, b := range l.batches {
		if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			has[b.meta.GetAgent()]++
		}
	}
	return slices.MinFunc(can, func(a, b *node) int {
		return cmp.Or(cmp.Compare(has[a.name], has[b.name]), cmp.Compare(b.batches, a.batches), cmp.Compare(a.name, b.name))
	})
}

// sendHelpers tells each lead how many batches others would take: the free slots of
// the agents that reach both ends, divided among the leads, less what waits already.
func (s *scheduler) sendHelpers() {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := int32(0)
	for _, l := range s.leads {
		if l.need.Shared() && l.heard {
			share++
		}
	}
	for id, l := range s.leads {
		var free, agents int32
		if l.need.Shared() && l.heard {
			for _, a := range s.agents {
				if a.name != l.agent && a.ready() && a.reaches(l.need, l.task.GetOwner()) {
					free += int32(max(a.batches, 0))
					agents++
				}
			}
			free = (free + share - 1) / share
		}
		if free = max(free-int32(l.waiting()), 0); free != l.wanted || free > 0 {
			l.wanted = free
			s.send(l.agent, &agentv1.Order{What: &agentv1.Order_Crew{Crew: &agentv1.Crew{Task: id, LeadEpoch: l.epoch, Wanted: free, Agents: agents}}})
		}
	}
}
