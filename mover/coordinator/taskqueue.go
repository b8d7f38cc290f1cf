package coordinator

import (
	"context"
	"slices"
	"strings"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/task"
)

// taskQueue is a line of queued tasks that need the same and pay together.
type taskQueue struct {
	name    string
	class   pb.TaskClass
	project string
	owner   string // as state.User makes it
	need    placement.Need
	account *pb.Account
	pass    float64 // how much of its share it has had: the least is next
	blocked int     // tasks that could not begin since all were looked at; of dispatch alone
	unread  error   // why its line could not be read the last time; guarded by scheduler.mu
}

// weights are those of the configuration, by which agents give turns: what a class and a
// project have of a node, they have of the leads.
func weights(c *config.Config) fairshare.Weights {
	w := fairshare.Weights{Projects: map[string]int64{}}
	for name, p := range c.Projects {
		if p.Weight > config.DefaultWeight {
			w.Projects[name] = int64(p.Weight)
		}
	}
	return w
}

// classes are all that a task can have.
func classes(yield func(pb.TaskClass) bool) {
	for n := range pb.TaskClass_name {
		if n != 0 && !yield(pb.TaskClass(n)) {
			return
		}
	}
}

func flowName(t *pb.Task, n placement.Need) string {
	spec := t.GetSpec()
	return strings.Join([]string{spec.GetClass().String(), spec.GetProject(), state.User(t.GetOwner()), n.Route()}, "\x00")
}

// line returns the flow of a task, and makes it if need be. scheduler.mu is held, or
// the service has not started yet.
func (s *scheduler) line(t *pb.Task, n placement.Need) *taskQueue {
	name := flowName(t, n)
	if f := s.flows[name]; f != nil {
		return f
	}
	f := &taskQueue{name: name, class: t.GetSpec().GetClass(), project: t.GetSpec().GetProject(), owner: state.User(t.GetOwner()), need: n, account: t.GetOwner()}
	for _, other := range s.flows { // a flow earns no credit while it is empty
		if f.pass == 0 || other.pass < f.pass {
			f.pass = other.pass
		}
	}
	s.flows[name] = f
	return f
}

// enqueue puts a queued task into its line.
func (s *scheduler) enqueue(ctx context.Context, t *pb.Task, n placement.Need) {
	s.c.paths.unresolved(t)
	s.mu.Lock()
	f := s.line(t, n)
	s.mu.Unlock()
	if err := s.queue.Offer(ctx, f.name, t.GetId()); err != nil {
		s.log.Warn("the queue does not take a task; it is found in the ledger", "task", t.GetId(), "err", err)
	}
	s.c.hurry()
}

// requeue puts a task back into its line.
func (s *scheduler) requeue(ctx context.Context, t *pb.Task) {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		n = placement.Need{Node: "?"}
	}
	s.enqueue(ctx, t, n)
}

// refill is asked by the queue for the next ids of a line.
func (s *scheduler) refill(ctx context.Context, name, after string, n int) (ids []string, err error) {
	s.mu.Lock()
	f := s.flows[name]
	s.mu.Unlock()
	if f == nil {
		return nil, nil
	}
	return s.queued(ctx, f, after, n)
}

// queued returns ids of tasks that wait in a line.
func (s *scheduler) queued(ctx context.Context, f *taskQueue, after string, n int) (ids []string, err error) {
	filter := state.TaskFilter{States: []pb.TaskState{task.Queued}, Project: f.project, Owner: f.owner, After: after, Oldest: true}
	err = s.ledger.View(func(tx *state.Tx) error {
		for t, err := range state.FindTasks(tx, filter) {
			if err != nil {
				return err
			}
			want, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
			if err != nil || flowName(t, want) != f.name {
				continue
			}
			if ids = append(ids, t.GetId()); len(ids) == n {
				break
			}
		}
		return ctx.Err()
	})
	return ids, err
}

// fair returns the flows: urgent classes first, then the flow with the least of its share.
func (s *scheduler) fair() []*taskQueue {
	all := make([]*taskQueue, 0, len(s.flows))
	for _, f := range s.flows {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *taskQueue) int {
		switch {
		case a.class != b.class && urgent(a.class) != urgent(b.class): // a restore waits for no other class
			if urgent(a.class) {
				return -1
			}
			return 1
		case a.pass != b.pass:
			if a.pass < b.pass {
				return -1
			}
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
	return all
}

func urgent(c pb.TaskClass) bool {
	return c == pb.TaskClass_TASK_CLASS_RESTORE || c == pb.TaskClass_TASK_CLASS_CHECKPOINT
}

// canBegin says whether an agent is there that could work on a task.
func (s *scheduler) canBegin(t *pb.Task) bool {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range s.agents {
		if a.ready() && a.reaches(n, t.GetOwner()) {
			return true
		}
	}
	return false
}
