package coordinator

import (
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/telemetry"
)

// A batch is slow when it takes so many times what its like take, and so long at least.
const (
	slowTimes = 3
	slowLeast = 5 * time.Second
)

// learn notes how long a batch took.
func (l *lead) learn(took time.Duration) {
	if l.usual == 0 {
		l.usual = took
	}
	l.usual += (took - l.usual) / 8
}

// steal asks agents that are slow for what they have not begun, when others have
// nothing to do: the tail of a task is not to wait for its slowest node. Such an agent
// publishes what it has and gives the rest back.
func (s *scheduler) steal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.leads {
		if l.usual == 0 || !l.need.Shared() || s.pickHelper(l) == nil || l.waiting() > 0 {
			continue
		}
		limit := max(slowTimes*l.usual, slowLeast)
		for _, b := range l.batches {
			if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN && !b.yielding && s.now().Sub(b.since) > limit {
				b.yielding = true
				s.o.Metrics.Batches(telemetry.BatchStolen, 1)
				s.send(b.meta.GetAgent(), &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{
					Task: b.meta.GetTask(), Batch: b.meta.GetId(), Epoch: b.meta.GetEpoch(), How: agentv1.How_HOW_YIELD,
				}}})
				break // one at a time
			}
		}
	}
}

// waiting counts the batches that wait for an agent. scheduler.mu is held.
func (l *lead) waiting() (n int) {
	for _, b := range l.batches {
		if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_WAITING {
			n++
		}
	}
	return n
}
