package coordinator

import (
	"context"
	"maps"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

// Kind is what one kind of task brings to the coordinator, beside the facts of [task.Kind].
// A kind embeds plain, and has the methods in which it differs.
type Kind interface {
	// Check refuses a request that makes no sense for the kind, before anything is looked up.
	Check(spec *pb.TaskSpec) error
	// Delay reports how long a queued task waits before it may begin, or why it never may.
	Delay(ctx context.Context, t *pb.Task) (wait time.Duration, why error)
	// Begin reports, in the change that assigns a task, why it may not begin any more:
	// what was free when it was submitted can be in use by now.
	Begin(tx *state.Tx, t *pb.Task) error
	// Proves reports whether the agent of a task sends a manifest of what it has read.
	Proves(spec *pb.TaskSpec) bool
	// Judge reports why a task that its agent calls done is not done.
	Judge(l *lead, t *pb.Task, r *agentv1.FinishRequest) error
	// Doubts reports whether a failed task has found the replica that it held to differ from its record.
	Doubts(t *pb.Task, p manifestResult) bool
	// End applies, in the change in which a task ends, what its end means. next is a task that the change has made.
	End(tx *state.Tx, t *pb.Task, p manifestResult) (next *pb.Task, err error)
}

// kindOf returns the kind of a task: plain for one that this build does not know.
func (s *Service) kindOf(spec *pb.TaskSpec) Kind {
	if k, known := s.kinds[spec.GetKind()]; known {
		return k
	}
	return plain{}
}

// taskKinds are the kinds of tasks that this coordinator has.
func (s *Service) taskKinds() map[pb.TaskKind]Kind {
	all := map[pb.TaskKind]Kind{}
	for _, kinds := range []map[pb.TaskKind]Kind{s.transferKinds(), s.datasets.datasetKinds(), burstKinds()} {
		maps.Copy(all, kinds)
	}
	return all
}

// plain is a task kind without effects on replicas, leases or other tasks.
type plain struct{}

func (plain) Check(*pb.TaskSpec) error                                         { return nil }
func (plain) Delay(context.Context, *pb.Task) (time.Duration, error)           { return 0, nil }
func (plain) Begin(*state.Tx, *pb.Task) error                                  { return nil }
func (plain) Proves(*pb.TaskSpec) bool                                         { return false }
func (plain) Judge(*lead, *pb.Task, *agentv1.FinishRequest) error              { return nil }
func (plain) Doubts(*pb.Task, manifestResult) bool                             { return false }
func (plain) End(*state.Tx, *pb.Task, manifestResult) (next *pb.Task, _ error) { return nil, nil }
