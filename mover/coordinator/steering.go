package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// steering brings tasks into the states that their owners want.
type steering struct {
	*core
	c *Service
}

// steer brings a task into a state that its owner wants: at once, or, of a running one,
// when its lead has let go.
func (s *steering) steer(ctx context.Context, method, id string, to pb.TaskState) (*pb.Task, error) {
	t, err := s.c.find(ctx, method, id)
	if err != nil {
		return nil, err
	}
	return s.steered(ctx, t, to)
}

// steered is steer of a task that the caller may steer.
func (s *steering) steered(ctx context.Context, t *pb.Task, to pb.TaskState) (*pb.Task, error) {
	id, why := t.GetId(), s.reason(authz.From(ctx), t, to)
	if t.GetState() == to && (!yields(t.GetWhy()) || yields(why) || task.Ended(to)) {
		return t, nil
	}
	for {
		if told, err := s.tellLead(ctx, t, to, why); told || err != nil {
			return s.settled(id, err)
		}
		t, err := s.steerUnled(ctx, id, to, why)
		if !errors.Is(err, errBegins) {
			return t, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(lingerPause):
		}
	}
}

// errBegins is the answer for a task that is stored as running before its lead is noted (giveLead): that lead has to be told.
var errBegins = fmt.Errorf("%w: the task is about to begin", mover.ErrTransient)

// steerUnled is steered of a task that no agent leads.
func (s *steering) steerUnled(ctx context.Context, id string, to pb.TaskState, why string) (*pb.Task, error) {
	return s.change(ctx, id, func(tx *state.Tx, t *pb.Task) error {
		if t.GetState() == task.Running {
			return errBegins
		}
		held := state.IsHeldBack(t)
		if t.GetState() == to { // an operator keeps it there
			t.Why = why
			return nil
		}
		if left, err := mayStop(tx, t, to, why); left || err != nil {
			return err
		}
		if err := task.Move(t, to); err != nil {
			return err
		}
		t.Why = why
		if held && task.Ended(to) { // that stays known: others did not wait for it
			t.Why = state.HeldBack + "; " + why
		}
		if task.Ended(to) {
			t.EndTime, t.ExitCode = timestamppb.New(s.now()), exitCancelled
		}
		return nil
	})
}

// tellLead has the lead of a task let go of it. It reports false when there is none.
// What is wanted is on stable storage when it returns: the caller that cancels a task
// relies on it.
func (s *steering) tellLead(ctx context.Context, t *pb.Task, to pb.TaskState, why string) (told bool, err error) {
	if told, err = s.noteWant(ctx, t, to, why); told && err == nil {
		err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error { _, err := state.Tasks.Get(tx, t.GetId()); return err })
	}
	return told, err
}

func (s *steering) noteWant(ctx context.Context, t *pb.Task, to pb.TaskState, why string) (bool, error) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	l := s.c.scheduler.leads[t.GetId()]
	if l == nil {
		return false, nil
	}
	if l.closing { // it has ended; what it became is told in a moment
		return true, nil
	}
	if !task.May(task.Running, to) {
		return false, task.Move(l.task, to)
	}
	if l.want == task.Cancelled && to != task.Cancelled || l.want == to && !yields(l.by) { // nothing undoes that
		to, why = l.want, l.by
	}
	now := copyOf(l.task)
	now.Phase, now.Why = lettingGo[to].phase, why
	if left, err := s.storeWant(ctx, now, to); left || err != nil {
		return true, err
	}
	l.want, l.by, l.task.Phase, l.task.Why = to, why, now.GetPhase(), why
	s.c.scheduler.changed(l.task)
	s.tellWant(l)
	return true, nil
}

// storeWant stores what is wanted of a running task. left says that the task is left to those that wait for it.
func (s *steering) storeWant(ctx context.Context, t *pb.Task, to pb.TaskState) (left bool, err error) {
	err = s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) (err error) {
		if left, err = mayStop(tx, t, to, t.GetWhy()); left || err != nil {
			return err
		}
		return state.Tasks.Put(tx, t)
	})
	return left, err
}

// tellWant tells the agent of a lead what is wanted of it. scheduler.mu is held.
func (s *steering) tellWant(l *lead) {
	s.c.scheduler.send(l.agent, &agentv1.Order{What: &agentv1.Order_Stop{Stop: &agentv1.Stop{Task: l.task.GetId(), Epoch: l.epoch, How: lettingGo[l.want].how}}})
}

func (s *steering) settled(id string, err error) (*pb.Task, error) {
	if err != nil {
		return nil, err
	}
	return s.c.Task(id)
}

// change changes a task that no agent leads, durably.
func (s *steering) change(ctx context.Context, id string, do func(*state.Tx, *pb.Task) error) (t *pb.Task, err error) {
	var f following
	var over bool // before
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if t, err = state.Tasks.Get(tx, id); err != nil {
			return err
		}
		over = task.Ended(t.GetState())
		if err := do(tx, t); err != nil {
			return err
		}
		t.Revision++
		if err := state.Tasks.Put(tx, t); err != nil || !task.Ended(t.GetState()) {
			return err
		}
		f, err = s.c.applyEnd(tx, t, taskkind.Result{})
		return err
	})
	if err == nil {
		if !over && task.Ended(t.GetState()) {
			s.c.metrics.countEnd(t)
		}
		s.c.watch.tell(id)
		s.c.afterTask(ctx, t, f)
	}
	return t, err
}

// withdraw has the caller wait no more for a staging: for what was asked for with a key, or for a holder, or
// for anything. mine says that the caller may want no more than this, others that other
// requests still wait. An operator that names neither ends the staging for all.
func (s *steering) withdraw(ctx context.Context, t *pb.Task, r *pb.CancelTaskRequest) (mine, others bool, err error) {
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

// reason is why a task is in a state that a caller has it in.
func (s *steering) reason(c authz.Caller, t *pb.Task, to pb.TaskState) string {
	word := task.Word(to)
	switch {
	case s.operates(c, map[pb.TaskState]string{task.Paused: pb.TaskService_PauseTask_FullMethodName, task.Cancelled: pb.TaskService_CancelTask_FullMethodName}[to]):
		return word + " by " + authz.NameOf(c)
	case authz.IsOwner(t.GetOwner(), c):
		return word + byOwner
	}
	return word + byWaiter
}

// operates reports whether a caller may do what a method does to any task.
func (s *steering) operates(c authz.Caller, method string) bool {
	return s.rules().MayOn(c, authz.OfMethod(method), authz.Owner{Name: nobody, UID: ^uint32(0)}).Allowed
}
