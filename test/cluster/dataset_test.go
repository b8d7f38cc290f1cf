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
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestDatasetStaged adds a dataset, and stages it to the scratch of two nodes.
func TestDatasetStaged(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1", "n2")
		source := c.Tree("shared/vision", 60, 1, 3<<20)
		digest := c.Add("vision", "shared:vision")
		if again := c.Add("vision", source); again != digest {
			t.Errorf("the same content again is %s, was %s", again, digest)
		}
		d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: "vision"})
		if err != nil || len(d.GetVersions()) != 1 || d.GetVersions()[0].GetEntries() != 84 || d.GetOwner().GetName() != "root" {
			t.Fatalf("the dataset is %v, %v", d, err)
		}
		if got := c.ReplicasOf("vision"); len(got) != 1 || got["shared@"].GetLocation() != "shared:vision" || got["shared@"].GetLevel() != pb.Level_LEVEL_READ {
			t.Fatalf("replicas: %v", got)
		}
		for _, node := range []string{"n1", "n2"} {
			a := c.StageTo("dataset:vision", node, "slurm:"+node)
			if a.GetLease() != nil || a.GetReplica().GetState() != pb.ReplicaState_REPLICA_STATE_STAGING {
				t.Errorf("before it is whole: %v", a)
			}
			done := c.Done(a.GetTask().GetId())
			if done.GetDataset() != "vision@"+digest {
				t.Errorf("the task has staged %q", done.GetDataset())
			}
			c.Same(source, c.Scratch(node, "vision", digest))
		}
		got := c.ReplicasOf("vision")
		for _, node := range []string{"n1", "n2"} {
			r := got["scratch@"+node]
			if r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLevel() != pb.Level_LEVEL_WRITTEN || r.GetLeases() != 1 || r.GetTask() != "" || r.GetBytes() != d.GetVersions()[0].GetBytes() {
				t.Errorf("the replica on %s is %v", node, r)
			}
		}
		if held := c.LeasesOf("vision"); !maps.Equal(held, map[string]int{"slurm:n1": 1, "slurm:n2": 1}) {
			t.Errorf("leases: %v", held)
		}
		hit := c.StageTo("dataset:vision@"+digest, "n2", "slurm:3")
		if hit.GetTask() != nil || hit.GetLease().GetHolder() != "slurm:3" || hit.GetReplica().GetLeases() != 2 {
			t.Errorf("what is there is staged as %v", hit)
		}
	})
}

// TestDatasetShared: a hundred who want the same at once have one task, and a lease each.
func TestDatasetShared(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		c.Tree("shared/vision", 50, 1, 4<<20)
		digest := c.Add("vision", "shared:vision")
		c.Slowly("scratch", 2<<20)
		var wg sync.WaitGroup
		tasks := make([]string, 100)
		for i := range tasks {
			wg.Go(func() {
				a, err := c.Stage(context.Background(), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2", LeaseTtl: durationpb.New(time.Hour), Holder: fmt.Sprint("slurm:", i)})
				must.Tell(t, err)
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
		if held := c.LeasesOf("vision"); !maps.Equal(held, map[string]int{"task:" + tasks[0]: 1}) {
			t.Errorf("leases on the way: %v", held)
		}
		c.Done(tasks[0])
		if held := c.LeasesOf("vision"); !maps.Equal(held, holders) {
			t.Errorf("leases: %v", held)
		}
		c.Same(filepath.Join(c.Dir, "shared/vision"), c.Scratch("n2", "vision", digest))
	})
}

// TestDatasetReleased: what is leased, pinned or alone stays.
//
//safety:5/datasets leases, also of a tier that has another name now, pins, the only copy, tiers that are not ephemeral; what was pinned between the request and its beginning
func TestDatasetReleased(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1", "n2")
		c.Tree("shared/vision", 100, 0, 0)
		digest := c.Add("vision", "shared:vision")
		refused := func(what, tier, node string, kind error) {
			t.Helper()
			if x, err := c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: tier, Node: node}); !errors.Is(err, kind) {
				t.Errorf("%s: %v, %v", what, x, err)
			}
		}
		refused("the only copy", "shared", "", mover.ErrRefused)
		a := c.StageTo("dataset:vision", "n2", "slurm:1")
		refused("on its way", "scratch", "n2", mover.ErrConflict)
		c.Done(a.GetTask().GetId())
		refused("the only copy but one on scratch", "shared", "", mover.ErrRefused)
		refused("leased", "scratch", "n2", mover.ErrHeld)
		refused("another node has none", "scratch", "n1", mover.ErrNotExist)
		for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{Dataset: "vision"}) {
			must.Do(t, err)
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
		x := must.Get(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n2"}))(t)
		refused("going", "scratch", "n2", mover.ErrConflict)
		c.Done(x.GetId())
		refused("gone", "scratch", "n2", mover.ErrNotExist)
		if left := rig.Contents(t, filepath.Join(c.Dir, "nodes/n2/scratch")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if _, err := os.Stat(c.Scratch("n2", "vision", digest)); !os.IsNotExist(err) {
			t.Errorf("the directory is left: %v", err)
		}
		c.Done(c.StageTo("dataset:vision", "n2", "slurm:2").GetTask().GetId()) // and it can come again
	})
}

