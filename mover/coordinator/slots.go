package coordinator

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/usage"
	"datamove.dev/mover/task"
)

// usedSlots are the leads of each agent by account, those of standing tasks not counted.
type usedSlots map[string]map[string]int

func (u usedSlots) add(l *lead, n int) {
	if task.Of(l.task.GetSpec()).Standing {
		return
	}
	if u[l.agent] == nil {
		u[l.agent] = map[string]int{}
	}
	account := state.User(l.task.GetOwner())
	if u[l.agent][account] += n; u[l.agent][account] == 0 {
		delete(u[l.agent], account)
	}
	if len(u[l.agent]) == 0 {
		delete(u, l.agent)
	}
}

// addLead notes a lead. scheduler.mu is held, as in the two below.
func (s *scheduler) addLead(l *lead) {
	s.leads[l.task.GetId()] = l
	s.slots.add(l, 1)
}

func (s *scheduler) dropLead(l *lead) {
	delete(s.leads, l.task.GetId())
	s.slots.add(l, -1)
}

// slotsFull says whether an account has as many of the slots of an agent as it may.
func (s *scheduler) slotsFull(n *node, owner *pb.Account) bool {
	used := s.slots[n.name]
	return used[state.User(owner)] > 0 && used[state.User(owner)] >= usage.LimitsOf(s.conf(), owner, nil, nil).Slots(n.slots)
}

// SlotsOf is the largest part of the slots of an agent that an account has, in percent.
func (s *scheduler) SlotsOf(account string) (most int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, used := range s.slots {
		if n := s.agents[name]; n != nil {
			most = max(most, int64(100*used[account]/max(n.slots, 1)))
		}
	}
	return most
}

// JournalsOf is the most that an account has in the journals of an agent, by what that told last, and may have there.
func (s *scheduler) JournalsOf(account string, limit int64) (used, of int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of = limit
	for _, n := range s.agents {
		if j := n.journals[account]; j.GetBytes() > used {
			used, of = j.GetBytes(), j.GetLimit()
		}
	}
	return used, of
}
