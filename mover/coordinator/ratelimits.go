package coordinator

import (
	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover/coordinator/ratelimit"
)

// tellParts tells the processes of a task what each may read. scheduler.mu is held.
func (s *scheduler) tellParts(l *lead) {
	if l.parts == nil || l.closing {
		return
	}
	now := s.now()
	s.silent(l.parts)
	l.parts.Enlist(now, l.working()...)
	l.parts.Divide(now, func(agent string, bytesPerSecond int64) bool {
		return s.send(agent, &agentv1.Order{What: &agentv1.Order_Part{Part: &agentv1.Part{Task: l.task.GetId(), LeadEpoch: l.epoch, BytesPerSecond: bytesPerSecond}}})
	})
}

// working are the agents that work on a task. scheduler.mu is held.
func (l *lead) working() []string {
	working := []string{l.agent}
	for _, b := range l.batches {
		if b.meta.GetState() == ledgerv1.BatchState_BATCH_STATE_TAKEN {
			working = append(working, b.meta.GetAgent())
		}
	}
	return working
}

// silent gives up the processes of agents that were silent for a lease: their parts go to
// others. scheduler.mu is held.
func (s *scheduler) silent(x *ratelimit.Parts) {
	for _, name := range x.Agents() {
		if n := s.agents[name]; n == nil || s.now().Sub(n.seen) > s.lease {
			x.Lost(name)
		}
	}
}

// heardParts takes over what an agent says of its processes that share a limit. scheduler.mu
// is held.
func (s *scheduler) heardParts(n *node, st *agentv1.Status) {
	of := map[string]*agentv1.Session{}
	for _, ses := range st.GetSessions() {
		if was := of[ses.GetTask()]; was == nil || was.GetPartBytesPerSecond() == 0 {
			of[ses.GetTask()] = ses
		}
	}
	hear := func(id string, x *ratelimit.Parts) {
		if x != nil {
			ses := of[id]
			x.Heard(s.now(), n.name, ses != nil, ses.GetPartBytesPerSecond(), ses.GetLimitedBytesPerSecond())
		}
	}
	for id, l := range s.leads {
		hear(id, l.parts)
	}
	for id, x := range s.left {
		hear(id, x)
	}
}

// leaves keeps what the processes of a lead that is over may read, until they have let go.
// scheduler.mu is held.
func (s *scheduler) leaves(l *lead) {
	if l.parts == nil {
		return
	}
	l.parts.Leave()
	s.left[l.task.GetId()] = l.parts
}

// forgetLeft drops the parts of leads that are over, and let go by all. scheduler.mu is held.
func (s *scheduler) forgetLeft() {
	for id, x := range s.left {
		s.silent(x)
		if x.Enlist(s.now()); len(x.Agents()) == 0 {
			delete(s.left, id)
		}
	}
}
