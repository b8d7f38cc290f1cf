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
		mine, others, err := s.steering.withdraw(ctx, t, r)
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
	return s.steering.steered(ctx, t, task.Cancelled)
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
