package coordinator

import (
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

// policyKinds are the kinds that do, and undo, what a run of a policy lists.
func (s *policyServer) policyKinds() map[pb.TaskKind]Kind {
	return map[pb.TaskKind]Kind{pb.TaskKind_TASK_KIND_TIER: tierKind{s: s.c}, pb.TaskKind_TASK_KIND_UNDO: tierKind{s: s.c}}
}

// tierKind is a part of a run of a policy, or of its undoing.
type tierKind struct {
	plain
	s *Service
}

func (k tierKind) End(tx *state.Tx, t *pb.Task, _ manifestResult) (*pb.Task, error) {
	if t.GetSpec().GetTiering().GetCheckpoint() != nil {
		return nil, k.s.policy.wholeDone(tx, t)
	}
	err := k.s.policy.tiered(tx, t)
	k.s.policy.wake()
	return nil, err
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
