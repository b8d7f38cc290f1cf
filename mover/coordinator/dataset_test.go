package coordinator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/test/must"
	"datamove.dev/tiering/dataset/datasetserver"
)

var root = as("root", 0)

func (d *desk) add(ctx context.Context, name, location string, content uint64) {
	d.t.Helper()
	t, err := d.datasets.AddDataset(ctx, &pb.AddDatasetRequest{Name: name, Location: location, Node: "n1"})
	d.done(t, err, content)
}

func (d *desk) staged(ctx context.Context, r *pb.StageRequest, content uint64) *pb.Task {
	d.t.Helper()
	a, err := d.datasets.Stage(ctx, r)
	return d.done(a.GetTask(), err, content)
}

func wants(t *testing.T, what string, err, kind error) {
	t.Helper()
	if kind == nil && err != nil || kind != nil && !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
	}
}

// TestHostileDatasets: names, digests, nodes and numbers that somebody made up.
//
//safety:6 forged names, digests, nodes and tokens of datasets
func TestHostileDatasets(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "vision", "project:vision", 1)
	long := strings.Repeat("x", 129)
	for _, name := range []string{"", ".", "-x", "..", "a/b", "a\x00b", "a b", long, "vision@" + digestOf(1)} {
		_, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: name, Location: "project:vision"})
		wants(t, fmt.Sprintf("add %q", name), err, mover.ErrUsage)
		_, err = d.datasets.GetDataset(root, &pb.GetDatasetRequest{Name: name})
		wants(t, fmt.Sprintf("get %q", name), err, mover.ErrUsage)
		_, err = d.datasets.RemoveDataset(root, &pb.RemoveDatasetRequest{Name: name})
		wants(t, fmt.Sprintf("remove %q", name), err, mover.ErrUsage)
		_, err = d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: name, Tier: "project", Ttl: durationpb.New(time.Hour)})
		wants(t, fmt.Sprintf("lease %q", name), err, mover.ErrUsage)
	}
	for _, at := range []string{"", "x", "/a/../b", "dataset:vision", "project:../x", "gone:x", "project:.datasets/vision/x", "/lustre/project/.datasets/y", "s3://"} {
		if _, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: "v", Location: at}); err == nil {
			t.Errorf("%q is added", at)
		}
	}
	for _, digest := range []string{"x", "../../ledger/x", digestOf(2), strings.Repeat("\x00", 64), strings.ToUpper(digestOf(1))} {
		err := d.datasets.GetManifest(&pb.GetManifestRequest{Name: "vision", Digest: digest}, &reading{ctx: root})
		wants(t, fmt.Sprintf("manifest %q", digest), err, mover.ErrNotExist)
		_, err = d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "vision", Digest: digest, Tier: "project", Ttl: durationpb.New(time.Hour)})
		wants(t, fmt.Sprintf("lease of %q", digest), err, mover.ErrNotExist)
		_, err = d.datasets.RemoveDataset(root, &pb.RemoveDatasetRequest{Name: "vision", Digest: digest})
		wants(t, fmt.Sprintf("remove %q", digest), err, mover.ErrNotExist)
	}
	for what, r := range map[string]*pb.StageRequest{
		"no source": {}, "no name": {Source: "dataset:"}, "a bad digest": {Source: "dataset:vision@1"}, "a long TTL": {Source: "dataset:vision", Tier: "scratch", LeaseTtl: durationpb.New(8 * 24 * time.Hour)},
		"a negative TTL": {Source: "dataset:vision", Tier: "scratch", LeaseTtl: durationpb.New(-time.Hour)}, "our holder": {Source: "dataset:vision", Tier: "scratch", Holder: "task:x"},
		"an odd holder": {Source: "dataset:vision", Tier: "scratch", Holder: "a\nb"}, "a long holder": {Source: "dataset:vision", Tier: "scratch", Holder: strings.Repeat("x", 257)},
		"a pin in the past":  {Source: "dataset:vision", Tier: "scratch", PinUntil: timestamppb.New(d.wall.Add(-time.Hour))},
		"a pin that is none": {Source: "dataset:vision", Tier: "scratch", PinUntil: &timestamppb.Timestamp{Nanos: -1}}, "a pin of no dataset": {Source: "project:x", Tier: "scratch", PinUntil: timestamppb.New(d.wall.Add(time.Hour))},
		"a whole tier": {Source: "project:", Tier: "scratch"}, "ours": {Source: "project:.datasets/vision", Tier: "scratch"}, "relative": {Source: "x", Tier: "scratch"}, "there already": {Source: "scratch:x", Tier: "scratch"},
	} {
		_, err := d.datasets.Stage(root, r)
		wants(t, what, err, mover.ErrUsage)
	}
	_, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "gone"})
	wants(t, "no tier", err, mover.ErrUsage)
	for what, r := range map[string]*pb.StageRequest{"no dataset": {Source: "dataset:gone", Tier: "scratch"}, "no version": {Source: "dataset:vision@" + digestOf(2), Tier: "scratch"}} {
		_, err := d.datasets.Stage(root, r)
		wants(t, what, err, mover.ErrNotExist)
	}
	_, err = d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n9"})
	wants(t, "no node", err, mover.ErrUnreachable)
	for _, token := range []string{"x", "!!", strings.Repeat("A", 1<<20)} {
		_, err := d.datasets.ListDatasets(root, &pb.ListDatasetsRequest{PageToken: token})
		wants(t, "datasets", err, mover.ErrUsage)
		_, err = d.datasets.ListReplicas(root, &pb.ListReplicasRequest{PageToken: token})
		wants(t, "replicas", err, mover.ErrUsage)
		_, err = d.datasets.ListLeases(root, &pb.ListLeasesRequest{PageToken: token, Dataset: "vision"})
		wants(t, "leases", err, mover.ErrUsage)
		_, err = d.datasets.ListPins(root, &pb.ListPinsRequest{PageToken: token})
		wants(t, "pins", err, mover.ErrUsage)
	}
	_, err = d.usage.GetUsage(root, &pb.GetUsageRequest{Since: timestamppb.New(time.Unix(0, 0))})
	wants(t, "usage since ever", err, mover.ErrUsage)
	if tasks := d.taken; len(tasks) != 0 {
		t.Errorf("tasks: %v", tasks)
	}
}

