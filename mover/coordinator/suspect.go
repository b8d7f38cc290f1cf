package coordinator

import (
	"context"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/task"
)

// following is what the end of a task brings about.
type following struct {
	next    *pb.Task    // has to be given out
	doubted *pb.Replica // is relied on no more
}

// afterTask does what follows the end of a task, when that is stored.
func (s *Service) afterTask(ctx context.Context, t *pb.Task, f following) {
	s.brought(t)
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
		s.submitted(ctx, f.next)
	}
}

// wrong says whether a task that has ended has found the replica that it held to be
// something else than what is recorded, or nothing at all.
func wrong(t *pb.Task, held *pb.Lease, p manifestResult) bool {
	if held == nil || t.GetState() != task.Failed {
		return false
	}
	switch t.GetSpec().GetKind() {
	case pb.TaskKind_TASK_KIND_STAGE: // its target is ours: nothing else than the source is found to be wrong
		return p.digest != "" && !isOf(t, p.digest) || slices.Contains(notAsItWas, t.GetErrorKind())
	case pb.TaskKind_TASK_KIND_RELEASE: // it held the copy that is to survive
		return untouched(t, p) && t.GetErrorKind() == mover.KindName(mover.ErrCorrupt)
	case pb.TaskKind_TASK_KIND_COPY, pb.TaskKind_TASK_KIND_SYNC: // their target is anybody's
		return p.unlike
	}
	return false
}

// notAsItWas are the kinds of errors that say so of what was read.
var notAsItWas = []string{mover.KindName(mover.ErrNotExist), mover.KindName(mover.ErrChanged), mover.KindName(mover.ErrCorrupt)}

// markSuspect has a replica that a lease has held not relied on any more. It returns nothing
// where nobody did.
func (s *Service) markSuspect(tx *state.Tx, held *pb.Lease) (*pb.Replica, error) {
	r, err := state.Replicas.Get(tx, state.ReplicaKey(held)...)
	if err != nil || r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		return nil, ignoreGone(err)
	}
	r.Level = pb.Level_LEVEL_UNSPECIFIED
	return r, s.putReplica(tx, r)
}
