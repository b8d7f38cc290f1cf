package datasetserver

import (
	"context"
	"errors"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/task"
)

// mayEvict says why a replica has to stay that was to make room.
func (s *Server) mayEvict(tx *state.Tx, r *pb.Replica, task string) error {
	now, err := s.records.moment(tx)
	if err != nil {
		return err
	}
	v, err := s.records.viewAround(tx, now, r)
	if err != nil {
		return err
	}
	return v.MayEvict(r, task)
}

// removed ends a removal: a replica that is gone is forgotten, and one that the task has not touched is whole as it
// was. In any other case nothing tells what is left of it: partly says what becomes of the record.
func (s *Server) removed(tx *state.Tx, t *pb.Task, p taskkind.Result, r *pb.Replica, partly func() error) error {
	switch {
	case t.GetState() == task.Done:
		s.room.evicted(t, r)
		return deleteReplica(tx, r)
	case untouched(t, p) && r.GetCreateTime() != nil:
		r.State, r.Task = whole, ""
		return s.records.putReplica(tx, r)
	}
	return partly()
}

// untouched says of a removal that has ended whether nothing was removed.
func untouched(t *pb.Task, p taskkind.Result) bool {
	return t.GetStartTime() == nil || t.GetState() == task.Failed && p.Untouched
}

// markedBy returns the replicas that a purge removes.
func (s *Server) markedBy(tx *state.Tx, t *pb.Task) (marked []*pb.Replica, err error) {
	if err := s.records.readyIndex(tx); err != nil {
		return nil, err
	}
	for _, key := range append(s.records.spots.meeting(t.GetSpec().GetTarget(), "", t.GetSpec().GetNode()), s.records.spots.unplaced()...) {
		r, err := state.Replicas.Get(tx, key...)
		if mover.IgnoreNotExist(err) != nil {
			return nil, err
		}
		if r.GetTask() == t.GetId() {
			marked = append(marked, r)
		}
	}
	return marked, nil
}

const removalsMost = 200 // that are begun in one change

// RetryRemovals submits the removal of replicas that are not whole and have no task under way, with the rights of their owners.
func (s *Server) RetryRemovals(ctx context.Context, before time.Time) error {
	var left []*pb.Replica
	err := s.ledger.View(func(tx *state.Tx) error {
		for r, err := range state.Replicas.All(tx, state.Range{}) {
			if err != nil || len(left) == removalsMost {
				return err
			}
			if r.GetState() != whole && over(tx, r.GetTask(), before) {
				left = append(left, r)
			}
		}
		return nil
	})
	if err != nil || len(left) == 0 {
		return err
	}
	var next []*pb.Task
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		for _, r := range left {
			now, err := getReplica(tx, r)
			if mover.IgnoreNotExist(err) != nil {
				return err
			}
			if err != nil || now.GetState() == whole || live(tx, now.GetTask()) {
				continue
			}
			t, err := s.discards(tx, unmade(now))
			if err != nil {
				return err
			}
			next = append(next, t)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, t := range next {
		s.log.Warn("what is left of a replica is removed again", "task", t.GetId(), "location", t.GetSpec().GetTarget(), "node", t.GetSpec().GetNode())
		s.c.Submitted(ctx, t)
	}
	return nil
}

// over says whether a task has ended before a time, or is forgotten.
func over(tx *state.Tx, id string, before time.Time) bool {
	t, err := state.Tasks.Get(tx, id)
	return errors.Is(err, mover.ErrNotExist) || err == nil && task.Ended(t.GetState()) && t.GetEndTime().AsTime().Before(before)
}

// unmade makes of a replica one that never was whole: it goes in any case.
func unmade(r *pb.Replica) *pb.Replica {
	r.CreateTime = nil
	return r
}
