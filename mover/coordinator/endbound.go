package coordinator

import (
	"context"
	"errors"
	"slices"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/placement"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
)

// endBound ends the tasks that wait, or are paused, and could be done only on nodes that
// were forgotten, and counts them.
func (s *scheduler) endBound(ctx context.Context, nodes ...string) (n int64) {
	for after, more := "", len(nodes) > 0; more; {
		var bound []boundTask
		err := s.ledger.View(func(tx *state.Tx) (err error) {
			bound, after, err = s.boundTo(tx, nodes, after)
			return err
		})
		if err != nil {
			s.log.Error("the tasks of nodes that were forgotten can not be read", "agents", nodes, "err", err)
			return n
		}
		for _, b := range bound {
			if s.endWaiting(ctx, b.id, forgetting(b.node, errBound)) {
				n++
			}
		}
		more = after != ""
	}
	var flows []*taskQueue
	s.mu.Lock()
	for _, f := range s.flows {
		if slices.Contains(nodes, f.need.Node) {
			flows = append(flows, f)
		}
	}
	s.mu.Unlock()
	for _, f := range flows {
		s.forget(ctx, f)
	}
	return n
}

var errBound = mover.Because(mover.ErrNotExist, "this task could be done there only; submit it again for another node, or when this one has joined again")

// boundTask is a task that one node alone can do.
type boundTask struct{ id, node string }

// boundTo returns tasks that wait, or are paused, for some nodes, and after which one there
// may be more; "" when there are none.
func (s *scheduler) boundTo(tx *state.Tx, nodes []string, after string) (bound []boundTask, last string, err error) {
	seen := 0
	for t, err := range state.FindTasks(tx, state.TaskFilter{States: []pb.TaskState{task.Queued, task.Paused}, After: after, Oldest: true}) {
		if err != nil {
			return nil, "", err
		}
		if node := s.boundOf(t); node != "" && slices.Contains(nodes, node) {
			bound = append(bound, boundTask{t.GetId(), node})
		}
		if seen++; seen == discoverPage {
			return bound, t.GetId(), nil
		}
	}
	return bound, "", nil
}

// boundOf is the one node that can do a task; "" if several can, or if the node is unknown.
func (s *scheduler) boundOf(t *pb.Task) string {
	n, err := placement.Of(t.GetSpec(), s.conf(), t.GetSpec().GetNode())
	if err != nil {
		return t.GetSpec().GetNode() // its tier is not there any more
	}
	return n.Node
}

// endWaiting fails a task that waits, or is paused.
func (s *scheduler) endWaiting(ctx context.Context, id string, why error) bool {
	var t *pb.Task
	err := s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) (err error) {
		if t, err = state.Tasks.Get(tx, id); err != nil || t.GetState() != task.Queued && t.GetState() != task.Paused {
			return errors.Join(err, mover.ErrNotExist)
		}
		t.Revision++
		return s.c.refuse(tx, t, why)
	})
	if err != nil {
		if !errors.Is(err, mover.ErrNotExist) {
			s.log.Error("a task whose node was forgotten can not be ended", "task", id, "err", err)
		}
		return false
	}
	s.c.metrics.countEnd(t)
	s.c.watch.tell(id)
	return true
}

// endForgottenBound ends what a coordinator left that stopped while it forgot a node.
func (s *scheduler) endForgottenBound(ctx context.Context) {
	var gone []string
	err := s.ledger.View(func(tx *state.Tx) error {
		for f, err := range state.Forgotten.All(tx, state.Range{}) {
			if err != nil {
				return err
			}
			if _, err := state.Agents.Get(tx, f.GetName()); errors.Is(err, mover.ErrNotExist) && len(f.GetIssued()) == 0 {
				gone = append(gone, f.GetName())
			}
		}
		return nil
	})
	if err != nil {
		s.log.Error("the nodes that were forgotten can not be read", "err", err)
	}
	if n := s.endBound(ctx, gone...); n > 0 {
		s.log.Warn("tasks have ended whose nodes were forgotten before the start", "agents", gone, "tasks", n)
	}
}
