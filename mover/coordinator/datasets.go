package coordinator

import (
	"context"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// Datasets is what the coordinator asks of the server of datasets.
type Datasets interface {
	// Resolve puts a replica in the place of a dataset that a request of a caller names as its source.
	Resolve(c authz.Caller, spec *pb.TaskSpec) error
	// Update makes a durable change. It has agents find out what the change has to know of the access of a caller.
	Update(ctx context.Context, do func(*state.Tx) error) error
	// Bind ties a task that was just stored to the replicas that it reads, and to those that it writes over.
	Bind(tx *state.Tx, c authz.Caller, t *pb.Task, asked *pb.TaskSpec) error
	// LetGo ends what a task has held, in the change in which that ends. With doubts no task relies on it any more. then, if not nil, is done after the change.
	LetGo(tx *state.Tx, t *pb.Task, doubts bool) (then func(context.Context), err error)
	// SharedVersion is the version of a dataset that a task brings to the disk of a node, its size, and at most so many nodes that have it, with where it is there.
	// An empty digest is that of another task.
	SharedVersion(tx *state.Tx, t *pb.Task, most int) (digest string, bytes int64, seeds map[string]string, err error)
	// Rebooted doubts what lies on the ephemeral tiers of a node that has begun anew.
	Rebooted(tx *state.Tx, node string) error
	// ForgetNode forgets the replicas on the node-local tiers of a node, and their leases. It reports whether there is more than fits in one change.
	ForgetNode(tx *state.Tx, node string, dropped *pb.ForgetAgentResponse) (more bool, err error)
}
