package datasetserver

import (
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task"
)

// stagedBy returns the record of the replica that a task brings, if it is still its own.
func stagedBy(tx *state.Tx, t *pb.Task) (*pb.Replica, error) {
	l, err := location.Parse("dataset:" + t.GetDataset())
	if t.GetDataset() == "" || err != nil {
		l = location.Location{}
	}
	tier := t.GetSpec().GetStaging().GetTier()
	for r, err := range state.Replicas.All(tx, state.Range{Prefix: append(versionRange(l.Name, l.Digest).Prefix, tier)}) {
		if err != nil || r.GetTask() == t.GetId() {
			return r, err
		}
	}
	return nil, mover.ErrNotExist
}

// staged ends a staging: the replica is whole and the waiting callers get their leases, or
// what was copied has to go.
func (s *Server) staged(tx *state.Tx, t *pb.Task, p taskkind.Result) (next *pb.Task, err error) {
	wishes, err := state.Collect(state.StageWaiters.All(tx, state.Range{Prefix: []string{t.GetId()}}))
	if err != nil {
		return nil, err
	}
	r, err := stagedBy(tx, t)
	if err == nil && t.GetStartTime() != nil {
		s.room.came(r)
	}
	switch {
	case mover.IgnoreNotExist(err) != nil:
		return nil, err
	case err != nil:
	case t.GetState() == task.Done:
		r.Unguarded = p.Unguarded
		err = s.complete(tx, t, r, wishes)
		s.access.looks.note(lookKey(t.GetOwner(), r), s.clock.Steady()) // it has read the source
	default:
		next, err = s.abandon(tx, t, r)
	}
	for _, w := range wishes {
		if err := state.StageWaiters.Delete(tx, w.GetTask(), w.GetLease().GetId()); err != nil {
			return nil, err
		}
	}
	return next, mover.IgnoreNotExist(err)
}

// complete makes a replica whole, and grants what was wished for.
func (s *Server) complete(tx *state.Tx, t *pb.Task, r *pb.Replica, wishes []*ledgerv1.Wish) error {
	now, err := s.records.moment(tx)
	if err != nil {
		return err
	}
	r.State, r.Task, r.Level, r.UseTime = whole, "", s.levelOf(t), timestamppb.New(now)
	if r.Bytes = t.GetReport().GetPlanned().GetBytes(); r.GetDataset() != "" {
		v, err := findVersion(tx, "stage", r.GetDataset(), r.GetDigest()) // what was proved may have been so before a restart
		if err != nil {
			return err
		}
		r.Bytes = v.GetVersion().GetBytes()
	}
	if r.GetCreateTime() == nil {
		r.CreateTime = timestamppb.New(now)
	}
	if err := s.records.putReplica(tx, r); err != nil {
		return err
	}
	for _, w := range wishes {
		if err := s.granted(tx, w, now); err != nil {
			return err
		}
	}
	return nil
}

// granted stores the pin and the lease of a caller that waited for a staging.
func (s *Server) granted(tx *state.Tx, w *ledgerv1.Wish, now time.Time) error {
	if w.GetPin() != nil {
		was, err := state.Pins.Get(tx, w.GetPin().GetDataset(), w.GetPin().GetDigest(), w.GetPin().GetTier())
		if mover.IgnoreNotExist(err) != nil {
			return err
		}
		if was.GetUntil().AsTime().Before(w.GetPin().GetUntil().AsTime()) {
			if err := state.Pins.Put(tx, w.GetPin()); err != nil {
				return err
			}
		}
	}
	if w.GetTtl() == nil {
		return nil
	}
	l := w.GetLease()
	l.CreateTime, l.ExpireTime = timestamppb.New(now), timestamppb.New(now.Add(w.GetTtl().AsDuration()))
	return s.records.putLease(tx, l)
}

// levelOf is how what a task has staged was checked. The whole of a dataset was read
// when its digest was compared; that was past the cache where the options of the task
// say so, and from a store.
func (s *Server) levelOf(t *pb.Task) pb.Level {
	spec := t.GetSpec()
	if spec.GetStaging().GetDataset() != "" && (s.conf().Tiers[spec.GetStaging().GetTier()].S3 != nil || spec.GetOptions().GetVerify() == pb.Level_LEVEL_READ) {
		return pb.Level_LEVEL_READ
	}
	least := pb.Level_LEVEL_WRITTEN
	for _, l := range t.GetReport().GetLevels() {
		if l.GetFiles() > 0 {
			least = min(least, l.GetLevel())
		}
	}
	return least
}

// abandon ends a staging that did not come to its end. What was copied goes, where
// nothing else can be: what is of no dataset was copied to where other things may be, as
// a copy does it.
func (s *Server) abandon(tx *state.Tx, t *pb.Task, r *pb.Replica) (next *pb.Task, err error) {
	switch {
	case r.GetState() == whole:
		r.Task, r.Level = "", pb.Level_LEVEL_UNSPECIFIED
		return nil, s.records.putReplica(tx, r)
	case t.GetStartTime() == nil, r.GetDataset() == "": // it has copied nothing, or another task may have copied there
		return nil, deleteReplica(tx, r)
	}
	return s.discards(tx, r)
}
