package coordinator

import (
	"context"
	"errors"

	"google.golang.org/protobuf/proto"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// find returns a task as it is now, if the caller may see it. Else the task does not
// exist for the caller: the error is the same.
func (s *Service) find(ctx context.Context, method, id string) (*pb.Task, error) {
	if !task.ValidID(id) {
		return nil, gone(id)
	}
	t, err := s.Task(id)
	if errors.Is(err, mover.ErrNotExist) {
		return nil, gone(id)
	}
	if err != nil {
		return nil, err
	}
	owner := authz.Owner{Name: t.GetOwner().GetName(), UID: t.GetOwner().GetUid()}
	if d := s.rules().MayOn(authz.From(ctx), authz.OfMethod(method), owner); !d.Allowed && !s.mayFollow(ctx, method, t) {
		return nil, gone(id)
	}
	return t, nil
}

func gone(id string) error {
	return &mover.Error{Op: "find", Location: "task " + mover.Printable(id), Err: mover.Because(mover.ErrNotExist, "there is no such task")}
}

// nobody is a name that no owner has: a caller that may act on tasks of this owner may
// act on all tasks.
const nobody = "\x00nobody"

// Task returns a task as it is now: what runs is in memory.
func (s *Service) Task(id string) (t *pb.Task, err error) {
	s.scheduler.mu.Lock()
	if l := s.scheduler.leads[id]; l != nil {
		t = proto.Clone(l.task).(*pb.Task)
	}
	s.scheduler.mu.Unlock()
	if t != nil {
		return t, nil
	}
	err = s.ledger.View(func(tx *state.Tx) error {
		t, err = state.Tasks.Get(tx, id)
		return err
	})
	return t, err
}

// GetTask implements pb.TaskServiceServer.
func (s *Service) GetTask(ctx context.Context, r *pb.GetTaskRequest) (*pb.Task, error) {
	return s.find(ctx, pb.TaskService_GetTask_FullMethodName, r.GetId())
}

// pagesMost is how many pages are read at one time. Others wait: their requests are small, and a page with all that it was made of is not.
const pagesMost = 4

// readPage waits until a page may be read.
func (s *Service) readPage(ctx context.Context) (done func(), err error) {
	select {
	case s.pages <- struct{}{}:
		return func() { <-s.pages }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// ListTasks implements pb.TaskServiceServer.
func (s *Service) ListTasks(ctx context.Context, r *pb.ListTasksRequest) (*pb.ListTasksResponse, error) {
	caller := authz.From(ctx)
	f := state.TaskFilter{States: r.GetStates(), Project: r.GetProject(), Owner: r.GetOwner(), Node: r.GetNode(), Labels: r.GetLabels(), After: r.GetPageToken()}
	if f.After != "" && !task.ValidID(f.After) {
		return nil, mover.Usagef("the page token is not one of ours")
	}
	read := authz.OfMethod(pb.TaskService_ListTasks_FullMethodName)
	anybody := s.rules().MayOn(caller, read, authz.Owner{Name: nobody, UID: ^uint32(0)}).Allowed || s.rules().MayAt(caller, pb.TaskService_ListTasks_FullMethodName, r.GetNode()).Allowed
	if own := s.rules().MayOn(caller, read, authz.Owner{Name: caller.Name, UID: caller.UID}); !anybody && !own.Allowed {
		return nil, own.Err()
	}
	if self := state.User(&pb.Account{Name: caller.Name, Uid: caller.UID}); !anybody {
		if f.Owner != "" && f.Owner != self {
			return &pb.ListTasksResponse{}, nil
		}
		f.Owner = self
	}
	done, err := s.readPage(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	out, size, bytes := &pb.ListTasksResponse{}, state.PageSize(r.GetPageSize()), 0
	err = s.ledger.View(func(tx *state.Tx) error {
		for t, err := range state.FindTasks(tx, f) {
			if err != nil {
				return err
			}
			t = s.fresh(t)
			if r.GetBrief() {
				t.Report, t.Spec.Options = nil, nil
			}
			if bytes += proto.Size(t); len(out.Tasks) == size || len(out.Tasks) > 0 && bytes > state.PageBytes {
				out.NextPageToken = out.Tasks[len(out.Tasks)-1].GetId()
				break
			}
			out.Tasks = append(out.Tasks, t)
		}
		return ctx.Err()
	})
	return out, err
}

// fresh is a task as it is in memory, where it is there, in the place of what the ledger knows.
func (s *Service) fresh(t *pb.Task) *pb.Task {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	if l := s.scheduler.leads[t.GetId()]; l != nil {
		return copyOf(l.task)
	}
	return t
}

// PauseTask implements pb.TaskServiceServer.
func (s *Service) PauseTask(ctx context.Context, r *pb.PauseTaskRequest) (*pb.Task, error) {
	return s.steering.steer(ctx, pb.TaskService_PauseTask_FullMethodName, r.GetId(), task.Paused)
}

// exitCancelled is the exit code of a command after its task was cancelled.
const exitCancelled = 130

// lettingGo is what the owner of a task may want of its lead: how that is called while it
// lasts, which is how a coordinator that starts finds it in the ledger, and what the lead
// is told.
var lettingGo = map[pb.TaskState]struct {
	phase string
	how   agentv1.How
}{
	task.Paused:    {"pausing", agentv1.How_HOW_PAUSE},
	task.Cancelled: {"cancelling", agentv1.How_HOW_CANCEL},
}

// wanted is what the owner of a running task wanted when it was stored.
func wanted(t *pb.Task) pb.TaskState {
	for state, want := range lettingGo {
		if want.phase == t.GetPhase() {
			return state
		}
	}
	return 0
}

// ResumeTask implements pb.TaskServiceServer.
func (s *Service) ResumeTask(ctx context.Context, r *pb.ResumeTaskRequest) (*pb.Task, error) {
	if _, err := s.find(ctx, pb.TaskService_ResumeTask_FullMethodName, r.GetId()); err != nil {
		return nil, err
	}
	t, err := s.steering.change(ctx, r.GetId(), func(_ *state.Tx, t *pb.Task) error {
		if t.GetState() == task.Queued || t.GetState() == task.Running {
			return nil
		}
		t.Why, t.Phase = "", ""
		return task.Move(t, task.Queued)
	})
	if err == nil && t.GetState() == task.Queued {
		s.scheduler.requeue(ctx, t)
	}
	return t, err
}

// mayFollow says whether a caller may see the task of another owner: a staging of a
// dataset, for which other callers may wait, too.
func (s *Service) mayFollow(ctx context.Context, method string, t *pb.Task) bool {
	if !task.Of(t.GetSpec()).Shared || t.GetDataset() == "" || authz.OfMethod(method).Action != "task.read" {
		return false
	}
	return s.rules().MayOn(authz.From(ctx), authz.OfMethod(pb.DatasetService_ListReplicas_FullMethodName), authz.Owner{}).Allowed
}

// ExplainTask implements pb.TaskServiceServer.
func (s *Service) ExplainTask(ctx context.Context, r *pb.ExplainTaskRequest) (*pb.Explanation, error) {
	t, err := s.find(ctx, pb.TaskService_ExplainTask_FullMethodName, r.GetId())
	if err != nil {
		return nil, err
	}
	e := explain(t)
	switch t.GetState() {
	case task.Queued:
		s.explainer.explainQueue(t, e)
		s.explainer.explainNode(t, e)
	case task.Paused:
		s.explainer.explainNode(t, e)
	case task.Running:
		s.explainer.explainLead(t, e)
	}
	return e, nil
}
