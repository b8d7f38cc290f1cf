package coordinator

import (
	"context"
	"errors"
	"time"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// CancelTask implements pb.TaskServiceServer.
func (s *Service) CancelTask(ctx context.Context, r *pb.CancelTaskRequest) (*pb.Task, error) {
	method := pb.TaskService_CancelTask_FullMethodName
	t, err := s.find(ctx, method, r.GetId())
	denied := errors.Is(err, mover.ErrNotExist)
	if denied { // a caller that waits for a staging of another owner may see it
		t, err = s.find(ctx, pb.TaskService_GetTask_FullMethodName, r.GetId())
	}
	if err != nil {
		return nil, err
	}
	if task.Of(t.GetSpec()).Shared && !task.Ended(t.GetState()) {
		mine, others, err := s.withdraw(ctx, t, r)
		switch {
		case err != nil:
			return nil, err
		case mine && others, !mine && r.GetHolder() != "":
			return s.Task(t.GetId())
		case mine:
			denied = false
		}
	}
	if denied {
		return nil, gone(r.GetId())
	}
	return s.steered(ctx, t, task.Cancelled)
}

// withdraw has the caller wait no more for a staging: for what was asked for with a key, or for a holder, or
// for anything. mine says that the caller may want no more than this, others that other
// requests still wait. An operator that names neither ends the staging for all.
func (s *Service) withdraw(ctx context.Context, t *pb.Task, r *pb.CancelTaskRequest) (mine, others bool, err error) {
	c := authz.From(ctx)
	me := state.User(authz.AccountOf(c))
	if r.GetIdempotencyKey() == "" && r.GetHolder() == "" && s.operates(c, pb.TaskService_CancelTask_FullMethodName) {
		return false, false, nil
	}
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		wishes, err := state.Collect(state.StageWaiters.All(tx, state.Range{Prefix: []string{t.GetId()}}))
		if err != nil {
			return err
		}
		mine, others = state.User(t.GetOwner()) == me && r.GetHolder() == "", false
		for _, w := range wishes {
			if !wishedBy(w, c, r) {
				others = true
				continue
			}
			mine = true
			if err := state.StageWaiters.Delete(tx, w.GetTask(), w.GetLease().GetId()); err != nil {
				return err
			}
		}
		return nil
	})
	return mine, others, err
}

// wishedBy says whether a wish is one of a caller that a request means.
func wishedBy(w *ledgerv1.Wish, c authz.Caller, r *pb.CancelTaskRequest) bool {
	if key := r.GetIdempotencyKey(); key != "" && w.GetLease().GetId() != idempotency.ID(c, key, time.Time{}) {
		return false
	}
	if h := r.GetHolder(); h != "" && w.GetLease().GetHolder() != h {
		return false
	}
	return state.User(w.GetLease().GetOwner()) == state.User(authz.AccountOf(c))
}
