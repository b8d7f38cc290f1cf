package coordinator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// rationed is a desk with quotas.
func rationed(t *testing.T, q config.Quota) *desk {
	t.Helper()
	conf := site()
	conf.Quotas.Default = q
	return newDesk(t, conf, authz.Input{UID: 990, Roles: map[string]authz.Role{"restorer": {Members: []string{"carol"}, May: []string{"task.urgent"}}}})
}

var (
	alice = as("alice", 1001)
	bob   = as("bob", 1002)
)

// copying is a request to copy; size is how many bytes it has, about.
func copying(i, size int) *pb.SubmitTaskRequest {
	spec := &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Target: fmt.Sprintf("project:out/%d", i)}
	if size == 0 {
		spec.Source = fmt.Sprintf("project:in/%d", i)
	}
	for n := range size / 200 {
		spec.Sources = append(spec.Sources, fmt.Sprintf("project:%d/%s", n, strings.Repeat("x", 180)))
	}
	return &pb.SubmitTaskRequest{Spec: spec, Paused: true}
}

// TestQuotas: an account reaches its quota of each resource, others do not, and it may go on when it has let go of something; also after a restart.
func TestQuotas(t *testing.T) {
	const most = 4
	submit := func(size int) func(*desk, context.Context, int) (func(), error) {
		return func(d *desk, ctx context.Context, i int) (func(), error) {
			x, err := d.SubmitTask(ctx, copying(i, size))
			return func() {
				_, err := d.CancelTask(ctx, &pb.CancelTaskRequest{Id: x.GetId()})
				wants(t, "cancel", err, nil)
			}, err
		}
	}
	lease := func(key string) func(*desk, context.Context, int) (func(), error) {
		return func(d *desk, ctx context.Context, i int) (func(), error) {
			r := &pb.AcquireLeaseRequest{Dataset: "vision", Tier: "project", Ttl: durationpb.New(time.Hour)}
			if i%2 == 1 { // the quota is over all replicas
				r.Dataset = "audio"
			}
			if key != "" {
				r.IdempotencyKey = fmt.Sprint(key, i)
			}
			l, err := d.datasets.AcquireLease(ctx, r)
			return func() {
				_, err := d.datasets.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()})
				wants(t, "drop", err, nil)
			}, err
		}
	}
	for _, row := range []struct {
		resource string
		quota    config.Quota
		hold     func(*desk, context.Context, int) (free func(), err error)
	}{
		{"tasks", config.Quota{Tasks: most}, submit(0)},
		{"specs", config.Quota{Specs: most * 51_000}, submit(50_000)},
		{"leases", config.Quota{Leases: most}, lease("")},
		{"requests", config.Quota{Requests: most}, lease("key-")},
		{"datasets", config.Quota{Datasets: most}, func(d *desk, ctx context.Context, i int) (func(), error) {
			name := fmt.Sprintf("%s-%d", authz.From(ctx).Name, i)
			x, err := d.datasets.AddDataset(ctx, &pb.AddDatasetRequest{Name: name, Location: "project:" + name, Node: "n1"})
			if err == nil {
				d.done(x, nil, uint64(i))
			}
			return func() {
				_, err := d.datasets.RemoveDataset(ctx, &pb.RemoveDatasetRequest{Name: name})
				wants(t, "remove", err, nil)
			}, err
		}},
	} {
		t.Run(row.resource, func(t *testing.T) {
			d := rationed(t, row.quota)
			d.add(root, "vision", "project:vision", 1)
			d.add(root, "audio", "project:audio", 2)
			var last func()
			for i := range most {
				free, err := row.hold(d, alice, i)
				wants(t, fmt.Sprint("within the quota, ", i), err, nil)
				last = free
			}
			for _, when := range []string{"at first", "after a restart"} {
				_, err := row.hold(d, alice, 100)
				if !errors.Is(err, mover.ErrRefused) || !errors.Is(err, mover.ErrQuota) || !strings.Contains(err.Error(), "quotas.users.alice."+row.resource) {
					t.Errorf("%s: one more than the quota: %v", when, err)
				}
				_, err = row.hold(d, bob, 101)
				wants(t, when+", another account", err, nil)
				d.close()
				d.open()
			}
			for i := range most + 1 {
				_, err := row.hold(d, root, 200+i)
				wants(t, "root", err, nil)
			}
			if row.resource == "requests" { // these end by time
				return
			}
			last()
			_, err := row.hold(d, alice, 102)
			wants(t, "after it has let go of one", err, nil)
		})
	}
}

