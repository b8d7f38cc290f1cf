package coordinator

import (
	"cmp"
	"context"
	"errors"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/coordinator/taskkind"
	"datamove.dev/mover/task"
)

// beginning is how durable the start of a task is. What writes or removes must have begun after a power cut, too: else a later coordinator would take
// the data for untouched, and would not know the lead that has the lock of the target.
func beginning(t *pb.Task) state.Durability {
	if task.Of(t.GetSpec()).ReadOnly {
		return state.Soon
	}
	return state.Durable
}

// mayBegin says, in the change that gives a task to a lead, why it may not be done any
// more: data that was unused at its submission may be needed by now. A release that
// has begun has to come to its end.
func (s *Service) mayBegin(tx *state.Tx, t *pb.Task) error {
	if t.GetTries() == 0 {
		if err := cmp.Or(s.scheduler.order.HalfBrought(tx, t), s.scheduler.order.Unread(tx, t)); err != nil {
			return err
		}
	}
	return s.kindOf(t.GetSpec()).Begin(tx, t)
}

// refuse ends a queued task that may not begin.
func (s *Service) refuse(tx *state.Tx, t *pb.Task, why error) error {
	if err := s.Fail(tx, t, why); err != nil {
		return err
	}
	_, err := s.applyEnd(tx, t, taskkind.Result{})
	return err
}

// judge reports why a task that its agent calls done is not done.
func (s *Service) judge(l *lead, t *pb.Task, r *agentv1.FinishRequest) error {
	got := s.scheduler.resultOf(l)
	judged, err := s.kindOf(t.GetSpec()).Judge(got, t, r)
	if judged != got {
		s.scheduler.mu.Lock()
		l.proof = judged
		s.scheduler.mu.Unlock()
	}
	if err != nil {
		return err
	}
	for _, done := range s.onDone {
		if err := done(t); err != nil {
			return err
		}
	}
	return nil
}

// resultOf is what the agent of a lead has found.
func (s *scheduler) resultOf(l *lead) taskkind.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.proof
}

// following is what the end of a task brings about.
type following struct {
	next *pb.Task              // has to be given out
	then func(context.Context) // of what the task has held; nil is nothing
}

// applyEnd does, in the very change in which a task ends, what its end means for
// datasets. What follows is done after that change: see afterTask.
func (s *Service) applyEnd(tx *state.Tx, t *pb.Task, p taskkind.Result) (f following, err error) {
	kind := s.kindOf(t.GetSpec())
	if f.then, err = s.datasets.LetGo(tx, t, t.GetState() == task.Failed && kind.Doubts(t, p)); err != nil {
		return f, err
	}
	f.next, err = kind.End(tx, t, p)
	return f, errors.Join(err, s.taskEnds(tx, t))
}

// afterTask does what follows the end of a task, when that is stored.
func (s *Service) afterTask(ctx context.Context, t *pb.Task, f following) {
	s.taskEnded(t)
	if f.then != nil {
		f.then(ctx)
	}
	if f.next != nil {
		s.Submitted(ctx, f.next)
	}
}

// reads says whether a task copies a dataset: what it reads has to be what the manifest
// says. A staging compares the digest at its end, and each file if other nodes supply the data: see compares.
func reads(t *pb.Task) bool {
	kind := task.Of(t.GetSpec())
	return t.GetDataset() != "" && kind.Brings() && kind.UserPaths
}

// compares says whether a task compares each file with the manifest. It does when it copies the dataset to a user's path, and when it
// is in a swarm. Wrong data of another node is then read from the source instead. mu is held.
func (s *scheduler) compares(t *pb.Task) bool {
	for _, x := range s.swarms {
		if _, member := x.stagers[t.GetId()]; member {
			return true
		}
	}
	return reads(t)
}
