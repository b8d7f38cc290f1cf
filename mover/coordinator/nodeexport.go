package coordinator

import (
	"crypto/rand"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

// What lies on the disk of one node comes to that of another one as a task of the second: the first lends it the directory, for as long as the task has a
// lead. The coordinator makes the ticket and moves no byte.

// exportFrom has a node lend the source of a lead to another one; nil is a source that is there. mu is held.
func (s *scheduler) exportFrom(l *lead) *agentv1.Lent {
	node := l.task.GetSpec().GetSourceNode()
	if node == "" {
		return nil
	}
	l.ticket = rand.Text()
	s.sendExport(l)
	return &agentv1.Lent{Member: s.swarmMember(node, false), Ticket: l.ticket}
}

// sendExport tells a node what it exports to a lead. mu is held.
func (s *scheduler) sendExport(l *lead) {
	s.send(l.task.GetSpec().GetSourceNode(), &agentv1.Order{What: &agentv1.Order_Lend{Lend: &agentv1.Lend{Task: l.task.GetId(), Ticket: l.ticket, Location: lentOf(l.task.GetSpec())}}})
}

// takesBack ends what is lent to a lead. mu is held.
func (s *scheduler) takesBack(l *lead) {
	if l.task.GetSpec().GetSourceNode() != "" {
		l.ticket = ""
		s.sendExport(l)
	}
}

// tellLents tells an agent that has begun anew what it lends. mu is held.
func (s *scheduler) tellLents(agent string) {
	for _, l := range s.leads {
		if l.task.GetSpec().GetSourceNode() == agent && l.ticket != "" {
			s.sendExport(l)
		}
	}
}

// lentOf is the directory that a task needs of another node.
func lentOf(spec *pb.TaskSpec) string {
	l, err := location.Parse(spec.GetSource())
	if err != nil {
		return spec.GetSource()
	}
	return l.Child(string(spec.GetTiering().GetCheckpoint().GetFolder())).String()
}

// away says why the source of a task can not be lent now; "" is nothing. mu is not held.
func (s *scheduler) away(spec *pb.TaskSpec) string {
	node := spec.GetSourceNode()
	if node == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.agents[node]; {
	case n == nil || n.orders == nil:
		return "node " + mover.Printable(node) + ", which has its source, is not there"
	case s.swarmMember(node, false) == nil:
		return "node " + mover.Printable(node) + ", which has its source, gives nothing to others (peers.listen)"
	}
	return ""
}
