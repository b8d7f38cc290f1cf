package service

import (
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
)

// A lead that is over may have helpers that do not know it yet. They publish nothing, but
// they may make drafts still, where the next lead has looked for them already, and in
// directories that it has given their times. So nobody begins to write there before
// they have let go. Who is dead can not say so: a lease is as long as it is waited for.

// claim is a try of a batch, as the agent that has it knows it.
type claim struct {
	task, batch string
	epoch       uint64
}

// linger is a claim that its agent has not let go of, though its lead is over.
type linger struct {
	lead  *lead
	since time.Time
}

// lingerPause is how long a task waits before it looks again whether helpers let go.
const lingerPause = 20 * time.Millisecond

// linger notes what helpers of a lead that is over still have. Service.mu is held.
func (s *Service) linger(l *lead) {
	for id, b := range l.batches {
		n := s.agents[b.meta.GetAgent()]
		if n == nil || b.meta.GetState() != ledgerv1.BatchState_BATCH_STATE_TAKEN {
			continue
		}
		if n.lingers == nil {
			n.lingers = map[claim]linger{}
		}
		n.lingers[claim{l.task.GetId(), id, b.meta.GetEpoch()}] = linger{l, s.now()}
	}
}

// letGoBut forgets what an agent that has begun anew does not have any more. Service.mu is held.
func (n *node) letGoBut(has []*agentv1.Session) {
	lingers := map[claim]linger{}
	for _, ses := range has {
		c := claim{ses.GetTask(), ses.GetBatch(), ses.GetEpoch()}
		if was, ok := n.lingers[c]; ok {
			lingers[c] = was
		}
	}
	n.lingers = lingers
}

// lingering says whether a helper of a lead that is over may still make drafts at an
// address. Service.mu is held.
func (s *Service) lingering(at string) bool {
	now := s.now()
	for _, n := range s.agents {
		for c, was := range n.lingers {
			switch {
			case now.Sub(n.seen) > s.lease || now.Sub(was.since) > s.lease:
				delete(n.lingers, c)
			case overlap(at, s.target(was.lead)):
				return true
			}
		}
	}
	return false
}