// reading is the stream on which a manifest is read.
type reading struct {
	sending
	ctx  context.Context
	text []byte
	most int
}

func (r *reading) Context() context.Context { return r.ctx }
func (r *reading) Send(c *pb.ManifestChunk) error {
	r.text, r.most = append(r.text, c.GetData()...), max(r.most, len(c.GetData()))
	return nil
}

// TestManifests: a manifest is there as long as a version needs it, and whoever has lost
// a lead makes none.
//
//safety:4/datasets manifests that are cut off, noise, of a lost lead, or read by a service that has begun anew
func TestManifests(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	shelf := func() (names []string) {
		entries := must.Get(os.ReadDir(d.manifest("")))(t)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	d.add(root, "a", "project:a", 1)
	d.add(root, "b", "project:b", 1)
	d.add(root, "a", "project:a", 2)
	if got := shelf(); len(got) != 2 {
		t.Errorf("manifests: %v", got)
	}
	var r reading
	r.ctx = root
	if err := d.datasets.GetManifest(&pb.GetManifestRequest{Name: "a", Digest: digestOf(1)}, &r); err != nil || string(r.text) != string(manifestOf(1)) {
		t.Errorf("the manifest is %q, %v", r.text, err)
	}
	for _, c := range []struct {
		r    *pb.RemoveDatasetRequest
		left int
	}{{&pb.RemoveDatasetRequest{Name: "a", Digest: digestOf(1)}, 2}, {&pb.RemoveDatasetRequest{Name: "b"}, 1}, {&pb.RemoveDatasetRequest{Name: "a"}, 0}} {
		if _, err := d.datasets.RemoveDataset(root, c.r); err != nil {
			t.Fatal(err)
		}
		if got := shelf(); len(got) != c.left {
			t.Errorf("after %v: %v", c.r, got)
		}
	}
	_, err := d.datasets.GetDataset(root, &pb.GetDatasetRequest{Name: "a"})
	wants(t, "a dataset that was removed", err, mover.ErrNotExist)

	lost, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: "c", Location: "project:c"})
	must.Do(t, err)
	d.give()
	lead := d.taken[lost.GetId()]
	first := &agentv1.PutManifestRequest{Task: lost.GetId(), Epoch: lead.GetEpoch()}
	for what, s := range map[string]*sending{
		"another epoch":   {ctx: asAgent(d.led[lost.GetId()]), first: &agentv1.PutManifestRequest{Task: lost.GetId(), Epoch: lead.GetEpoch() + 1}},
		"another agent":   {ctx: asAgent("n9"), first: first},
		"another task":    {ctx: asAgent("n1"), first: &agentv1.PutManifestRequest{Task: task.NewID(d.wall), Epoch: 1}},
		"lost on the way": {ctx: asAgent(d.led[lost.GetId()]), first: first, then: func() { d.scheduler.lose(context.Background(), d.scheduler.leads[lost.GetId()], "test") }},
	} {
		s.rest = strings.NewReader(string(manifestOf(3)))
		if what == "lost on the way" {
			continue
		}
		wants(t, what, d.datasets.PutManifest(s), mover.ErrHeld)
	}
	late := &sending{ctx: asAgent(d.led[lost.GetId()]), first: first, rest: strings.NewReader(string(manifestOf(3))), then: func() { d.scheduler.lose(context.Background(), d.scheduler.leads[lost.GetId()], "test") }}
	wants(t, "lost on the way", d.datasets.PutManifest(late), mover.ErrHeld)
	_, err = d.scheduler.Finish(asAgent(d.led[lost.GetId()]), &agentv1.FinishRequest{Task: lost.GetId(), Epoch: lead.GetEpoch(), Digest: digestOf(3)})
	wants(t, "the end of who has lost it", err, mover.ErrHeld)
	_, err = d.datasets.GetDataset(root, &pb.GetDatasetRequest{Name: "c"})
	wants(t, "a dataset of a lost lead", err, mover.ErrNotExist)
	if err := d.datasets.SweepManifests(time.Now().Add(time.Hour)); err != nil || len(shelf()) > 0 {
		t.Errorf("left: %v, %v", shelf(), err)
	}
	d.give()
	lead = d.taken[lost.GetId()]
	first = &agentv1.PutManifestRequest{Task: lost.GetId(), Epoch: lead.GetEpoch()}
	for what, text := range map[string]string{"cut off": string(manifestOf(3)[:40]), "none": "", "noise": "\x28\xb5\x2f\xfdxxxx", "another format": `{"format":"x"}` + "\n"} {
		wants(t, what, d.datasets.PutManifest(&sending{ctx: asAgent(d.led[lost.GetId()]), first: first, rest: strings.NewReader(text)}), mover.ErrCorrupt)
	}
	if got := shelf(); len(got) != 0 {
		t.Errorf("of what was refused is left: %v", got)
	}
	if _, err := d.scheduler.Finish(asAgent(d.led[lost.GetId()]), &agentv1.FinishRequest{Task: lost.GetId(), Epoch: lead.GetEpoch()}); err != nil {
		t.Fatal(err)
	}
	if end := d.state(lost.GetId()); end.GetState() != task.Failed {
		t.Errorf("without a manifest it is %v", end)
	}
}