// TestDatasetPurged: scratch goes without another copy, and nothing else does.
//
//safety:5/datasets with TestDatasetReleased
func TestDatasetPurged(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		c.Tree("shared/vision", 100, 0, 0)
		c.Tree("nodes/n1/scratch/job", 20, 0, 0)
		digest := c.Add("vision", "shared:vision")
		a := c.StageTo("dataset:vision", "n1", "slurm:1")
		c.Done(a.GetTask().GetId())
		for at, kind := range map[string]error{"shared:vision": mover.ErrRefused, "scratch:.datasets": mover.ErrHeld, "scratch:": mover.ErrHeld, "/tmp": mover.ErrUsage, "scratch:../x": mover.ErrUsage, "gone:x": mover.ErrUsage} {
			if x, err := c.Purge(ctx, &pb.PurgeRequest{Location: at}); !errors.Is(err, kind) {
				t.Errorf("purge of %s: %v, %v", at, x, err)
			}
		}
		x, err := c.Purge(ctx, &pb.PurgeRequest{Location: "scratch:job"})
		must.Do(t, err)
		c.Done(x.GetId())
		c.Same(filepath.Join(c.Dir, "shared/vision"), c.Scratch("n1", "vision", digest))
		for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{}) {
			must.Do(t, err)
			if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()}); err != nil {
				t.Fatal(err)
			}
		}
		if x, err = c.Purge(ctx, &pb.PurgeRequest{Location: "scratch:.datasets"}); err != nil {
			t.Fatal(err)
		}
		c.Done(x.GetId())
		if got := c.ReplicasOf("vision"); len(got) != 1 || got["shared@"] == nil {
			t.Errorf("replicas: %v", got)
		}
		if left := rig.Contents(t, filepath.Join(c.Dir, "nodes/n1/scratch")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
	})
}

// TestDatasetChanged: what is not what the manifest says, is no replica of it.
//
//safety:4/datasets what was staged is read and compared with the digest: a source that was changed by hand, with its size and times put back, makes no replica, and nothing of it is left
func TestDatasetChanged(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		source := c.Tree("shared/vision", 100, 0, 0)
		c.Add("vision", "shared:vision")
		name := filepath.Join(source, "d00/f00000")
		info, err := os.Stat(name)
		must.Do(t, err)
		must.Do(t, os.WriteFile(name, []byte("something else"), 0o644))
		must.Do(t, os.Chtimes(name, time.Time{}, info.ModTime()))
		a := c.StageTo("dataset:vision", "n1", "slurm:1")
		end, err := c.Wait(ctx, a.GetTask().GetId(), nil)
		if err != nil || end.GetState() != task.Failed || end.GetExitCode() != 9 || !strings.Contains(end.GetError(), "has changed") {
			t.Errorf("it ended as %v, %v", end, err)
		}
		c.Until("what was copied is gone", func() bool { return c.ReplicasOf("vision")["scratch@n1"] == nil })
		if left := rig.Contents(t, filepath.Join(c.Dir, "nodes/n1/scratch")); len(left) > 0 {
			t.Errorf("left: %v", left)
		}
		if held := c.LeasesOf("vision"); len(held) > 0 {
			t.Errorf("leases: %v", held)
		}
		if r := c.ReplicasOf("vision")["shared@"]; r.GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
			t.Errorf("the source is trusted still: %v", r)
		}
		digest := c.Add("vision", "shared:vision")
		c.Done(c.StageTo("dataset:vision", "n1", "slurm:2").GetTask().GetId())
		c.Same(source, c.Scratch("n1", "vision", digest))
		d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: "vision"})
		if err != nil || len(d.GetVersions()) != 2 || d.GetVersions()[0].GetDigest() != digest {
			t.Errorf("the dataset is %v, %v", d, err)
		}
	})
}

// TestDatasetLeadDies kills who stages, in the middle.
//
//safety:4/datasets with TestDatasetChanged
func TestDatasetLeadDies(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("shared/vision", 60, 2, 5<<20)
		digest := c.Add("vision", "shared:vision")
		c.Slowly("scratch", 2<<20)
		id := c.StageTo("dataset:vision", "n1", "slurm:1").GetTask().GetId()
		c.Half(id, 2<<20)
		c.Kill("n1", id)
		if r := c.ReplicasOf("vision")["scratch@n1"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_STAGING {
			t.Errorf("it is %v", r)
		}
		if done := c.Done(id); done.GetTries() != 2 {
			t.Errorf("it had %d leads", done.GetTries())
		}
		c.Same(source, c.Scratch("n1", "vision", digest))
		if held := c.LeasesOf("vision"); !maps.Equal(held, map[string]int{"slurm:1": 1}) {
			t.Errorf("leases: %v", held)
		}
	})
}

