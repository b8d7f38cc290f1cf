package coordinator

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// leased are the holders that leases name.
func (d *desk) leased() map[string]string {
	d.t.Helper()
	l, err := d.datasets.ListLeases(root, &pb.ListLeasesRequest{PageSize: 1000})
	if err != nil {
		d.t.Fatalf("%v", err)
	}
	found := map[string]string{}
	for _, x := range l.GetLeases() {
		found[x.GetHolder()] = x.GetDataset()
	}
	return found
}

// TestAskedTwice: whoever lost an answer and asks again has what was answered.
//
//safety:5/datasets answers that are lost and asked for again; one of several callers that wait for a staging cancels it
func TestAskedTwice(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 2)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)

	lease := &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Holder: "h", Ttl: durationpb.New(time.Hour), IdempotencyKey: "lease"}
	first, err := d.datasets.AcquireLease(root, lease)
	wants(t, "a lease", err, nil)
	d.pass(time.Minute)
	again, err := d.datasets.AcquireLease(root, lease)
	if err != nil || again.GetId() != first.GetId() || !again.GetExpireTime().AsTime().Equal(first.GetExpireTime().AsTime()) {
		t.Errorf("the same lease is %v, %v; was %v", again, err, first)
	}
	other := &pb.AcquireLeaseRequest{Dataset: "b", Tier: "project", Holder: "h", Ttl: durationpb.New(time.Hour), IdempotencyKey: "lease"}
	wants(t, "the key for another lease", second(d.datasets.AcquireLease(root, other)), mover.ErrConflict)
	wants(t, "the key for a staging", second(d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:b", Tier: "project", LeaseTtl: durationpb.New(time.Hour), IdempotencyKey: "lease"})), mover.ErrConflict)
	wants(t, "drop", second(d.datasets.DropLease(root, &pb.DropLeaseRequest{Id: first.GetId()})), nil)

	release := &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", IdempotencyKey: "release"}
	gone, err := d.datasets.Release(root, release)
	wants(t, "a release", err, nil)
	if now, err := d.datasets.Release(root, release); err != nil || now.GetId() != gone.GetId() {
		t.Errorf("on its way it is %v, %v", now, err)
	}
	wants(t, "another one", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", IdempotencyKey: "other"})), mover.ErrConflict)
	d.done(gone, nil, 0)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	if now, err := d.datasets.Release(root, release); err != nil || now.GetId() != gone.GetId() || now.GetState() != task.Done {
		t.Errorf("done, and the replica there again, it is %v, %v", now, err)
	}

	purge := &pb.PurgeRequest{Location: "scratch:job", Node: "n1", IdempotencyKey: "purge"}
	cleared, err := d.datasets.Purge(root, purge)
	d.done(cleared, err, 0)
	if now, err := d.datasets.Purge(root, purge); err != nil || now.GetId() != cleared.GetId() {
		t.Errorf("a second purge, of what is new there: %v, %v", now, err)
	}

	pin := &pb.PinRequest{Source: "dataset:a", Until: timestamppb.New(d.wall.Add(time.Hour)), IdempotencyKey: "pin"}
	wants(t, "pin", second(d.datasets.Pin(root, pin)), nil)
	wants(t, "unpin", second(d.datasets.Unpin(root, &pb.UnpinRequest{Source: "dataset:a"})), nil)
	wants(t, "pin, late", second(d.datasets.Pin(root, pin)), nil)
	if pins, err := d.datasets.ListPins(root, &pb.ListPinsRequest{}); err != nil || len(pins.GetPins()) > 0 {
		t.Errorf("a pin that was taken away is there again: %v, %v", pins, err)
	}

	d.close()
	d.open()
	d.pass(idempotency.KeysLast + time.Minute)
	wants(t, "the keys are forgotten", idempotency.Forget(context.Background(), d.ledger, d.now), nil)
	_ = d.ledger.View(func(tx *state.Tx) error {
		keys, err := state.Collect(state.KeysByTask.All(tx, state.Range{Prefix: []string{idempotency.NoTask}}))
		if err != nil || len(keys) > 0 {
			t.Errorf("keys: %v, %v", keys, err)
		}
		return nil
	})
}

// TestKeyOfAnotherLease: a key that was used for a lease gives nobody a hold on something
// else, or takes it away.
//
//safety:5/datasets with TestAskedTwice
func TestKeyOfAnotherLease(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 2)
	hour := durationpb.New(time.Hour)
	_, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "project", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"})
	wants(t, "what is there", err, nil)
	for what, r := range map[string]*pb.StageRequest{
		"there too":     {Source: "dataset:b", Tier: "project", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"},
		"to be brought": {Source: "dataset:b", Tier: "scratch", Node: "n1", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"},
	} {
		wants(t, what, second(d.datasets.Stage(root, r)), mover.ErrConflict)
	}
	if got := d.leased(); len(got) != 1 || got["h"] != "a" {
		t.Errorf("leases: %v", got)
	}
}

// TestCancelledByOne: a staging that several wait for goes on until the last of them
// does not want it any more.
//
//safety:5/datasets with TestAskedTwice
func TestCancelledByOne(t *testing.T) {
	d := newDesk(t, site(), authz.Input{UID: 990, Projects: map[string]authz.Project{"p": {Roots: []string{"project:", "scratch:"}, Members: []string{"alice", "bob", "carol"}}}})
	alice, bob, carol := as("alice", 1001), as("bob", 1002), as("carol", 1003)
	d.add(alice, "a", "project:a", 1)
	stage := func(who context.Context, node, holder, key string) string {
		t.Helper()
		a, err := d.datasets.Stage(who, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour), Holder: holder, IdempotencyKey: key})
		must.Do(t, err)
		return a.GetTask().GetId()
	}
	cancel := func(who context.Context, id, key string) pb.TaskState {
		t.Helper()
		now := must.Get(d.CancelTask(who, &pb.CancelTaskRequest{Id: id, IdempotencyKey: key}))(t)
		return now.GetState()
	}
	id := stage(alice, "n1", "job1", "1")
	stage(alice, "n1", "job2", "2")
	stage(bob, "n1", "job3", "3")
	wants(t, "a stranger", second(d.CancelTask(carol, &pb.CancelTaskRequest{Id: id})), mover.ErrNotExist)
	wants(t, "with a key that is not his", second(d.CancelTask(bob, &pb.CancelTaskRequest{Id: id, IdempotencyKey: "1"})), mover.ErrNotExist)
	for range 2 { // the second time because an answer was lost
		if got := cancel(alice, id, "1"); got != task.Queued {
			t.Errorf("after one of three it is %v", got)
		}
	}
	d.give()
	for range 2 {
		if got := cancel(alice, id, ""); got != task.Running {
			t.Errorf("after all of hers it is %v", got)
		}
	}
	must.Do(t, d.finish(id, 1, nil))
	if got := d.leased(); len(got) != 1 || got["job3"] != "a" {
		t.Errorf("leases: %v", got)
	}

	id = stage(alice, "n2", "job4", "4")
	stage(bob, "n2", "job5", "5")
	cancel(alice, id, "4")
	if got := cancel(bob, id, "5"); got != task.Cancelled {
		t.Errorf("nobody wants it, and it is %v", got)
	}
	id = stage(alice, "n2", "job6", "6")
	stage(bob, "n2", "job7", "7")
	if got := cancel(root, id, ""); got != task.Cancelled {
		t.Errorf("an operator wants it to end, and it is %v", got)
	}
	if got := d.row("a", digestOf(1), "scratch", "n2"); got != nil {
		t.Errorf("there is %v", got)
	}
}

// TestGivenUpForOneHolder: two jobs of one person wait for a staging, which goes on until both want it no more.
func TestGivenUpForOneHolder(t *testing.T) {
	d := newDesk(t, site(), authz.Input{UID: 990, Projects: map[string]authz.Project{"p": {Roots: []string{"project:", "scratch:"}, Members: []string{"alice"}}}})
	alice := as("alice", 1001)
	d.add(alice, "a", "project:a", 1)
	id := ""
	for _, holder := range []string{"job6", "job7"} {
		a, err := d.datasets.Stage(alice, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour), Holder: holder})
		must.Do(t, err)
		id = a.GetTask().GetId()
	}
	drop := func(who context.Context, holder string) pb.TaskState {
		t.Helper()
		now := must.Get(d.CancelTask(who, &pb.CancelTaskRequest{Id: id, Holder: holder}))(t)
		return now.GetState()
	}
	for range 2 {
		if drop(alice, "job6") == task.Cancelled || drop(alice, "of nobody") == task.Cancelled {
			t.Error("one holder's end is that of another one's staging")
		}
	}
	if got := drop(alice, "job7"); got != task.Cancelled {
		t.Errorf("after the last holder it is %v", got)
	}
}