// TestManifestAfterRestart: the agent knows the digest that the service has forgotten.
//
//safety:4/datasets with TestManifests
func TestManifestAfterRestart(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	a, err := d.datasets.AddDataset(root, &pb.AddDatasetRequest{Name: "a", Location: "project:a"})
	must.Do(t, err)
	d.give()
	id := a.GetId()
	lead, who := d.taken[id], d.led[id]
	must.Do(t, d.datasets.PutManifest(&sending{ctx: asAgent(who), first: &agentv1.PutManifestRequest{Task: id, Epoch: lead.GetEpoch()}, rest: strings.NewReader(string(manifestOf(7)))}))
	d.close()
	d.open()
	if _, err := d.scheduler.Finish(asAgent(who), &agentv1.FinishRequest{Task: id, Epoch: lead.GetEpoch(), Digest: digestOf(7), Report: &pb.Report{}}); err != nil {
		t.Fatal(err)
	}
	got, err := d.datasets.GetDataset(root, &pb.GetDatasetRequest{Name: "a"})
	if err != nil || got.GetVersions()[0].GetDigest() != digestOf(7) || got.GetVersions()[0].GetBytes() != 100 {
		t.Errorf("the dataset is %v, %v", got, err)
	}
}

// TestDatasetAccess: what belongs to others, and where a project has nothing to do.
func TestDatasetAccess(t *testing.T) {
	alice, bob, carol := as("alice", 1001), as("bob", 1002), as("carol", 1003)
	d := newDesk(t, site(), authz.Input{UID: 990, Projects: map[string]authz.Project{
		"vision": {Roots: []string{"project:vision", "scratch:", "archive:"}, Members: []string{"alice", "bob"}},
		"audio":  {Roots: []string{"project:audio", "scratch:"}, Members: []string{"carol"}},
	}})
	d.add(alice, "images", "project:vision/images", 1)
	stage := &pb.StageRequest{Source: "dataset:images", Tier: "scratch", Node: "n2", LeaseTtl: durationpb.New(time.Hour)}
	_, err := d.datasets.Stage(carol, stage)
	wants(t, "what another project reads", err, mover.ErrPermission)
	_, err = d.datasets.AddDataset(carol, &pb.AddDatasetRequest{Name: "x", Location: "project:vision/images"})
	wants(t, "add what another project reads", err, mover.ErrPermission)
	_, err = d.datasets.AddDataset(carol, &pb.AddDatasetRequest{Name: "images", Location: "project:audio"})
	wants(t, "a name of others", err, mover.ErrPermission)
	d.staged(bob, stage, 1)
	_, err = d.datasets.Stage(carol, stage)
	wants(t, "a hit in the cache", err, mover.ErrPermission)
	_, err = d.datasets.AcquireLease(carol, &pb.AcquireLeaseRequest{Dataset: "images", Tier: "scratch", Node: "n2", Ttl: durationpb.New(time.Hour)})
	wants(t, "a lease in the cache", err, mover.ErrPermission)
	wants(t, "the manifest", d.datasets.GetManifest(&pb.GetManifestRequest{Name: "images"}, &reading{ctx: carol}), mover.ErrPermission)
	wants(t, "the manifest of a member", d.datasets.GetManifest(&pb.GetManifestRequest{Name: "images"}, &reading{ctx: bob}), nil)
	for what, err := range map[string]error{
		"release": second(d.datasets.Release(carol, &pb.ReleaseRequest{Source: "dataset:images", Tier: "scratch", Node: "n2"})),
		"remove":  second(d.datasets.RemoveDataset(carol, &pb.RemoveDatasetRequest{Name: "images"})),
		"pin":     second(d.datasets.Pin(carol, &pb.PinRequest{Source: "dataset:images", Until: timestamppb.New(d.wall.Add(time.Hour))})),
		"purge":   second(d.datasets.Purge(carol, &pb.PurgeRequest{Location: "project:vision"})),
		"copy":    second(d.SubmitTask(carol, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:images", Target: "project:audio/x"}})),
	} {
		wants(t, what, err, mover.ErrPermission)
	}
	l, err := d.datasets.ListLeases(carol, &pb.ListLeasesRequest{Dataset: "images"})
	if err != nil || len(l.GetLeases()) != 1 || l.GetLeases()[0].GetHolder() != "bob" {
		t.Fatalf("leases: %v, %v", l, err)
	}
	id := l.GetLeases()[0].GetId()
	wants(t, "renew", second(d.datasets.RenewLease(carol, &pb.RenewLeaseRequest{Id: id, Ttl: durationpb.New(time.Hour)})), mover.ErrPermission)
	wants(t, "drop", second(d.datasets.DropLease(carol, &pb.DropLeaseRequest{Id: id})), mover.ErrPermission)
	wants(t, "drop of a member", second(d.datasets.DropLease(alice, &pb.DropLeaseRequest{Id: id})), mover.ErrPermission)
	wants(t, "drop of root", second(d.datasets.DropLease(root, &pb.DropLeaseRequest{Id: id})), nil)
	wants(t, "pin of a member", second(d.datasets.Pin(bob, &pb.PinRequest{Source: "dataset:images", Until: timestamppb.New(d.wall.Add(time.Hour))})), nil)
	wants(t, "a shorter pin of somebody else", second(d.datasets.Pin(alice, &pb.PinRequest{Source: "dataset:images", Until: timestamppb.New(d.wall.Add(time.Minute))})), mover.ErrPermission)
	wants(t, "unpin of a stranger", second(d.datasets.Unpin(carol, &pb.UnpinRequest{Source: "dataset:images"})), mover.ErrPermission)
	wants(t, "unpin of a member", second(d.datasets.Unpin(alice, &pb.UnpinRequest{Source: "dataset:images"})), nil)
	for who, want := range map[string]int{"alice": 2, "carol": 0} { // alice has described, bob has staged
		u, err := d.usage.GetUsage(as(who, map[string]uint32{"alice": 1001, "carol": 1003}[who]), &pb.GetUsageRequest{})
		if err != nil || len(u.GetUsage()) != want {
			t.Errorf("usage for %s: %v, %v", who, u, err)
		}
	}
}

// TestCrowdOfLeases: one account has so many leases on a replica, and waits so often for a staging, and no more; other accounts, and what is theirs, go on.
//
//safety:7 one account that takes all leases there can be on a replica, or waits for it as often
func TestCrowdOfLeases(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	alice, bob := as("alice", 1001), as("bob", 1002)
	d.add(root, "vision", "project:vision", 1)
	replica := d.row("vision", digestOf(1), "project", "")
	staged, err := d.datasets.Stage(alice, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2", LeaseTtl: durationpb.New(time.Hour)})
	wants(t, "stage", err, nil)
	for i := range datasetserver.LeasesMost / 1000 {
		wants(t, "leases and wishes", d.ledger.Update(context.Background(), state.Soon, func(tx *state.Tx) (err error) {
			for j := range 1000 {
				one := newLease(fmt.Sprintf("lease-%d-%d", i, j), replica, "bob", authz.AccountOf(authz.From(bob)), d.clock.Now(), time.Hour)
				err = errors.Join(err, state.Leases.Put(tx, one), state.StageWaiters.Put(tx, &ledgerv1.Wish{Task: staged.GetTask().GetId(), Lease: one}))
			}
			return err
		}), nil)
	}
	lease := &pb.AcquireLeaseRequest{Dataset: "vision", Tier: "project", Ttl: durationpb.New(time.Hour)}
	stage := &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2", Holder: "job", LeaseTtl: durationpb.New(time.Hour)}
	for who, c := range map[string]struct {
		ctx  context.Context
		kind error
	}{"bob": {bob, mover.ErrRefused}, "alice": {alice, nil}, "root": {root, nil}} {
		wants(t, who+" takes a lease", second(d.datasets.AcquireLease(c.ctx, lease)), c.kind)
		wants(t, who+" waits", second(d.datasets.Stage(c.ctx, stage)), c.kind)
		wants(t, who+" reads it in a task", second(d.SubmitTask(c.ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:vision", Target: "scratch:" + who, Node: "n1"}})), c.kind)
	}
}

func second[T any](_ T, err error) error { return err }

// TestFollow: who waits for a staging of somebody else may look at it, and change nothing.
func TestFollow(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	alice, bob := as("alice", 1001), as("bob", 1002)
	d.add(alice, "a", "project:a", 1)
	r := &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1", IdempotencyKey: "k", LeaseTtl: durationpb.New(time.Hour)}
	first, err := d.datasets.Stage(alice, r)
	must.Do(t, err)
	joined, err := d.datasets.Stage(bob, r)
	if err != nil || joined.GetTask().GetId() != first.GetTask().GetId() {
		t.Fatalf("bob gets %v, %v", joined, err)
	}
	if again, err := d.datasets.Stage(bob, r); err != nil || again.GetTask().GetId() != first.GetTask().GetId() {
		t.Errorf("again: %v, %v", again, err)
	}
	id := first.GetTask().GetId()
	wants(t, "bob looks", second(d.GetTask(bob, &pb.GetTaskRequest{Id: id})), nil)
	wants(t, "bob pauses", second(d.PauseTask(bob, &pb.PauseTaskRequest{Id: id})), mover.ErrNotExist)
	d.done(first.GetTask(), nil, 1)
	l, err := d.datasets.ListLeases(root, &pb.ListLeasesRequest{})
	if err != nil || len(l.GetLeases()) != 2 {
		t.Errorf("leases: %v, %v", l, err)
	}
	if again, err := d.datasets.Stage(bob, r); err != nil || again.GetTask() != nil || again.GetLease().GetHolder() != "bob" || again.GetReplica().GetLeases() != 2 {
		t.Errorf("after it: %v, %v", again, err)
	}
	r.Tier = "project"
	wants(t, "the key for something else", second(d.datasets.Stage(bob, r)), mover.ErrConflict)
}

// TestStoreWithoutModes: a dataset that others have put into a bucket has no modes, and its replica on a file system has.
func TestStoreWithoutModes(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "archive:a", bare|1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	if got := d.row("a", digestOf(bare|1), "scratch", "n1"); got.GetState() != whole {
		t.Fatalf("it is %v", got)
	}
	r := must.Get(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}))(t)
	d.give()
	wants(t, "another content is kept", d.prove(r.GetId(), 2), mover.ErrChanged)
	wants(t, "the same is released", d.prove(r.GetId(), 1), nil)
}

// TestReleaseAsksAgain: what was pinned before the removal has begun stays.
//
//safety:5/datasets with test/cluster TestDatasetReleased
func TestReleaseAsksAgain(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	r := must.Get(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}))(t)
	if got := d.row("a", digestOf(1), "scratch", "n1"); got.GetState() != removing || got.GetTask() != r.GetId() {
		t.Errorf("it is %v", got)
	}
	wants(t, "a lease on what goes", second(d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "scratch", Node: "n1", Ttl: durationpb.New(time.Hour)})), mover.ErrConflict)
	wants(t, "staging what goes", second(d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"})), mover.ErrConflict)
	wants(t, "pin", second(d.datasets.Pin(root, &pb.PinRequest{Source: "dataset:a", Until: timestamppb.New(d.wall.Add(time.Hour))})), nil)
	d.give()
	if end := d.state(r.GetId()); end.GetState() != task.Failed || !strings.Contains(end.GetError(), "pinned") {
		t.Errorf("the release is %v", end)
	}
	if got := d.row("a", digestOf(1), "scratch", "n1"); got.GetState() != whole || got.GetTask() != "" {
		t.Errorf("it is %v", got)
	}
}

// TestReleaseFails: what was half removed is removed again, and never whole again.
//
//safety:5/datasets a coordinator or an agent that dies between the record and the deletion, or the other way round: what may be half removed is never whole again
func TestReleaseFails(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
	r := must.Get(d.datasets.Release(root, &pb.ReleaseRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}))(t)
	d.give()
	must.Do(t, d.finish(r.GetId(), 0, mover.ErrPermission))
	for range 2 {
		if got := d.row("a", digestOf(1), "scratch", "n1"); got.GetState() != removing {
			t.Fatalf("it is %v", got)
		}
		must.Do(t, d.datasets.RetryRemovals(context.Background(), d.wall.Add(time.Hour)))
		next := d.row("a", digestOf(1), "scratch", "n1").GetTask()
		if next == r.GetId() {
			t.Fatal("nobody tries again")
		}
		wants(t, "cancel", second(d.CancelTask(root, &pb.CancelTaskRequest{Id: next})), nil)
	}
	must.Do(t, d.datasets.RetryRemovals(context.Background(), d.wall.Add(time.Hour)))
	d.done(d.state(d.row("a", digestOf(1), "scratch", "n1").GetTask()), nil, 0)
	if got := d.row("a", digestOf(1), "scratch", "n1"); got != nil {
		t.Errorf("it is %v", got)
	}
}

// TestOverwritten: a replica that a task writes over is not relied on any more.
//
//safety:5/datasets tasks that write over replicas; what is left of a dataset that was forgotten
func TestOverwritten(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "archive"}, 1)
	submit := func(kind pb.TaskKind, target string) (*pb.Task, error) {
		return d.SubmitTask(root, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: kind, Source: map[bool]string{true: "/from"}[kind != pb.TaskKind_TASK_KIND_REMOVE], Target: target}})
	}
	wants(t, "ours", second(submit(pb.TaskKind_TASK_KIND_SYNC, "archive:.datasets/a")), mover.ErrConflict)
	wants(t, "ours, by its bucket", second(submit(pb.TaskKind_TASK_KIND_REMOVE, "s3://archive/.datasets")), mover.ErrConflict)
	l := must.Get(d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "project", Ttl: durationpb.New(time.Hour)}))(t)
	wants(t, "leased", second(submit(pb.TaskKind_TASK_KIND_COPY, "/lustre/project/a/below")), mover.ErrHeld)
	for who, c := range map[string]struct {
		ctx   context.Context
		names bool
	}{"its owner": {root, true}, "another account, from far above": {as("bob", 1002), false}} {
		_, err := d.SubmitTask(c.ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "/from", Target: "/lustre"}})
		wants(t, who, err, mover.ErrHeld)
		if said := fmt.Sprint(err); strings.Contains(said, "dataset a") != c.names || strings.Contains(said, "project:a") != c.names {
			t.Errorf("%s hears: %s", who, said)
		}
	}
	wants(t, "beside it", second(submit(pb.TaskKind_TASK_KIND_COPY, "/lustre/project/ab")), nil)
	wants(t, "drop", second(d.datasets.DropLease(root, &pb.DropLeaseRequest{Id: l.GetId()})), nil)
	wants(t, "above it", second(submit(pb.TaskKind_TASK_KIND_COPY, "/lustre/project")), nil)
}