// TestDatasetCancelled: of a staging that is cancelled nothing is left, wherever it was.
//
//safety:5/datasets with mover/coordinator TestReleaseFails
func TestDatasetCancelled(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t)
		c.Join("n1")
		c.Tree("shared/vision", 60, 1, 8<<20)
		c.Add("vision", "shared:vision")
		c.Slowly("scratch", 2<<20)
		running := c.StageTo("dataset:vision", "n1", "slurm:1").GetTask().GetId()
		c.Half(running, 2<<20)
		if _, err := c.CancelTask(ctx, &pb.CancelTaskRequest{Id: running}); err != nil {
			t.Fatal(err)
		}
		c.Until("what was copied is gone", func() bool { return c.ReplicasOf("vision")["scratch@n1"] == nil })
		if left := rig.Contents(t, filepath.Join(c.Dir, "nodes/n1/scratch")); len(left) > 0 {
			t.Errorf("left: %d files", len(left))
		}
		if _, err := c.DrainAgent(ctx, &pb.DrainAgentRequest{Name: "n1"}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("no agent could do it, and it is accepted: %v", err)
		}
		if held := c.LeasesOf("vision"); len(held) > 0 {
			t.Errorf("leases: %v", held)
		}
	})
}

// TestDatasetRestart stops the coordinator in each state of a staging and of a release.
//
//safety:5/datasets with mover/coordinator TestReleaseFails
func TestDatasetRestart(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		source := c.Tree("shared/vision", 60, 2, 5<<20)
		digest := c.Add("vision", "shared:vision")
		c.Slowly("scratch", 2<<20)
		again := c.Restart

		id := c.StageTo("dataset:vision", "n1", "slurm:1").GetTask().GetId() // queued, or just given out
		again()
		c.Half(id, 2<<20)
		again()
		c.Until("the manifest is on its way, or was", func() bool { t := c.Now(id); return t.GetPhase() == "closing" || t.GetState() == task.Done })
		again()
		c.Done(id)
		c.Same(source, c.Scratch("n1", "vision", digest))
		again()
		if r := c.ReplicasOf("vision")["scratch@n1"]; r.GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r.GetLeases() != 1 {
			t.Errorf("it is %v", r)
		}
		for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{}) {
			must.Do(t, err)
			if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()}); err != nil {
				t.Fatal(err)
			}
		}
		x := must.Get(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"}))(t)
		again()
		c.Done(x.GetId())
		if got := c.ReplicasOf("vision"); len(got) != 1 {
			t.Errorf("replicas: %v", got)
		}
	})
}

// TestDatasetRead copies from a dataset; its replica is held as long as that takes.
func TestDatasetRead(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		source := c.Tree("shared/vision", 60, 1, 8<<20)
		digest := c.Add("vision", "shared:vision")
		target := filepath.Join(c.Dir, "target")
		id := c.Slow("dataset:vision", target, 2<<20).GetId()
		c.Half(id, 2<<20)
		if held := c.LeasesOf("vision"); !maps.Equal(held, map[string]int{"task:" + id: 1}) {
			t.Errorf("leases: %v", held)
		}
		if _, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "shared:vision/d00"}}); !errors.Is(err, mover.ErrHeld) {
			t.Errorf("what is read is removed: %v", err)
		}
		if done := c.Done(id); done.GetDataset() != "vision@"+digest {
			t.Errorf("it has read %q", done.GetDataset())
		}
		c.Same(source, target)
		if held := c.LeasesOf("vision"); len(held) > 0 {
			t.Errorf("leases: %v", held)
		}
		gone := must.Get(c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_REMOVE, Target: "shared:vision"}}))(t)
		c.Done(gone.GetId())
		if got := c.ReplicasOf("vision"); len(got) > 0 {
			t.Errorf("replicas of what was removed: %v", got)
		}
		if _, err := c.SubmitTask(ctx, &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "dataset:vision", Target: target}}); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("nothing is read: %v", err)
		}
	})
}

// TestDatasetOfNoName stages a location that is no dataset.
func TestDatasetOfNoName(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source := c.Tree("shared/job/input", 100, 0, 0)
		for i, want := range []int{101, 101} {
			a := c.StageTo("shared:job/input", "n1", fmt.Sprint("slurm:", i))
			c.Done(a.GetTask().GetId())
			c.Same(source, filepath.Join(c.Dir, "nodes/n1/scratch/job/input"))
			if len(rig.Contents(t, source)) != want-1+i {
				t.Error("the source")
			}
			must.Do(t, os.WriteFile(filepath.Join(source, "new"), nil, 0o644))
		}
		var found []*pb.Replica
		for r, err := range c.Replicas(context.Background(), &pb.ListReplicasRequest{Tier: "scratch"}) {
			must.Do(t, err)
			found = append(found, r)
		}
		if len(found) != 1 || found[0].GetLocation() != "scratch:job/input" || found[0].GetLeases() != 2 {
			t.Errorf("replicas: %v", found)
		}
	})
}
