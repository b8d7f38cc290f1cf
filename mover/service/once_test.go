package service

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/access"
	"datamove.dev/mover/ledger"
	"datamove.dev/mover/manifest"
	"datamove.dev/mover/task"
)

// leased are the holders that leases name.
func (d *desk) leased() map[string]string {
	d.t.Helper()
	l, err := d.ListLeases(root, &pb.ListLeasesRequest{PageSize: 1000})
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
func TestAskedTwice(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 2)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)

	lease := &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Holder: "h", Ttl: durationpb.New(time.Hour), IdempotencyKey: "lease"}
	first, err := d.AcquireLease(root, lease)
	wants(t, "a lease", err, nil)
	d.pass(time.Minute)
	again, err := d.AcquireLease(root, lease)
	if err != nil || again.GetId() != first.GetId() || !again.GetExpireTime().AsTime().Equal(first.GetExpireTime().AsTime()) {
		t.Errorf("the same lease is %v, %v; was %v", again, err, first)
	}
	other := &pb.AcquireLeaseRequest{Dataset: "b", Tier: "project", Holder: "h", Ttl: durationpb.New(time.Hour), IdempotencyKey: "lease"}
	wants(t, "the key for another lease", second(d.AcquireLease(root, other)), mover.ErrConflict)
	wants(t, "the key for a staging", second(d.Stage(root, &pb.StageRequest{Source: "dataset:b", Tier: "project", LeaseTtl: durationpb.New(time.Hour), IdempotencyKey: "lease"})), mover.ErrConflict)
	wants(t, "drop", second(d.DropLease(root, &pb.DropLeaseRequest{Id: first.GetId()})), nil)

	release := &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", IdempotencyKey: "release"}
	gone, err := d.Release(root, release)
	wants(t, "a release", err, nil)
	if now, err := d.Release(root, release); err != nil || now.GetId() != gone.GetId() {
		t.Errorf("on its way it is %v, %v", now, err)
	}
	wants(t, "another one", second(d.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", IdempotencyKey: "other"})), mover.ErrConflict)
	d.done(gone, nil, 0)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	if now, err := d.Release(root, release); err != nil || now.GetId() != gone.GetId() || now.GetState() != task.Done {
		t.Errorf("done, and the replica there again, it is %v, %v", now, err)
	}

	purge := &pb.PurgeRequest{Location: "scratch:job", Node: "n1", IdempotencyKey: "purge"}
	cleared, err := d.Purge(root, purge)
	d.done(cleared, err, 0)
	if now, err := d.Purge(root, purge); err != nil || now.GetId() != cleared.GetId() {
		t.Errorf("a second purge, of what is new there: %v, %v", now, err)
	}

	pin := &pb.PinRequest{Source: "dataset:a", Until: timestamppb.New(d.wall.Add(time.Hour)), IdempotencyKey: "pin"}
	wants(t, "pin", second(d.Pin(root, pin)), nil)
	wants(t, "unpin", second(d.Unpin(root, &pb.UnpinRequest{Source: "dataset:a"})), nil)
	wants(t, "pin, late", second(d.Pin(root, pin)), nil)
	if pins, err := d.ListPins(root, &pb.ListPinsRequest{}); err != nil || len(pins.GetPins()) > 0 {
		t.Errorf("a pin that was taken away is there again: %v, %v", pins, err)
	}

	d.close()
	d.open()
	d.pass(keysLast + time.Minute)
	wants(t, "the keys are forgotten", d.endKeys(context.Background()), nil)
	_ = d.ledger.View(func(tx *ledger.Tx) error {
		keys, err := all(ledger.KeysByTask.All(tx, ledger.Range{Prefix: []string{noTask}}))
		if err != nil || len(keys) > 0 {
			t.Errorf("keys: %v, %v", keys, err)
		}
		return nil
	})
}

// TestKeyOfAnotherLease: a key that was used for a lease gives nobody a hold on something
// else, or takes it away.
func TestKeyOfAnotherLease(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 2)
	hour := durationpb.New(time.Hour)
	_, err := d.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "project", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"})
	wants(t, "what is there", err, nil)
	for what, r := range map[string]*pb.StageRequest{
		"there too":     {Source: "dataset:b", Tier: "project", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"},
		"to be brought": {Source: "dataset:b", Tier: "scratch", Node: "n1", LeaseTtl: hour, Holder: "h", IdempotencyKey: "k"},
	} {
		wants(t, what, second(d.Stage(root, r)), mover.ErrConflict)
	}
	if got := d.leased(); len(got) != 1 || got["h"] != "a" {
		t.Errorf("leases: %v", got)
	}
}

// TestCancelledByOne: a staging that several wait for goes on until the last of them
// does not want it any more.
func TestCancelledByOne(t *testing.T) {
	d := newDesk(t, site(), access.Input{UID: 990, Projects: map[string]access.Project{"p": {Roots: []string{"project:", "scratch:"}, Members: []string{"alice", "bob", "carol"}}}})
	alice, bob, carol := as("alice", 1001), as("bob", 1002), as("carol", 1003)
	d.add(alice, "a", "project:a", 1)
	stage := func(who context.Context, node, holder, key string) string {
		t.Helper()
		a, err := d.Stage(who, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour), Holder: holder, IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
		return a.GetTask().GetId()
	}
	cancel := func(who context.Context, id, key string) pb.TaskState {
		t.Helper()
		now, err := d.CancelTask(who, &pb.CancelTaskRequest{Id: id, IdempotencyKey: key})
		if err != nil {
			t.Fatal(err)
		}
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
	if err := d.finish(id, 1, nil); err != nil {
		t.Fatal(err)
	}
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

// TestSurvivorIsLookedAt: a replica goes only after its copy was looked at, and a copy
// that is none is not relied on again.
func TestSurvivorIsLookedAt(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	at := func(tier string) *pb.Replica { return d.row("a", digestOf(1), tier, "") }
	r, err := d.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "project"})
	wants(t, "release", err, nil)
	if r.GetSpec().GetSource() != at("archive").GetLocation() {
		t.Errorf("who removes it looks at %q", r.GetSpec().GetSource())
	}
	wants(t, "the copy goes meanwhile", second(d.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "archive"})), mover.ErrHeld)
	wants(t, "or is written over", second(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "s3://archive/.datasets"}})), mover.ErrHeld)
	d.give()
	d.refuse(r.GetId(), fmt.Errorf("%w: it is not there", mover.ErrCorrupt))
	if got := at("project"); got.GetState() != whole || got.GetTask() != "" || got.GetLevel() != pb.Level_LEVEL_READ {
		t.Errorf("what was to be removed is %v", got)
	}
	if got := at("archive"); got.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("what is not there counts as %v", got)
	}
	wants(t, "again", second(d.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "project"})), mover.ErrRefused)
	if got := d.leased(); len(got) > 0 {
		t.Errorf("leases: %v", got)
	}

	d.add(root, "b", "/data/b", 2) // outside of the tiers, on n1
	d.staged(root, &pb.StageRequest{Source: "dataset:b", Tier: "project"}, 2)
	d.staged(root, &pb.StageRequest{Source: "dataset:b", Tier: "scratch", Node: "n2"}, 2)
	r, err = d.Release(root, &pb.ReleaseRequest{Source: "dataset:b", Tier: "scratch", Node: "n2"})
	if err != nil || !strings.HasPrefix(r.GetSpec().GetSource(), "project:") || r.GetSpec().GetNode() != "n2" {
		t.Errorf("what another node has is looked at: %v, %v", r, err)
	}
	d.done(r, nil, 0)
	r, err = d.Release(root, &pb.ReleaseRequest{Source: "dataset:b", Tier: "project"})
	if err != nil || r.GetSpec().GetSource() != "/data/b" || r.GetSpec().GetNode() != "n1" {
		t.Errorf("who has the copy is asked: %v, %v", r, err)
	}
	d.give()
	d.lose(context.Background(), d.leads[r.GetId()], "test") // it may have begun
	delete(d.taken, r.GetId())
	d.give()
	d.refuse(r.GetId(), fmt.Errorf("%w: it is not there", mover.ErrCorrupt))
	if got := d.row("b", digestOf(2), "project", ""); got.GetState() != removing {
		t.Errorf("what may be half removed is %v", got)
	}
}

