// Package taskkind is what one kind of task brings to the coordinator, beside the facts of [task.Kind]. A server beside the coordinator has the kinds
// of its tasks, and adds them before the coordinator runs.
package taskkind

import (
	"context"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
)

// Kind has the hooks of one kind of task. A kind embeds Plain, and has the methods in which it differs.
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
	// Judge reports why a task that its agent calls done is not done. It returns the result, completed.
	Judge(got Result, t *pb.Task, r *agentv1.FinishRequest) (Result, error)
	// Doubts reports whether a failed task has found the replica that it held to differ from its record.
	Doubts(t *pb.Task, got Result) bool
	// End applies, in the change in which a task ends, what its end means. next is a task that the change has made.
	End(tx *state.Tx, t *pb.Task, got Result) (next *pb.Task, err error)
}

// Result is what an agent has found: what its manifest says of what it has read, and how its task has ended.
type Result struct {
	Digest  string
	Entries int64
	Bytes   int64

	Untouched bool   // of a removal that failed: nothing was removed
	Unguarded string // of a staging: as in Replica

	Unlike bool // of a task that failed: what it read is not what it has to be
}

// Plain is a task kind without effects on replicas, leases or other tasks.
type Plain struct{}

func (Plain) Check(*pb.TaskSpec) error                                               { return nil }
func (Plain) Delay(context.Context, *pb.Task) (time.Duration, error)                 { return 0, nil }
func (Plain) Begin(*state.Tx, *pb.Task) error                                        { return nil }
func (Plain) Proves(*pb.TaskSpec) bool                                               { return false }
func (Plain) Judge(got Result, _ *pb.Task, _ *agentv1.FinishRequest) (Result, error) { return got, nil }
func (Plain) Doubts(*pb.Task, Result) bool                                           { return false }
func (Plain) End(*state.Tx, *pb.Task, Result) (next *pb.Task, _ error)               { return nil, nil }
