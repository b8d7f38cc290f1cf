package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
)

// confOf is the configuration of an agent: each node has a scratch of its own.
func (c *cluster) confOf(name string) func() *config.Config {
	own := filepath.Join(c.dir, "nodes", name, "scratch")
	if err := os.MkdirAll(own, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return func() *config.Config {
		conf := *c.conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		scratch := conf.Tiers["scratch"]
		scratch.Path = own
		conf.Tiers["scratch"] = scratch
		return &conf
	}
}

// add makes a version of a dataset, and returns its digest.
func (c *cluster) add(name, location string) string {
	c.t.Helper()
	t, err := c.AddDataset(context.Background(), &pb.AddDatasetRequest{Name: name, Location: location})
	if err != nil {
		c.t.Fatal(err)
	}
	c.done(t.GetId())
	d, err := c.GetDataset(context.Background(), &pb.GetDatasetRequest{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	return d.GetVersions()[0].GetDigest()
}

// stage asks for a dataset on a node's scratch.
func (c *cluster) stage(source, node, holder string) *pb.StageResponse {
	c.t.Helper()
	a, err := c.Stage(context.Background(), &pb.StageRequest{Source: source, Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour), Holder: holder})
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// replicas are those of a dataset by tier and node.
func (c *cluster) replicas(dataset string) map[string]*pb.Replica {
	c.t.Helper()
	found := map[string]*pb.Replica{}
	for r, err := range c.Replicas(context.Background(), &pb.ListReplicasRequest{Dataset: dataset}) {
		if err != nil {
			c.t.Fatal(err)
		}
		found[r.GetTier()+"@"+r.GetNode()] = r
	}
	return found
}

// leases are the holders of a dataset, with how many leases each has.
func (c *cluster) leases(dataset string) map[string]int {
	c.t.Helper()
	found := map[string]int{}
	for l, err := range c.Leases(context.Background(), &pb.ListLeasesRequest{Dataset: dataset}) {
		if err != nil {
			c.t.Fatal(err)
		}
		found[l.GetHolder()]++
	}
	return found
}

// scratch is where a replica lies on the scratch of a node.
func (c *cluster) scratch(node, dataset, digest string) string {
	return filepath.Join(c.dir, "nodes", node, "scratch", ".datasets", dataset, digest, "data")
}

// TestDatasetStaged adds a dataset, and stages it to the scratch of two nodes.
func TestDatasetStaged(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1", "n2")
	source := c.tree("shared/vision", 300, 1, 3<<20)
	digest := c.add("vision", "shared:vision")
	if again := c.add("vision", source); again != digest {
		t.Errorf("the same content again is %s, was %s", again, digest)
	}
	d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: "vision"})
	if err != nil || len(d.GetVersions()) != 1 || d.GetVersions()[0].GetEntries() != 324 || d.GetOwner().GetName() != "root" {
		t.Fatalf("the dataset is %v, %v", d, err)
	}
	if got := c.replicas("vision"); len(got) != 1 || got["shared@"].GetLocation() != "shared:vision" || got["shared@"].GetLevel() != pb.Level_LEVEL_READ {
		t.Fatalf("replicas: %v", got)
	}
	for _, node := range []string{"n1", "n2"} {
		a := c.stage("dataset:vision", node, "slurm:"+node)
		if a.GetLease() != nil || a.GetReplica().GetState() != pb.ReplicaState_REPLICA_STATE_STAGING {
			t.Errorf("before it is whole: %v", a)
		}
		done := c.done(a.GetTask().GetId())
		if done.GetDataset() != "vision@"+digest {
			t.Errorf("the task has staged %q", done.GetDataset())
		}
		c.same(source, c.scratch(node, "vision", digest))
	}
	got := c.replicas("vision")
	for _, node := range []string{"n1", "n2"} {
		r := got["scratch@"+node]
		if r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLevel() != pb.Level_LEVEL_WRITTEN || r.GetLeases() != 1 || r.GetTask() != "" || r.GetBytes() != d.GetVersions()[0].GetBytes() {
			t.Errorf("the replica on %s is %v", node, r)
		}
	}
	if held := c.leases("vision"); !maps.Equal(held, map[string]int{"slurm:n1": 1, "slurm:n2": 1}) {
		t.Errorf("leases: %v", held)
	}
	hit := c.stage("dataset:vision@"+digest, "n2", "slurm:3")
	if hit.GetTask() != nil || hit.GetLease().GetHolder() != "slurm:3" || hit.GetReplica().GetLeases() != 2 {
		t.Errorf("what is there is staged as %v", hit)
	}
}

// slowly holds back what is written to a tier.
func (c *cluster) slowly(tier string, bytesPerSecond config.Rate) {
	conf := *c.conf.Load()
	conf.Limits = []config.Limit{{Endpoint: tier, Direction: "write", Rate: bytesPerSecond}}
	c.conf.Store(&conf)
	time.Sleep(1500 * time.Millisecond) // until the agents have heard of it: once a second
}

// half waits until a task has moved something and not everything.
func (c *cluster) half(id string) {
	c.t.Helper()
	c.passed(id, 4<<20)
	if s := c.now(id).GetState(); s != task.Running {
		c.t.Fatalf("it is %s already", task.Word(s))
	}
}

// TestDatasetShared: a hundred who want the same at once have one task, and a lease each.
func TestDatasetShared(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.tree("shared/vision", 50, 1, 20<<20)
	digest := c.add("vision", "shared:vision")
	c.slowly("scratch", 10<<20)
	var wg sync.WaitGroup
	tasks := make([]string, 100)
	for i := range tasks {
		wg.Go(func() {
			a, err := c.Stage(context.Background(), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2", LeaseTtl: durationpb.New(time.Hour), Holder: fmt.Sprint("slurm:", i)})
			if err != nil {
				t.Error(err)
			}
			tasks[i] = a.GetTask().GetId()
		})
	}
	wg.Wait()
	holders := map[string]int{}
	for i, id := range tasks {
		if id == "" || id != tasks[0] {
			t.Fatalf("tasks: %v", tasks)
		}
		holders[fmt.Sprint("slurm:", i)] = 1
	}
	if held := c.leases("vision"); !maps.Equal(held, map[string]int{"task:" + tasks[0]: 1}) {
		t.Errorf("leases on the way: %v", held)
	}
	c.done(tasks[0])
	if held := c.leases("vision"); !maps.Equal(held, holders) {
		t.Errorf("leases: %v", held)
	}
	c.same(filepath.Join(c.dir, "shared/vision"), c.scratch("n2", "vision", digest))
}

// TestDatasetReleased: what is leased, pinned or alone stays.
func TestDatasetReleased(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1", "n2")
	c.tree("shared/vision", 100, 0, 0)
	digest := c.add("vision", "shared:vision")
	refused := func(what, tier, node string, kind error) {
		t.Helper()
		if x, err := c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: tier, Node: node}); !errors.Is(err, kind) {
			t.Errorf("%s: %v, %v", what, x, err)
		}
	}
	refused("the only copy", "shared", "", mover.ErrRefused)
	a := c.stage("dataset:vision", "n2", "slurm:1")
	refused("on its way", "scratch", "n2", mover.ErrConflict)
	c.done(a.GetTask().GetId())
	refused("the only copy but one on scratch", "shared", "", mover.ErrRefused)
	refused("leased", "scratch", "n2", mover.ErrHeld)
	refused("another node has none", "scratch", "n1", mover.ErrNotExist)
	for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{Dataset: "vision"}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Pin(ctx, &pb.PinRequest{Source: "dataset:vision", Until: timestamppb.New(time.Now().Add(time.Hour))}); err != nil {
		t.Fatal(err)
	}
	refused("pinned", "scratch", "n2", mover.ErrRefused)
	if _, err := c.RemoveDataset(ctx, &pb.RemoveDatasetRequest{Name: "vision"}); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("a pinned dataset is removed: %v", err)
	}
	if _, err := c.Unpin(ctx, &pb.UnpinRequest{Source: "dataset:vision"}); err != nil {
		t.Fatal(err)
	}
	x, err := c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"})
	if err != nil {
		t.Fatal(err)
	}
	refused("going", "scratch", "n2", mover.ErrConflict)
	c.done(x.GetId())
	refused("gone", "scratch", "n2", mover.ErrNotExist)
	if left := contents(t, filepath.Join(c.dir, "nodes/n2/scratch")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(c.scratch("n2", "vision", digest)); !os.IsNotExist(err) {
		t.Errorf("the directory is left: %v", err)
	}
	c.done(c.stage("dataset:vision", "n2", "slurm:2").GetTask().GetId()) // and it can come again
}

