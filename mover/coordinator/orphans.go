package coordinator

import (
	"errors"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
)

// A lead that is over may have helpers that do not know it yet. They publish nothing, but
// they may make drafts still, where the next lead has looked for them already, and in
// directories that it has given their times. So no task begins to write there before
// they have let go. A silent agent is waited for until its lease ends.

// claim is a try of a batch, as the agent that has it knows it.
type claim struct {
	task, batch string
	epoch       uint64
}

// orphanedClaim is a claim that its agent has not let go of, though its lead is over.
type orphanedClaim struct {
	at    string // where it drafts, as address has it; "" may be anywhere
	since time.Time
}

// lingerPause is how long a task waits before it looks again whether helpers let go.
const lingerPause = 20 * time.Millisecond

// keepOrphans notes what helpers of a lead that is over still have. scheduler.mu is held.
func (s *scheduler) keepOrphans(l *lead) {
	for id, b := range l.batches {
		if n := s.agents[b.meta.GetAgent()]; n != nil && b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			n.addOrphan(claim{l.task.GetId(), id, b.meta.GetEpoch()}, orphanedClaim{s.target(l), s.now()})
		}
	}
}

func (n *node) addOrphan(c claim, l orphanedClaim) {
	if n.lingers == nil {
		n.lingers = map[claim]orphanedClaim{}
	}
	n.lingers[c] = l
}

// endOrphans notes a batch that an agent says it has, of a lead that was over before we began:
// the coordinator of that time has ended. scheduler.mu is held.
func (s *scheduler) endOrphans(n *node, ses *agentv1.Session) {
	if ses.GetBatch() == "" {
		return
	}
	var t *pb.Task
	err := s.ledger.View(func(tx *state.Tx) (err error) {
		t, err = state.Tasks.Get(tx, ses.GetTask())
		return err
	})
	at := ""
	switch {
	case errors.Is(err, mover.ErrNotExist):
		return // the task is forgotten
	case err != nil:
		s.log.Warn("where a helper drafts is not known: no task begins to write before it has let go", "task", ses.GetTask(), "agent", n.name, "err", err)
	case !drafts(t.GetSpec()):
		return
	default:
		at = placement.Address(t.GetSpec().GetTarget(), "", s.conf()) // a task with helpers is bound to no node
	}
	n.addOrphan(claim{ses.GetTask(), ses.GetBatch(), ses.GetEpoch()}, orphanedClaim{at, s.now()})
}

// letGoBut forgets what an agent that has begun anew does not have any more. scheduler.mu is held.
func (n *node) letGoBut(has []*agentv1.Session) {
	lingers := map[claim]orphanedClaim{}
	for _, ses := range has {
		c := claim{ses.GetTask(), ses.GetBatch(), ses.GetEpoch()}
		if was, ok := n.lingers[c]; ok {
			lingers[c] = was
		}
	}
	n.lingers = lingers
}

// orphanAt says whether a helper of a lead that is over may still make drafts at an
// address, where a task is to begin. scheduler.mu is held.
func (s *scheduler) orphanAt(at string, t *pb.Task) bool {
	now := s.now()
	unknown := t.GetEpoch() != 0 && t.GetRevision() < s.ledger.Term()<<termShift // its helpers are unknown: its lead was over before we began
	for _, n := range s.agents {
		if unknown && n.hello == nil && now.Sub(n.seen) <= s.lease {
			return true // it may still come, and say that it has a batch
		}
		for c, was := range n.lingers {
			switch {
			case now.Sub(n.seen) > s.lease || now.Sub(was.since) > s.lease:
				delete(n.lingers, c)
			case was.at == "" || placement.Overlap(at, was.at):
				return true
			}
		}
	}
	return false
}
