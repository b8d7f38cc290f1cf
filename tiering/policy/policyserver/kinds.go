package policyserver

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

// taskEnds counts, in the change in which it ends, what a task has done for a run.
func (s *Server) taskEnds(tx *state.Tx, t *pb.Task) error {
	switch kind := t.GetSpec().GetKind(); {
	case kind != pb.TaskKind_TASK_KIND_TIER && kind != pb.TaskKind_TASK_KIND_UNDO, t.GetSpec().GetTiering().GetCheckpoint() != nil:
		return s.wholeDone(tx, t)
	}
	err := s.tiered(tx, t)
	s.wake()
	return err
}

// undoes reports whether a task gives back what a run took away.
func undoes(spec *pb.TaskSpec) bool { return spec.GetKind() == pb.TaskKind_TASK_KIND_UNDO }

// runSpec is the request that does a part of a run, or undoes it.
func runSpec(source, node string, undo bool) *pb.TaskSpec {
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_TIER, Source: source, Node: node}
	if undo {
		spec.Kind = pb.TaskKind_TASK_KIND_UNDO
	}
	return spec
}

func removeSpec(target string) *pb.TaskSpec {
	return &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: target}
}
