package coordinator

import (
	"cmp"
	"context"
	"errors"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// mayBegin says, in the change that gives a task to a lead, why it may not be done any
// more: data that was unused at its submission may be needed by now. A release that
// has begun has to come to its end.
func (s *datasetServer) mayBegin(tx *state.Tx, t *pb.Task) error {
	if t.GetTries() == 0 {
		if err := cmp.Or(s.c.scheduler.halfBrought(tx, t), s.c.scheduler.unread(tx, t)); err != nil {
			return err
		}
	}
	return s.c.kindOf(t.GetSpec()).Begin(tx, t)
}

// mayEvict says why a replica has to stay that was to make room.
func (s *datasetServer) mayEvict(tx *state.Tx, r *pb.Replica, task string) error {
	now, err := s.moment(tx)
	if err != nil {
		return err
	}
	v, err := s.c.facts.viewAround(tx, now, r)
	if err != nil {
		return err
	}
	return v.MayEvict(r, task)
}

// beginning is how durable the start of a task is. The start of a removal must survive a power cut:
// else a later coordinator would take the data for untouched.
func beginning(t *pb.Task) state.Durability {
	if task.Of(t.GetSpec()).Durable {
		return state.Durable
	}
	return state.Soon
}

// refuse ends a queued task that may not begin.
func (s *datasetServer) refuse(tx *state.Tx, t *pb.Task, why error) error {
	if err := s.c.fail(tx, t, why); err != nil {
		return err
	}
	_, err := s.c.applyEnd(tx, t, manifestResult{})
	return err
}

// removed ends a removal: a replica that is gone is forgotten, and one that the task has not touched is whole as it
// was. In any other case nothing tells what is left of it: partly says what becomes of the record.
func (s *datasetServer) removed(tx *state.Tx, t *pb.Task, p manifestResult, r *pb.Replica, partly func() error) error {
	switch {
	case t.GetState() == task.Done:
		s.evicted(t, r)
		return deleteReplica(tx, r)
	case untouched(t, p) && r.GetCreateTime() != nil:
		r.State, r.Task = whole, ""
		return s.putReplica(tx, r)
	}
	return partly()
}

// untouched says of a removal that has ended whether nothing was removed.
func untouched(t *pb.Task, p manifestResult) bool {
	return t.GetStartTime() == nil || t.GetState() == task.Failed && p.untouched
}

// markedBy returns the replicas that a purge removes.
func (s *datasetServer) markedBy(tx *state.Tx, t *pb.Task) (marked []*pb.Replica, err error) {
	if err := s.c.facts.readySpots(tx); err != nil {
		return nil, err
	}
	for _, key := range append(s.c.facts.spots.meeting(t.GetSpec().GetTarget(), "", t.GetSpec().GetNode()), s.c.facts.spots.unplaced()...) {
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

// retryRemovals submits the removal of replicas that are not whole and have no task under way, with the rights of their owners.
func (s *datasetServer) retryRemovals(ctx context.Context, before time.Time) error {
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
		s.c.submitted(ctx, t)
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
