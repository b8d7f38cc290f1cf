package datasetserver

import (
	"context"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/auditlog"
)

// markSuspect removes the level of a replica that a lease has held: no task relies on it any more. It returns nil
// if the replica is gone or had no level.
func (s *Server) markSuspect(tx *state.Tx, held *pb.Lease) (*pb.Replica, error) {
	r, err := state.Replicas.Get(tx, state.ReplicaKey(held)...)
	if err != nil || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		return nil, mover.IgnoreNotExist(err)
	}
	r.Level = pb.Level_LEVEL_UNSPECIFIED
	return r, s.records.putReplica(tx, r)
}

// holdFor keeps what a task reads until it has ended.
func (s *Server) holdFor(tx *state.Tx, t *pb.Task, r *pb.Replica, now time.Time) error {
	if err := s.mayLease(tx, now, t.GetOwner(), r); err != nil {
		return err
	}
	l := newLease(holdID(t), r, state.TaskHolder+t.GetId(), t.GetOwner(), now, 0)
	l.ExpireTime = nil
	return s.records.putLease(tx, l)
}

func holdID(t *pb.Task) string { return "task-" + t.GetId() }

// LetGo ends what a task has held, in the change in which that ends. With doubts no task relies on it any more. then is done after the change.
func (s *Server) LetGo(tx *state.Tx, t *pb.Task, doubts bool) (then func(context.Context), err error) {
	held, err := state.Leases.Get(tx, holdID(t))
	if err != nil {
		return nil, mover.IgnoreNotExist(err)
	}
	if err := s.records.endLease(tx, held, s.clock.Now()); err != nil || !doubts {
		return nil, err
	}
	r, err := s.markSuspect(tx, held)
	if r == nil || err != nil {
		return nil, err
	}
	return func(ctx context.Context) { s.doubted(ctx, t, r) }, nil
}

// doubted tells operators of a replica that a task has found to be something else.
func (s *Server) doubted(ctx context.Context, t *pb.Task, r *pb.Replica) {
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
