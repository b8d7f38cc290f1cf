package coordinator

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
)

// TestSurvivorIsLookedAt: a replica goes only after its copy was looked at, and a copy
// that is none is not relied on again.
//
//safety:5/datasets with test/cluster TestDatasetSurvivor
func TestSurvivorIsLookedAt(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	at := func(tier string) *pb.Replica { return d.row("a", digestOf(1), tier, "") }
	r, err := d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "project"})
	wants(t, "release", err, nil)
	if r.GetSpec().GetSource() != at("archive").GetLocation() {
		t.Errorf("who removes it looks at %q", r.GetSpec().GetSource())
	}
	wants(t, "the copy goes meanwhile", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "archive"})), mover.ErrHeld)
	wants(t, "or is written over", second(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "s3://archive/.datasets"}})), mover.ErrHeld)
	d.give()
	d.refuse(r.GetId(), fmt.Errorf("%w: it is not there", mover.ErrCorrupt))
	if got := at("project"); got.GetState() != whole || got.GetTask() != "" || got.GetLevel() != pb.Level_LEVEL_READ {
		t.Errorf("what was to be removed is %v", got)
	}
	if got := at("archive"); got.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("what is not there counts as %v", got)
	}
	wants(t, "again", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "project"})), mover.ErrRefused)
	if got := d.leased(); len(got) > 0 {
		t.Errorf("leases: %v", got)
	}

	d.add(root, "b", "/data/b", 2) // outside of the tiers, on n1
	d.staged(root, &pb.StageRequest{Source: "dataset:b", Tier: "project"}, 2)
	d.staged(root, &pb.StageRequest{Source: "dataset:b", Tier: "scratch", Node: "n2"}, 2)
	r, err = d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:b", Tier: "scratch", Node: "n2"})
	if err != nil || !strings.HasPrefix(r.GetSpec().GetSource(), "project:") || r.GetSpec().GetNode() != "n2" {
		t.Errorf("what another node has is looked at: %v, %v", r, err)
	}
	d.done(r, nil, 0)
	r, err = d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:b", Tier: "project"})
	if err != nil || r.GetSpec().GetSource() != "/data/b" || r.GetSpec().GetNode() != "n1" {
		t.Errorf("who has the copy is asked: %v, %v", r, err)
	}
	d.give()
	d.scheduler.lose(context.Background(), d.scheduler.leads[r.GetId()], "test") // it may have begun
	delete(d.taken, r.GetId())
	d.give()
	d.refuse(r.GetId(), fmt.Errorf("%w: it is not there", mover.ErrCorrupt))
	if got := d.row("b", digestOf(2), "project", ""); got.GetState() != removing {
		t.Errorf("what may be half removed is %v", got)
	}
}

// TestCopyDoubts: a copy that finds its source to be something else has that not relied on any
// more, and the audit log says so. What is wrong with its target is no matter of the source.
//
//safety:4/datasets the next copy reads another replica; nothing is released for the sake of the doubted one; what is wrong with a copy's target is not blamed on its source
func TestCopyDoubts(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	var audited []auditlog.Record
	d.o.Audit = func(_ context.Context, r auditlog.Record) error { audited = append(audited, r); return nil }
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	level := func(tier string) pb.Level { return d.row("a", digestOf(1), tier, "").GetLevel() }
	copies := func(kind pb.TaskKind, unlike bool) string {
		t.Helper()
		x, err := d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: kind, Source: "dataset:a", Target: "project:b"}})
		wants(t, "copy", err, nil)
		d.give()
		l, who := d.taken[x.GetId()], d.led[x.GetId()]
		delete(d.taken, x.GetId())
		_, err = d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: x.GetId(), Epoch: l.GetEpoch(), Report: &pb.Report{}, Error: "it is so", ErrorKind: mover.KindName(mover.ErrCorrupt), Unlike: unlike})
		wants(t, "finish", err, nil)
		return x.GetSpec().GetSource()
	}
	if from := copies(pb.TaskKind_TASK_KIND_COPY, false); from != "project:a" || level("project") != pb.Level_LEVEL_READ || len(audited) > 0 {
		t.Errorf("its target is wrong, and %s is at %v; audited: %v", from, level("project"), audited)
	}
	if from := copies(pb.TaskKind_TASK_KIND_SYNC, true); from != "project:a" || level("project") != pb.Level_LEVEL_UNSPECIFIED || level("archive") != pb.Level_LEVEL_READ {
		t.Errorf("its source is wrong, and %s is at %v", from, level("project"))
	}
	if len(audited) != 1 || audited[0].Method != "replica.doubt" || audited[0].Object != tag("a", digestOf(1)) || audited[0].Locations[0] != "project:a" {
		t.Errorf("audited: %v", audited)
	}
	if from := copies(pb.TaskKind_TASK_KIND_COPY, true); !strings.HasPrefix(from, "archive:") || level("archive") != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("the next one reads %s", from)
	}
	wants(t, "nothing is left", second(d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:a", Target: "project:b"}})), mover.ErrNotExist)
	wants(t, "and nothing goes", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "archive"})), mover.ErrRefused)
	if got := d.leased(); len(got) > 0 {
		t.Errorf("leases: %v", got)
	}
}

