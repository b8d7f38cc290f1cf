package service

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/deadmount"
	"datamove.dev/test/must"
)

// TestDeadMount: while the worker of a task is not let in because the file system of its source does not answer, the task says so and names the path; so does its
// end, with what to do about a mount.
func TestDeadMount(t *testing.T) {
	c := newTown(t, "n1")
	dead := filepath.Join(c.Dir, "shared/dead")
	must.Do(t, os.Mkdir(dead, 0o755))
	must.Do(t, os.Mkdir(filepath.Join(c.Dir, "shared/alice"), 0o755))
	c.giveTo("alice", filepath.Join(c.Dir, "shared/alice"))
	deadmount.Stopped(t, dead)
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:dead/mnt", Target: "shared:alice/new"}
	x := must.Get(c.SubmitTask(rig.As("alice"), &pb.SubmitTaskRequest{Spec: spec}))(t)
	c.Until("it is said what it waits for", func() bool {
		e, err := c.ExplainTask(rig.As("alice"), &pb.ExplainTaskRequest{Id: x.GetId()})
		return err == nil && e.GetText() == "it waits: open "+dead+"/mnt: no answer yet; is its server there?"
	})
	x = must.Get(c.Wait(t.Context(), x.GetId(), nil))(t)
	if x.GetState() != task.Failed || !strings.Contains(x.GetError(), "open "+dead+"/mnt: no answer for 30s; is its server there?") || !strings.Contains(x.GetReport().GetRemedy(), "umount") {
		t.Errorf("it is %s: %s; try: %s", task.Word(x.GetState()), x.GetError(), x.GetReport().GetRemedy())
	}
}