// TestDatasetPurged: scratch goes without another copy, and nothing else does.
func TestDatasetPurged(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1")
	c.tree("shared/vision", 100, 0, 0)
	c.tree("nodes/n1/scratch/job", 20, 0, 0)
	digest := c.add("vision", "shared:vision")
	a := c.stage("dataset:vision", "n1", "slurm:1")
	c.done(a.GetTask().GetId())
	for at, kind := range map[string]error{"shared:vision": mover.ErrRefused, "scratch:.datasets": mover.ErrHeld, "scratch:": mover.ErrHeld, "/tmp": mover.ErrUsage, "scratch:../x": mover.ErrUsage, "gone:x": mover.ErrUsage} {
		if x, err := c.Purge(ctx, &pb.PurgeRequest{Location: at}); !errors.Is(err, kind) {
			t.Errorf("purge of %s: %v, %v", at, x, err)
		}
	}
	x, err := c.Purge(ctx, &pb.PurgeRequest{Location: "scratch:job"})
	if err != nil {
		t.Fatal(err)
	}
	c.done(x.GetId())
	c.same(filepath.Join(c.dir, "shared/vision"), c.scratch("n1", "vision", digest))
	for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	if x, err = c.Purge(ctx, &pb.PurgeRequest{Location: "scratch:.datasets"}); err != nil {
		t.Fatal(err)
	}
	c.done(x.GetId())
	if got := c.replicas("vision"); len(got) != 1 || got["shared@"] == nil {
		t.Errorf("replicas: %v", got)
	}
	if left := contents(t, filepath.Join(c.dir, "nodes/n1/scratch")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestDatasetChanged: what is not what the manifest says, is no replica of it.
func TestDatasetChanged(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1")
	source := c.tree("shared/vision", 100, 0, 0)
	c.add("vision", "shared:vision")
	name := filepath.Join(source, "d00/f00000")
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte("something else"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(name, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	a := c.stage("dataset:vision", "n1", "slurm:1")
	end, err := c.Wait(ctx, a.GetTask().GetId(), nil)
	if err != nil || end.GetState() != task.Failed || end.GetExitCode() != 9 || !strings.Contains(end.GetError(), "has changed") {
		t.Errorf("it ended as %v, %v", end, err)
	}
	c.eventually("what was copied is gone", func() bool { return c.replicas("vision")["scratch@n1"] == nil })
	if left := contents(t, filepath.Join(c.dir, "nodes/n1/scratch")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if held := c.leases("vision"); len(held) > 0 {
		t.Errorf("leases: %v", held)
	}
	if r := c.replicas("vision")["shared@"]; r.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
		t.Errorf("the source is trusted still: %v", r)
	}
	digest := c.add("vision", "shared:vision")
	c.done(c.stage("dataset:vision", "n1", "slurm:2").GetTask().GetId())
	c.same(source, c.scratch("n1", "vision", digest))
	d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: "vision"})
	if err != nil || len(d.GetVersions()) != 2 || d.GetVersions()[0].GetDigest() != digest {
		t.Errorf("the dataset is %v, %v", d, err)
	}
}

// TestDatasetLeadDies kills who stages, in the middle.
func TestDatasetLeadDies(t *testing.T) {
	c := newCluster(t, "n1")
	source := c.tree("shared/vision", 2000, 2, 20<<20)
	digest := c.add("vision", "shared:vision")
	c.slowly("scratch", 20<<20)
	id := c.stage("dataset:vision", "n1", "slurm:1").GetTask().GetId()
	c.half(id)
	c.kill("n1", id, syscall.SIGKILL)
	if r := c.replicas("vision")["scratch@n1"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_STAGING {
		t.Errorf("it is %v", r)
	}
	if done := c.done(id); done.GetTries() != 2 {
		t.Errorf("it had %d leads", done.GetTries())
	}
	c.same(source, c.scratch("n1", "vision", digest))
	if held := c.leases("vision"); !maps.Equal(held, map[string]int{"slurm:1": 1}) {
		t.Errorf("leases: %v", held)
	}
}

// TestDatasetCancelled: of a staging that is cancelled nothing is left, wherever it was.
func TestDatasetCancelled(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t)
	c.join("n1")
	c.tree("shared/vision", 500, 1, 30<<20)
	c.add("vision", "shared:vision")
	c.slowly("scratch", 10<<20)
	running := c.stage("dataset:vision", "n1", "slurm:1").GetTask().GetId()
	c.half(running)
	if _, err := c.CancelTask(ctx, &pb.CancelTaskRequest{Id: running}); err != nil {
		t.Fatal(err)
	}
	c.eventually("what was copied is gone", func() bool { return c.replicas("vision")["scratch@n1"] == nil })
	if left := contents(t, filepath.Join(c.dir, "nodes/n1/scratch")); len(left) > 0 {
		t.Errorf("left: %d files", len(left))
	}
	if _, err := c.DrainAgent(ctx, &pb.DrainAgentRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrUnreachable) {
		t.Errorf("no agent could do it, and it is accepted: %v", err)
	}
	if held := c.leases("vision"); len(held) > 0 {
		t.Errorf("leases: %v", held)
	}
}

// TestDatasetRestart stops the coordinator in each state of a staging and of a release.
func TestDatasetRestart(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1")
	source := c.tree("shared/vision", 500, 2, 20<<20)
	digest := c.add("vision", "shared:vision")
	c.slowly("scratch", 20<<20)
	again := func() { c.halt(); c.start() }

	id := c.stage("dataset:vision", "n1", "slurm:1").GetTask().GetId() // queued, or just given out
	again()
	c.half(id)
	again()
	c.eventually("the manifest is on its way, or was", func() bool { t := c.now(id); return t.GetPhase() == "closing" || t.GetState() == task.Done })
	again()
	c.done(id)
	c.same(source, c.scratch("n1", "vision", digest))
	again()
	if r := c.replicas("vision")["scratch@n1"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLeases() != 1 {
		t.Errorf("it is %v", r)
	}
	for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{}) {
		if err != nil {
			c.t.Fatal(err)
		}
		if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()}); err != nil {
			t.Fatal(err)
		}
	}
	x, err := c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	again()
	c.done(x.GetId())
	if got := c.replicas("vision"); len(got) != 1 {
		t.Errorf("replicas: %v", got)
	}
}