// TestStagedAfterRestart: what a lead has proved before a restart of the service counts.
//
//safety:4/datasets with TestDoubtedIsMended
func TestStagedAfterRestart(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	for content, want := range map[uint64]pb.TaskState{1: task.Done, 2: task.Failed} {
		a, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: fmt.Sprint("n", content)})
		must.Do(t, err)
		d.give()
		id := a.GetTask().GetId()
		epoch, who := d.taken[id].GetEpoch(), d.led[id]
		err = d.prove(id, content)
		wants(t, "proof", err, nil)
		d.close()
		d.open()
		_, err = d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: epoch, Report: &pb.Report{}, Digest: digestOf(content)})
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

// TestAddedAfterRestart: the manifest of a new version, sent before this service began anew, is read again: one that was damaged
// meanwhile makes no version.
func TestAddedAfterRestart(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	for name, c := range map[string]struct {
		kept uint64 // what the file of manifest 1 holds by then
		want pb.TaskState
	}{"sound": {1, task.Done}, "damaged": {2, task.Failed}} {
		a, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: name, Location: "project:" + name, Node: "n1"})
		must.Do(t, err)
		d.give()
		id := a.GetId()
		epoch, who := d.taken[id].GetEpoch(), d.led[id]
		wants(t, "proof", d.prove(id, 1), nil)
		file := d.manifest(digestOf(1))
		d.close()
		must.Do(t, os.WriteFile(file, manifestOf(c.kept), 0o600))
		d.open()
		_, err = d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: epoch, Report: &pb.Report{}, Digest: digestOf(1)})
		delete(d.taken, id)
		wants(t, "finish", err, nil)
		if got := d.state(id); got.GetState() != c.want {
			t.Errorf("with one that is %s it is %v (%s)", name, got.GetState(), got.GetError())
		}
		_ = os.Remove(file)
	}
}

// TestDoubtedIsMended: a replica that could not be read is read last, and one that is
// doubted is staged again instead of being believed.
//
//safety:4/datasets what could not be read is doubted and read last, and staged again instead of being told as a hit; scratch of a node that has begun anew, too; and when the service began anew in between
func TestDoubtedIsMended(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	stage := func(tier, node string) *pb.Task {
		a := must.Get(d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: tier, Node: node}))(t)
		d.give()
		return a.GetTask()
	}
	first := stage("scratch", "n1")
	if got := first.GetSpec().GetSource(); got != "project:a" {
		t.Errorf("it is read from %s", got)
	}
	wants(t, "its end", d.finish(first.GetId(), 1, &mover.Error{Op: "open", Location: "project:a", Err: mover.ErrNotExist}), nil)
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
//
//safety:5/datasets with TestReleaseFails
func TestPurgeWithoutTheRight(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	stage := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}
	d.staged(root, stage, 1)
	x, err := d.datasets.Purge(root, &pb.PurgeRequest{Location: "scratch:.datasets", Node: "n1"})
	wants(t, "purge", err, nil)
	d.give()
	wants(t, "its end", d.finish(x.GetId(), 0, mover.ErrPermission), nil)
	at := func() *pb.Replica { return d.row("a", digestOf(1), "scratch", "n1") }
	if r := at(); r.GetState() != whole || !doubtful(r) || r.GetTask() != "" {
		t.Fatalf("it is %v", r)
	}
	wants(t, "a lease", second(d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Ttl: durationpb.New(time.Hour)})), mover.ErrConflict)
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
//
//safety:4/datasets with TestDoubtedIsMended
func TestRebooted(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	stage := func(node string) *pb.StageResponse {
		a := must.Get(d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: node}))(t)
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

// TestTierRenamed: a lease holds what it held when its tier has another name, too.
//
//safety:5/datasets with test/cluster TestDatasetReleased
func TestTierRenamed(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", LeaseTtl: durationpb.New(time.Hour)}, 1)
	conf := *d.conf
	conf.Tiers = map[string]config.Tier{"fast": conf.Tiers["scratch"], "project": conf.Tiers["project"], "archive": conf.Tiers["archive"]}
	d.conf = &conf
	var err error
	if d.rules, err = authz.New(authz.Input{Tiers: map[string]string{"fast": "/nvme", "project": "/lustre/project", "archive": ""}}); err != nil {
		t.Fatal(err)
	}
	d.attend("n1")
	purges := func(at string, kind error) {
		t.Helper()
		_, err := d.datasets.Purge(root, &pb.PurgeRequest{Location: at, Node: "n1"})
		wants(t, "purge "+at, err, kind)
	}
	for _, at := range []string{"fast:", "fast:.datasets", "fast:.datasets/a/" + digestOf(1)} {
		purges(at, mover.ErrHeld)
	}
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "fast", Node: "n1"}, 1)
	wants(t, "release", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "fast", Node: "n1"})), mover.ErrHeld)
	wants(t, "release by its old name", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"})), mover.ErrUsage)
	purges("fast:job", nil)
	d.pass(2 * time.Hour)
	wants(t, "release", second(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "fast", Node: "n1"})), nil)
}
