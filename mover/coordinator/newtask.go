package coordinator

import (
	"context"
	"os"
	"os/user"
	"strconv"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// newTask makes a queued task of a caller. It is not stored yet.
func (s *Service) newTask(c authz.Caller, spec *pb.TaskSpec) *pb.Task {
	now := s.now()
	return &pb.Task{Id: task.NewID(now), Spec: spec, Owner: accountOf(c), State: task.Queued, CreateTime: timestamppb.New(now), Revision: 1}
}

// submitted lets a task be given out that was stored.
func (s *Service) submitted(ctx context.Context, t *pb.Task) {
	if t == nil {
		return
	}
	s.metrics.countNew(t)
	s.scheduler.requeue(ctx, t)
}

// self is this service as a caller: what it does by itself.
var self = sync.OnceValue(func() authz.Caller {
	c := authz.Caller{UID: uint32(os.Geteuid()), Via: authz.Local}
	if u, err := user.LookupId(strconv.Itoa(os.Geteuid())); err == nil {
		c.Name = u.Username
	}
	return c
})

// holdFor keeps what a task reads until it has ended.
func (s *Service) holdFor(tx *state.Tx, t *pb.Task, r *pb.Replica, now time.Time) error {
	if err := s.datasets.mayLease(tx, now, t.GetOwner(), r); err != nil {
		return err
	}
	l := newLease(holdID(t), r, taskHolder+t.GetId(), t.GetOwner(), now, 0)
	l.ExpireTime = nil
	return s.datasets.putLease(tx, l)
}

func holdID(t *pb.Task) string { return "task-" + t.GetId() }

// letGoOf ends what a task has held.
func (s *Service) letGoOf(tx *state.Tx, t *pb.Task) (held *pb.Lease, err error) {
	held, err = state.Leases.Get(tx, holdID(t))
	if err != nil {
		return nil, mover.IgnoreNotExist(err)
	}
	return held, s.datasets.endLease(tx, held, s.clock.now())
}

// fail ends a task that was about to be done.
func (s *Service) fail(tx *state.Tx, t *pb.Task, err error) error {
	s.scheduler.ended(t, task.Failed, mover.KindName(err), err.Error())
	return state.Tasks.Put(tx, t)
}
