package cluster

import (
	"context"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestRevisionsGrow: whoever watches a task can tell what is newer by its revision alone,
// whatever happens to the task, and also after the coordinator has begun anew.
func TestRevisionsGrow(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t) // nobody is there: it stays in the queue
		id := c.Slow(c.Tree("source", 10, 1, 6<<20), c.Dir+"/target", 1<<20).GetId()
		last := c.Now(id)
		grows := func(what string) {
			t.Helper()
			now := c.Now(id)
			if now.GetRevision() <= last.GetRevision() {
				t.Errorf("%s: revision %d follows %d; %v, then %v", what, now.GetRevision(), last.GetRevision(), last.GetState(), now.GetState())
			}
			last = now
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := must.Get(c.WatchTask(ctx, &pb.WatchTaskRequest{Id: id}))(t)
		if _, err := seen.Recv(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.PauseTask(t.Context(), &pb.PauseTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		grows("paused")
		if told, err := seen.Recv(); err != nil || told.GetState() != task.Paused {
			t.Errorf("who watches a task that is paused in the queue hears %v, %v", told.GetState(), err)
		}
		if _, err := c.ResumeTask(t.Context(), &pb.ResumeTaskRequest{Id: id}); err != nil {
			t.Fatal(err)
		}
		grows("resumed")
		c.Join("n1")
		c.Passed(id, 1<<20)
		grows("running")
		c.Restart()
		grows("after the coordinator began anew")
		c.Done(id)
		grows("done")
	})
}
