package coordinator

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
)

// TestRefusedChangesNothing: what an account asked for, and what its worker could not do anything of, leaves each replica as it was known, also while it waits.
//
//safety:7 a purge, a removal, a copy and a sync over replicas by an account that may not write there
func TestRefusedChangesNothing(t *testing.T) {
	for _, row := range []struct {
		what    string
		ask     func(*desk) (*pb.Task, error)
		managed bool // the replica is one that this service has made
	}{
		{"purge of what was staged", func(d *desk) (*pb.Task, error) {
			return d.datasets.Purge(bob, &pb.PurgeRequest{Location: "scratch:.datasets/a", Node: "n1"})
		}, true},
		{"purge around a source", func(d *desk) (*pb.Task, error) {
			return d.datasets.Purge(bob, &pb.PurgeRequest{Location: "scratch:b", Node: "n1"})
		}, false},
		{"rm", func(d *desk) (*pb.Task, error) {
			return d.SubmitTask(bob, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "scratch:b", Node: "n1"}})
		}, false},
		{"copy", func(d *desk) (*pb.Task, error) {
			return d.SubmitTask(bob, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/from", Target: "scratch:", Node: "n1"}})
		}, false},
		{"sync", func(d *desk) (*pb.Task, error) {
			return d.SubmitTask(bob, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_SYNC, Source: "/from", Target: "scratch:b/below", Node: "n1"}})
		}, false},
	} {
		for _, touched := range []bool{false, true} {
			t.Run(fmt.Sprint(row.what, ", touched ", touched), func(t *testing.T) {
				d := newDesk(t, site(), authz.Input{UID: 990})
				d.add(alice, "b", "scratch:b", 2)
				if row.managed {
					d.add(root, "a", "project:a", 1)
					d.staged(alice, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
				}
				record := func() *pb.Replica {
					if row.managed {
						return d.row("a", digestOf(1), "scratch", "n1")
					}
					return d.row("b", digestOf(2), "scratch", "n1")
				}
				was := record()
				if row.what == "copy" && row.managed {
					t.Fatal("what this service has made is not written over")
				}
				x, err := row.ask(d)
				wants(t, "ask", err, nil)
				if is := record(); !proto.Equal(is, was) {
					t.Errorf("while it waits it is\n%v, was\n%v", is, was)
				}
				d.give()
				if is := record(); d.taken[x.GetId()] == nil || is.GetState() == whole && is.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
					t.Fatalf("while it runs it is relied on: %v, the task is %v", is, d.state(x.GetId()))
				}
				if touched {
					wants(t, "finish", d.finish(x.GetId(), 0, mover.ErrPermission), nil)
				} else {
					d.refuse(x.GetId(), mover.ErrPermission)
				}
				if got := d.state(x.GetId()); got.GetState() != task.Failed {
					t.Errorf("it is %v", got)
				}
				if is := record(); proto.Equal(is, was) == touched {
					t.Errorf("it is\n%v, was\n%v", is, was)
				}
			})
		}
	}
}