// TestStagedAfterRestart: what a lead has proved before a restart of the service counts.
func TestStagedAfterRestart(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	for content, want := range map[uint64]pb.TaskState{1: task.Done, 2: task.Failed} {
		a, err := d.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: fmt.Sprint("n", content)})
		if err != nil {
			t.Fatal(err)
		}
		d.give()
		id := a.GetTask().GetId()
		epoch, who := d.taken[id].GetEpoch(), d.led[id]
		err = d.prove(id, content)
		wants(t, "proof", err, nil)
		d.close()
		d.open()
		_, err = d.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: epoch, Report: &pb.Report{}, Digest: digestOf(content)})
		delete(d.taken, id)
		wants(t, "finish", err, nil)
		if got := d.state(id).GetState(); got != want {
			t.Errorf("with %d it is %v", content, got)
		}
	}
	if got := d.row("a", digestOf(1), "scratch", "n1"); got.GetState() != whole || got.GetBytes() != 100 {
		t.Errorf("it is %v", got)
	}
	if got := d.row("a", digestOf(1), "project", ""); got.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("the source is %v", got)
	}
}

// TestAddedWhileWritten: what is written to while it is read is nothing to rely on.
func TestAddedWhileWritten(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	write := func(target string) *pb.Task {
		w, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/from", Target: target, Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		d.give()
		return w
	}
	w := write("/lustre/project/a/below")
	a, err := d.AddDataset(root, &pb.AddDatasetRequest{Name: "a", Location: "project:a"})
	if end := d.done(a, err, 1); end.GetState() != task.Failed || end.GetErrorKind() != mover.KindName(mover.ErrConflict) {
		t.Errorf("it is %v", end)
	}
	wants(t, "the copy", d.finish(w.GetId(), 0, nil), nil)
	d.add(root, "a", "project:a", 1)

	w = write("project:b")
	_ = d.ledger.Update(context.Background(), ledger.Soon, func(tx *ledger.Tx) error { // as if it had been added in between
		return d.putReplica(tx, &pb.Replica{Dataset: "b", Digest: digestOf(2), Tier: "project", Location: "project:b", State: whole, Level: pb.Level_LEVEL_READ})
	})
	wants(t, "the copy", d.finish(w.GetId(), 0, errors.New("half of it")), nil)
	if got := d.row("b", digestOf(2), "project", ""); got.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("what was written to is %v", got)
	}
}