// TestDatasetRead copies from a dataset; its replica is held as long as that takes.
func TestDatasetRead(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1")
	source := c.tree("shared/vision", 100, 1, 30<<20)
	digest := c.add("vision", "shared:vision")
	target := filepath.Join(c.dir, "target")
	id := c.slow("dataset:vision", target, 10<<20).GetId()
	c.half(id)
	if held := c.leases("vision"); !maps.Equal(held, map[string]int{"task:" + id: 1}) {
		t.Errorf("leases: %v", held)
	}
	if _, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "shared:vision/d00"}}); !errors.Is(err, mover.ErrHeld) {
		t.Errorf("what is read is removed: %v", err)
	}
	if done := c.done(id); done.GetDataset() != "vision@"+digest {
		t.Errorf("it has read %q", done.GetDataset())
	}
	c.same(source, target)
	if held := c.leases("vision"); len(held) > 0 {
		t.Errorf("leases: %v", held)
	}
	gone, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "shared:vision"}})
	if err != nil {
		t.Fatal(err)
	}
	c.done(gone.GetId())
	if got := c.replicas("vision"); len(got) > 0 {
		t.Errorf("replicas of what was removed: %v", got)
	}
	if _, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:vision", Target: target}}); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("nothing is read: %v", err)
	}
}

// TestDatasetOfNoName stages a location that is no dataset.
func TestDatasetOfNoName(t *testing.T) {
	c := newCluster(t, "n1")
	source := c.tree("shared/job/input", 100, 0, 0)
	for i, want := range []int{101, 101} {
		a := c.stage("shared:job/input", "n1", fmt.Sprint("slurm:", i))
		c.done(a.GetTask().GetId())
		c.same(source, filepath.Join(c.dir, "nodes/n1/scratch/job/input"))
		if len(contents(t, source)) != want-1+i {
			t.Error("the source")
		}
		if err := os.WriteFile(filepath.Join(source, "new"), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var found []*pb.Replica
	for r, err := range c.Replicas(context.Background(), &pb.ListReplicasRequest{Tier: "scratch"}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, r)
	}
	if len(found) != 1 || found[0].GetLocation() != "scratch:job/input" || found[0].GetLeases() != 2 {
		t.Errorf("replicas: %v", found)
	}
}
