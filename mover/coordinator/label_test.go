package coordinator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task/convert"
	"datamove.dev/test/must"
)

// Who joins a staging of somebody else finds it by its own labels, as long as it waits, and
// its lease has them.
func TestLabels(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	alice, bob := as("alice", 1001), as("bob", 1002)
	d.add(alice, "a", "project:a", 1)
	job := func(id string) map[string]string { return map[string]string{"slurm_job": id} }
	stage := func(ctx context.Context, labels map[string]string) *pb.StageResponse {
		t.Helper()
		a, err := d.datasets.Stage(ctx, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour), Labels: labels})
		must.Do(t, err)
		return a
	}
	found := func(ctx context.Context, labels map[string]string) (ids []string) {
		t.Helper()
		l, err := d.ListTasks(ctx, &pb.ListTasksRequest{Labels: labels, States: []pb.TaskState{pb.TaskState_TASK_STATE_QUEUED, pb.TaskState_TASK_STATE_RUNNING}})
		must.Do(t, err)
		for _, t := range l.GetTasks() {
			ids = append(ids, t.GetId())
		}
		return ids
	}
	first := stage(alice, job("6")).GetTask()
	stage(alice, map[string]string{"slurm_job": "7", "step": "1"})
	stage(alice, map[string]string{"slurm_job": "7", "step": "2"})
	if first.GetSpec().GetLabels()["slurm_job"] != "6" {
		t.Errorf("the task has %v", first.GetSpec().GetLabels())
	}
	for name, row := range map[string]struct {
		who    context.Context
		labels map[string]string
		found  bool
	}{
		"by the task's":                        {alice, job("6"), true},
		"by a wish's":                          {alice, job("7"), true},
		"by all of a wish's":                   {alice, map[string]string{"slurm_job": "7", "step": "2"}, true},
		"some of the task's, some of a wish's": {alice, map[string]string{"slurm_job": "6", "step": "2"}, false},
		"of an operator":                       {root, job("7"), true},
		"of others":                            {bob, job("7"), false},
		"none":                                 {alice, job("8"), false},
	} {
		if got := found(row.who, row.labels); (len(got) == 1 && got[0] == first.GetId()) != row.found || len(got) > 1 {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := found(bob, nil); len(got) != 0 {
		t.Errorf("without labels bob sees %v", got)
	}
	d.done(first, nil, 1)
	if got := append(found(alice, job("7")), found(root, job("7"))...); len(got) != 0 {
		t.Errorf("when it is whole nobody waits: %v", got)
	}
	if _, err := d.datasets.AcquireLease(alice, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Ttl: durationpb.New(time.Hour), Labels: job("9")}); err != nil {
		t.Fatal(err)
	}
	stage(alice, job("9"))
	for id, n := range map[string]int{"6": 1, "7": 2, "9": 2, "": 0} {
		l, err := d.datasets.ListLeases(root, &pb.ListLeasesRequest{Labels: job(id)})
		if err != nil || len(l.GetLeases()) != n || slices.ContainsFunc(l.GetLeases(), func(l *pb.Lease) bool { return l.GetLabels()["slurm_job"] != id }) {
			t.Errorf("leases of job %q: %v, %v", id, l, err)
		}
	}
}

// Labels are bounded wherever they come from.
func TestHostileLabels(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	many := map[string]string{}
	for i := range convert.MaxLabels + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for name, labels := range map[string]map[string]string{"many": many, "long": {"k": strings.Repeat("x", convert.MaxLabel)}, "without a name": {"": "x"}, "odd": {"a\x00b": ""}} {
		for range 2 { // the second time it is on its way
			wants(t, name, second(d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Labels: labels})), mover.ErrUsage)
		}
		wants(t, name, second(d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Ttl: durationpb.New(time.Hour), Labels: labels})), mover.ErrUsage)
	}
}

// TestLargeTasks: a task that leaves no room in its record is refused with its size, whatever client asks.
func TestLargeTasks(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	_, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/a", Target: "/b",
		Options: &pb.Options{Names: slices.Repeat([]string{strings.Repeat("x", 97)}, 10_000)}}})
	wants(t, "967 KiB", err, mover.ErrUsage)
	if !strings.Contains(fmt.Sprint(err), "a task of 967 KiB (10,000 names, 0 patterns); a service takes at most 896 KiB in one") {
		t.Error(err)
	}
}

// TestTasksOfNode: root of a node sees what is meant for that node, whosever it is, and nothing else.
//
//safety:7 with mover/server TestWhoMayCallForWhom
func TestTasksOfNode(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	alice := as("alice", 1001)
	d.add(alice, "a", "project:a", 1)
	ids := map[string]string{}
	for _, node := range []string{"n1", "n2"} {
		a := must.Get(d.datasets.Stage(alice, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour)}))(t)
		ids[a.GetTask().GetId()] = node
	}
	rootOf := func(node string) context.Context {
		return authz.With(context.Background(), authz.Caller{Name: "root", Via: authz.Forwarded, Agent: node})
	}
	for _, row := range []struct {
		who  context.Context
		node string
		want int
		err  error
	}{
		{rootOf("n1"), "n1", 1, nil},
		{rootOf("n2"), "n1", 0, mover.ErrPermission},
		{rootOf("n1"), "", 0, mover.ErrPermission},
		{alice, "n2", 1, nil},
		{alice, "n3", 0, nil},
		{as("bob", 1002), "n1", 0, nil},
		{root, "n2", 1, nil},
	} {
		l, err := d.ListTasks(row.who, &pb.ListTasksRequest{Node: row.node, States: []pb.TaskState{pb.TaskState_TASK_STATE_QUEUED}})
		wants(t, "tasks of "+row.node, err, row.err)
		n := 0
		for _, x := range l.GetTasks() {
			if ids[x.GetId()] == row.node {
				n++
			}
		}
		if n != row.want || len(l.GetTasks()) != n {
			t.Errorf("tasks of %q: %v", row.node, l.GetTasks())
		}
	}
}