// TestForgottenCache: of a dataset that is forgotten, what this service has staged to
// scratch does not stay for ever.
func TestForgottenCache(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	stage := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	forgotten := &pb.Replica{Tier: "scratch", Node: "n1", Location: "scratch:.datasets/a/" + digestOf(1)}
	there := func() (r *pb.Replica) {
		_ = d.ledger.View(func(tx *ledger.Tx) (err error) { r, err = getReplica(tx, forgotten); return err })
		return r
	}
	for range 2 {
		d.add(root, "a", "project:a", 1)
		d.staged(root, stage, 1) // the second time over what is there
		if there() != nil {
			t.Error("it is there twice")
		}
		wants(t, "forget", second(d.RemoveDataset(root, &pb.RemoveDatasetRequest{Name: "a"})), nil)
		if there().GetBytes() != 100 {
			t.Errorf("what is left is %v", there())
		}
	}
	row := tierRow("scratch", d.conf.Tiers["scratch"])
	row.Node, row.TotalBytes = "n1", 100
	wants(t, "room", d.evict(context.Background(), row, marksOf(d.conf.Tiers["scratch"].Cache)), nil)
	id := there().GetTask()
	d.give()
	wants(t, "evicted", d.finish(id, 0, nil), nil)
	if there() != nil || d.state(id).GetState() != task.Done {
		t.Errorf("it is %v", there())
	}
}

// TestDoubtedIsMended: a replica that could not be read is read last, and one that is
// doubted is staged again instead of being believed.
func TestDoubtedIsMended(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	stage := func(tier, node string) *pb.Task {
		a, err := d.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: tier, Node: node})
		if err != nil {
			t.Fatal(err)
		}
		d.give()
		return a.GetTask()
	}
	first := stage("scratch", "n1")
	if got := first.GetSpec().GetSource(); got != "project:a" {
		t.Errorf("it is read from %s", got)
	}
	wants(t, "its end", d.finish(first.GetId(), 1, &mover.Error{Op: "open", Place: "project:a", Err: mover.ErrNotExist}), nil)
	d.give()
	d.done(d.state(d.row("a", digestOf(1), "scratch", "n1").GetTask()), nil, 0) // what was begun goes
	next := stage("scratch", "n1")
	if got := next.GetSpec().GetSource(); !strings.HasPrefix(got, "archive:") {
		t.Errorf("what can not be read is read again: %s", got)
	}
	wants(t, "its end", d.finish(next.GetId(), 2, nil), nil) // another content
	archive := func() *pb.Replica { return d.row("a", digestOf(1), "archive", "") }
	if archive().GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Fatalf("it is believed: %v", archive())
	}
	d.add(root, "a", "project:a", 1)
	mend := stage("archive", "")
	if mend.GetSpec().GetSource() != "project:a" {
		t.Fatalf("it is mended by %v", mend)
	}
	if r := archive(); r.GetState() != whole || r.GetTask() != mend.GetId() {
		t.Errorf("meanwhile it is %v", r)
	}
	wants(t, "its end", d.finish(mend.GetId(), 1, nil), nil)
	if r := archive(); r.GetLevel() != pb.Level_LEVEL_READ || r.GetTask() != "" || r.GetState() != whole {
		t.Errorf("it is %v", r)
	}
}