// TestEndedGiveWay: records of tasks that have ended count, and are forgotten for new ones, the oldest first and no more than have to.
func TestEndedGiveWay(t *testing.T) {
	d := rationed(t, config.Quota{Specs: 4 * 51_000})
	var ids []string
	for i := range 20 {
		x, err := d.SubmitTask(alice, copying(i, 50_000))
		wants(t, fmt.Sprint("submit ", i), err, nil)
		_, err = d.CancelTask(alice, &pb.CancelTaskRequest{Id: x.GetId()})
		wants(t, "cancel", err, nil)
		ids = append(ids, x.GetId())
		d.pass(time.Second) // ids are in the order of time
	}
	for i, id := range ids {
		_, err := d.GetTask(alice, &pb.GetTaskRequest{Id: id})
		if kept := i >= len(ids)-4; (err == nil) != kept {
			t.Errorf("task %d: %v", i, err)
		}
	}
}

// TestPagesAreBounded: a page of large tasks ends at its bytes, and all pages together have all of them.
func TestPagesAreBounded(t *testing.T) {
	d := rationed(t, config.Quota{})
	const tasks = 40
	for i := range tasks {
		_, err := d.SubmitTask(alice, copying(i, 200_000))
		wants(t, "submit", err, nil)
	}
	seen := map[string]bool{}
	for token, pages := "", 0; ; pages++ {
		page, err := d.ListTasks(alice, &pb.ListTasksRequest{PageSize: 1000, PageToken: token})
		wants(t, "list", err, nil)
		if size := proto.Size(page); size > state.PageBytes+1000 || len(page.GetTasks()) == 0 {
			t.Fatalf("a page of %d bytes with %d tasks", size, len(page.GetTasks()))
		}
		for _, x := range page.GetTasks() {
			seen[x.GetId()] = true
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if len(seen) != tasks {
		t.Errorf("%d tasks of %d", len(seen), tasks)
	}
	brief, err := d.ListTasks(alice, &pb.ListTasksRequest{PageSize: 1, Brief: true})
	if wants(t, "brief", err, nil); len(brief.GetTasks()) != 1 || brief.GetNextPageToken() == "" {
		t.Errorf("%d tasks, then %q", len(brief.GetTasks()), brief.GetNextPageToken())
	}
}

// TestSlots: however many tasks an account has, a task of another one begins in the same round.
func TestSlots(t *testing.T) {
	d := rationed(t, config.Quota{})
	for _, a := range d.scheduler.agents {
		a.leads, a.slots = 4, 4
	}
	for i := range 24 {
		r := copying(i, 0)
		r.Paused = false
		_, err := d.SubmitTask(alice, r)
		wants(t, "submit", err, nil)
	}
	d.give()
	if len(d.taken) != 6 {
		t.Errorf("alice has %d of 8 slots, want 6", len(d.taken))
	}
	r := copying(100, 0)
	r.Paused = false
	x, err := d.SubmitTask(bob, r)
	wants(t, "submit", err, nil)
	d.give()
	if d.taken[x.GetId()] == nil {
		t.Errorf("bob's task is %v", d.state(x.GetId()))
	}
	u, err := d.usage.GetUsage(alice, &pb.GetUsageRequest{})
	wants(t, "usage", err, nil)
	for _, q := range u.GetQuotas() {
		if want := map[string][2]int64{"slots": {75, 75}, "tasks": {24, config.DefaultQuota.Tasks}}[q.GetResource()]; want[1] != 0 && want != [2]int64{q.GetUsed(), q.GetLimit()} {
			t.Errorf("%v, want %v", q, want)
		}
	}
}

// TestUrgentByRole: class restore, before which all others wait, is for roles, whatever makes the task.
func TestUrgentByRole(t *testing.T) {
	d := rationed(t, config.Quota{})
	d.add(root, "vision", "project:vision", 1)
	for _, row := range []struct {
		who  string
		ctx  context.Context
		kind error
	}{{"alice", alice, mover.ErrPermission}, {"carol, who has a role", as("carol", 1003), nil}, {"root", root, nil}} {
		r := copying(len(row.who), 0)
		r.Spec.Class = pb.TaskClass_TASK_CLASS_RESTORE
		_, err := d.SubmitTask(row.ctx, r)
		wants(t, row.who+" copies", err, row.kind)
		_, err = d.datasets.Stage(row.ctx, &pb.StageRequest{Source: fmt.Sprintf("/data/%d", len(row.who)), Tier: "scratch", Node: "n1", Class: pb.TaskClass_TASK_CLASS_RESTORE})
		wants(t, row.who+" stages", err, row.kind)
	}
}