// TestNoneStopsAnother: a staging that another account waits for goes on, in whichever order its owner stops it and the other asks. What an operator
// wants stays, and the reason says by whom.
//
//safety:5/datasets with TestAskedTwice
func TestNoneStopsAnother(t *testing.T) {
	const (
		pause, cancel, stop, end = "alice pauses", "alice cancels", "root pauses", "root cancels"
		asks, begins, lets, anew = "bob asks", "it begins", "its lead lets go", "the coordinator begins anew"
	)
	steps := map[string]func(d *desk, id string) error{
		pause: func(d *desk, id string) error {
			return second(d.PauseTask(as("alice", 1001), &pb.PauseTaskRequest{Id: id}))
		},
		cancel: func(d *desk, id string) error {
			return second(d.CancelTask(as("alice", 1001), &pb.CancelTaskRequest{Id: id}))
		},
		stop: func(d *desk, id string) error { return second(d.PauseTask(root, &pb.PauseTaskRequest{Id: id})) },
		end:  func(d *desk, id string) error { return second(d.CancelTask(root, &pb.CancelTaskRequest{Id: id})) },
		asks: func(d *desk, _ string) error {
			return second(d.datasets.Stage(as("bob", 1002), &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour), Holder: "bob"}))
		},
		begins: func(d *desk, id string) error { d.give(); return missing(d.taken[id] == nil) },
		lets: func(d *desk, id string) error {
			l := d.taken[id]
			delete(d.taken, id)
			return second(d.scheduler.Finish(asAgent(d.led[id]), &agentv1.FinishRequest{Task: id, Epoch: l.GetEpoch(), PutBack: true}))
		},
		anew: func(d *desk, _ string) error { d.close(); d.open(); return nil },
	}
	for _, row := range []struct {
		does    []string
		refused string // the step that meets a conflict
		state   pb.TaskState
		why     string
	}{
		{does: []string{pause, asks}},
		{does: []string{pause, anew, asks}},
		{does: []string{pause, asks, anew}},
		{does: []string{asks, pause}, refused: pause},
		{does: []string{asks, begins, pause, lets}, refused: pause},
		{does: []string{begins, pause, asks, lets}},
		{does: []string{begins, pause, asks, anew, lets}},
		{does: []string{begins, pause, anew, asks, lets}},
		{does: []string{begins, pause, lets, asks}},
		{does: []string{begins, pause, asks, cancel, lets}},
		{does: []string{pause, asks, cancel}},
		{does: []string{asks, cancel, pause}, refused: pause},
		{does: []string{begins, cancel, asks, lets}},
		{does: []string{begins, cancel, asks, anew, lets}},
		{does: []string{pause}, state: task.Paused, why: "paused by its owner"},
		{does: []string{begins, pause, anew, lets}, state: task.Paused, why: "paused by its owner"},
		{does: []string{stop, asks}, state: task.Paused, why: "paused by root"},
		{does: []string{asks, stop, anew}, state: task.Paused, why: "paused by root"},
		{does: []string{pause, stop, asks}, state: task.Paused, why: "paused by root"},
		{does: []string{begins, stop, pause, asks, lets}, state: task.Paused, why: "paused by root"},
		{does: []string{begins, stop, anew, asks, lets}, state: task.Paused, why: "paused by root"},
		{does: []string{asks, end}, state: task.Cancelled, why: "cancelled by root"},
		{does: []string{begins, asks, end, cancel, anew, lets}, state: task.Cancelled, why: "cancelled by root"},
		{does: []string{begins, cancel, lets}, state: task.Cancelled, why: "cancelled by its owner"},
	} {
		t.Run(strings.Join(row.does, ", "), func(t *testing.T) {
			d := newDesk(t, site(), authz.Input{UID: 990, Projects: map[string]authz.Project{"p": {Roots: []string{"project:", "scratch:"}, Members: []string{"alice", "bob"}}}})
			d.add(as("alice", 1001), "a", "project:a", 1)
			id := must.Get(d.datasets.Stage(as("alice", 1001), &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}))(t).GetTask().GetId()
			for _, does := range row.does {
				var want error
				if does == row.refused {
					want = mover.ErrConflict
				}
				wants(t, does, steps[does](d, id), want)
			}
			if row.state != 0 {
				if now := d.state(id); now.GetState() != row.state || now.GetWhy() != row.why {
					t.Errorf("it is %v: %q", now.GetState(), now.GetWhy())
				}
				return
			}
			d.give()
			must.Do(t, d.finish(id, 1, nil))
			if got := d.leased(); got["bob"] != "a" {
				t.Errorf("leases: %v; it is %v", got, d.state(id))
			}
		})
	}
}

// missing is an error when something is not there.
func missing(is bool) error {
	if is {
		return mover.ErrNotExist
	}
	return nil
}
