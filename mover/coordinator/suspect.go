package coordinator

import (
	"context"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/auditlog"
)

// following is what the end of a task brings about.
type following struct {
	next    *pb.Task    // has to be given out
	doubted *pb.Replica // is relied on no more
}

// afterTask does what follows the end of a task, when that is stored.
func (s *datasetServer) afterTask(ctx context.Context, t *pb.Task, f following) {
	s.c.taskEnded(t)
	if r := f.doubted; r != nil {
		s.log.Warn("a replica is not what it was, and is relied on no more; staging the dataset to it, or adding it there again, mends it",
			"dataset", tag(r.GetDataset(), r.GetDigest()), "location", r.GetLocation(), "node", r.GetNode(), "task", t.GetId(), "err", t.GetError())
		err := s.o.Audit(context.WithoutCancel(ctx), auditlog.Record{
			Actor: state.User(t.GetOwner()), Method: "replica.doubt", Object: tag(r.GetDataset(), r.GetDigest()), Locations: []string{r.GetLocation()},
			Allowed: true, Reason: "task " + t.GetId() + " has found it to be something else: " + t.GetError(),
		})
		if err != nil {
			s.log.Error("a doubt is not in the audit log", "location", r.GetLocation(), "err", err)
		}
	}
	if f.next != nil {
		s.c.submitted(ctx, f.next)
	}
}

// markSuspect removes the level of a replica that a lease has held: no task relies on it any more. It returns nil
// if the replica is gone or had no level.
func (s *datasetServer) markSuspect(tx *state.Tx, held *pb.Lease) (*pb.Replica, error) {
	r, err := state.Replicas.Get(tx, state.ReplicaKey(held)...)
	if err != nil || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		return nil, mover.IgnoreNotExist(err)
	}
	r.Level = pb.Level_LEVEL_UNSPECIFIED
	return r, s.putReplica(tx, r)
}