// TestClock: leases end by the time that passes.
//
//safety:5/datasets leases and pins go by the time that passes, whatever the clock of the machine does
func TestClock(t *testing.T) {
	d := newDesk(t, site(), authz.Input{})
	d.add(root, "a", "project:a", 1)
	acquire := func(ttl time.Duration) string {
		l := must.Get(d.datasets.AcquireLease(root, &pb.AcquireLeaseRequest{Dataset: "a", Tier: "project", Ttl: durationpb.New(ttl)}))(t)
		return l.GetId()
	}
	lasts := func(what string, id string, want bool) {
		t.Helper()
		must.Do(t, d.datasets.EndLeases(context.Background()))
		_, err := d.datasets.RenewLease(root, &pb.RenewLeaseRequest{Id: id, Ttl: durationpb.New(time.Second)})
		if (err == nil) != want {
			t.Errorf("%s: %v", what, err)
		}
	}
	hour, minute := acquire(time.Hour), acquire(time.Minute)
	d.pass(59 * time.Second)
	lasts("nearly a minute", minute, true)
	d.pass(2 * time.Second)
	lasts("a minute", minute, false)
	d.wall = d.wall.Add(365 * 24 * time.Hour)
	lasts("the clock is set a year ahead", hour, true)
	d.wall = d.wall.Add(-2 * 365 * 24 * time.Hour)
	lasts("and two years back", hour, true)
	lasts("what has ended stays so", minute, false)
	d.pass(time.Hour)
	lasts("an hour has passed all the same", hour, false)

	d.wall = d.wall.Add(365*24*time.Hour - time.Hour) // it is right again
	hour = acquire(time.Hour)
	d.pass(50 * time.Minute)
	d.close()
	d.pass(time.Hour) // nobody could renew anything
	d.open()
	lasts("the service was away", hour, true)
	d.pass(datasetserver.GraceMost + time.Second)
	lasts("but not for ever", hour, false)

	long := acquire(24 * time.Hour)
	d.close()
	d.wall = d.wall.Add(-48 * time.Hour)
	d.open()
	lasts("the clock was set back meanwhile", long, true)
	d.pass(24 * time.Hour)
	lasts("time goes on all the same", long, false)
	if err := d.ledger.View(func(tx *state.Tx) error {
		last, err := state.LastTime(tx)
		if !last.After(d.wall) {
			t.Errorf("the time of the ledger is %v, the clock shows %v", last, d.wall)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
}