// TestPurgeWithoutTheRight: who purges what he can not remove makes nobody forget it, and
// what may be half removed is no hit, holds nothing and is read by nobody.
func TestPurgeWithoutTheRight(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	stage := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	d.staged(root, stage, 1)
	x, err := d.Purge(root, &pb.PurgeRequest{Location: "scratch:.datasets", Node: "n1"})
	wants(t, "purge", err, nil)
	d.give()
	wants(t, "its end", d.finish(x.GetId(), 0, mover.ErrPermission), nil)
	at := func() *pb.Replica { return d.row("a", digestOf(1), "scratch", "n1") }
	if r := at(); r.GetState() != whole || !doubtful(r) || r.GetTask() != "" {
		t.Fatalf("it is %v", r)
	}
	wants(t, "a lease", second(d.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Ttl: durationpb.New(time.Hour)})), mover.ErrConflict)
	read, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "/out", Node: "n1"}})
	if err != nil || read.GetSpec().GetSource() != "project:a" {
		t.Errorf("it is read from %v, %v", read, err)
	}
	d.staged(root, stage, 1)
	if r := at(); r.GetState() != whole || doubtful(r) {
		t.Errorf("staged again it is %v", r)
	}
}

// TestRebooted: what was on scratch of a node that has begun anew is looked at before it is
// told as a hit.
func TestRebooted(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	stage := func(node string) *pb.StageResponse {
		a, err := d.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	for _, node := range []string{"n1", "n2"} {
		d.done(stage(node).GetTask(), nil, 1)
	}
	d.attend("n1") // the agent has begun anew, the node has not
	if a := stage("n1"); a.GetTask() != nil {
		t.Errorf("a hit is %v", a)
	}
	d.boots++
	d.attend("n1")
	if a := stage("n2"); a.GetTask() != nil {
		t.Errorf("on the other node a hit is %v", a)
	}
	if r := d.row("a", digestOf(1), "project", ""); r.GetLevel() != pb.Level_LEVEL_READ {
		t.Errorf("what all nodes share is %v", r)
	}
	d.done(stage("n1").GetTask(), nil, 1)
	if a := stage("n1"); a.GetTask() != nil || a.GetReplica().GetLevel() != pb.Level_LEVEL_WRITTEN {
		t.Errorf("looked at, it is %v", a)
	}
}

// TestNothingIsNoVersion: a source that is suddenly empty, as one that is not mounted, does
// not become the newest version.
func TestNothingIsNoVersion(t *testing.T) {
	d := newDesk(t, site(), access.Input{})
	d.add(root, "a", "project:a", 1)
	a, err := d.AddDataset(root, &pb.AddDatasetRequest{Name: "a", Location: "project:a"})
	if err != nil {
		t.Fatal(err)
	}
	d.give()
	id := a.GetId()
	var nothing bytes.Buffer
	w, err := manifest.NewWriter(&nothing, manifest.Header{})
	if err == nil {
		err = w.Write(&mover.Entry{Kind: mover.Dir, Known: mover.FactMode, Mode: 0o755}) // the root
	}
	if err == nil {
		_, err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	first := &agentv1.PutManifestRequest{Task: id, Epoch: d.taken[id].GetEpoch()}
	wants(t, "the manifest", d.PutManifest(&sending{ctx: asAgent(d.led[id]), first: first, rest: &nothing}), nil)
	_, err = d.Finish(asAgent(d.led[id]), &agentv1.FinishRequest{Task: id, Epoch: d.taken[id].GetEpoch(), Report: &pb.Report{}})
	wants(t, "the end", err, nil)
	if end := d.state(id); end.GetState() != task.Failed || end.GetExitCode() != 7 {
		t.Errorf("it is %v", end)
	}
	got, err := d.GetDataset(root, &pb.GetDatasetRequest{Name: "a"})
	if err != nil || len(got.GetVersions()) != 1 || got.GetVersions()[0].GetDigest() != digestOf(1) {
		t.Errorf("the dataset is %v, %v", got, err)
	}
	if r := d.row("a", digestOf(1), "project", ""); r.GetState() != whole {
		t.Errorf("where it was is %v", r)
	}
}
