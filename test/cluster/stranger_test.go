package cluster

import (
	"context"
	"strings"
	"testing"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestTaskOfAnother: the id of somebody else's task opens nothing: each call answers as if there were no such task, and nothing happens to it.
//
//safety:7 the task of another account looks as if there were none
func TestTaskOfAnother(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t)
		c.Accounts = rig.Accounts(t)
		x, err := c.SubmitTask(rig.As("alice"), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:secret-plans", Target: "shared:out"}})
		must.Do(t, err)
		bob, none := rig.As("bob"), "0"+x.GetId()[1:]
		for name, call := range map[string]func(id string) error{
			"get":     func(id string) error { _, err := c.GetTask(bob, &pb.GetTaskRequest{Id: id}); return err },
			"explain": func(id string) error { _, err := c.ExplainTask(bob, &pb.ExplainTaskRequest{Id: id}); return err },
			"pause":   func(id string) error { _, err := c.PauseTask(bob, &pb.PauseTaskRequest{Id: id}); return err },
			"resume":  func(id string) error { _, err := c.ResumeTask(bob, &pb.ResumeTaskRequest{Id: id}); return err },
			"cancel":  func(id string) error { _, err := c.CancelTask(bob, &pb.CancelTaskRequest{Id: id}); return err },
			"wait":    func(id string) error { _, err := c.Wait(bob, id, nil); return err },
			"watch": func(id string) error {
				stream, err := c.WatchTask(bob, &pb.WatchTaskRequest{Id: id})
				if err == nil {
					_, err = stream.Recv()
				}
				return err
			},
		} {
			theirs, nobodys := call(x.GetId()), call(none)
			if theirs == nil || nobodys == nil || strings.ReplaceAll(theirs.Error(), x.GetId(), "ID") != strings.ReplaceAll(nobodys.Error(), none, "ID") {
				t.Errorf("%s tells a task from none: %v, and %v", name, theirs, nobodys)
			}
		}
		if l, err := c.ListTasks(bob, &pb.ListTasksRequest{}); err != nil || len(l.GetTasks()) > 0 {
			t.Errorf("the list of another: %v, %v", l, err)
		}
		if now, err := c.GetTask(rig.As("alice"), &pb.GetTaskRequest{Id: x.GetId()}); err != nil || now.GetState() != task.Queued {
			t.Errorf("it is %v, %v", now, err)
		}
		if _, err := c.CancelTask(context.Background(), &pb.CancelTaskRequest{Id: x.GetId()}); err != nil {
			t.Errorf("root: %v", err)
		}
	})
}
