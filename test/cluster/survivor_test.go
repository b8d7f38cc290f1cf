package cluster

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestDatasetSurvivor: the ledger believes that there is another copy. Whoever removes the
// replica finds out that it is not so.
//
//safety:5/datasets the other copy was removed, cut, or changed by hand, is the same files by a link, or its tier lies elsewhere by now: the worker checks before it removes, everything stays, and the copy does not count any more
func TestDatasetSurvivor(t *testing.T) {
	ctx := context.Background()
	for what, spoil := range map[string]func(c *rig.Cluster, source, copied string) error{
		"removed by hand": func(_ *rig.Cluster, _, copied string) error { return os.RemoveAll(copied) },
		"a file less":     func(_ *rig.Cluster, _, copied string) error { return os.Remove(copied + "/d00/f00000") },
		"changed by hand": func(_ *rig.Cluster, _, copied string) error {
			return os.WriteFile(copied+"/d00/f00000", []byte("something else"), 0o644)
		},
		"the very same, by a link": func(_ *rig.Cluster, source, copied string) error {
			return errors.Join(os.RemoveAll(copied), os.Symlink(source, copied))
		},
		"its tier lies elsewhere now": func(c *rig.Cluster, _, _ string) error {
			old := c.Dir + "/vault"
			return errors.Join(os.Rename(old, old+"-old"), os.Mkdir(old, 0o755))
		},
	} {
		t.Run(what, func(t *testing.T) {
			rig.Bubble(t, func(t *testing.T) {
				c := rig.New(t)
				vault := c.Warm("vault")
				c.Join("n1")
				source := c.Tree("shared/vision", 50, 0, 0)
				digest := c.Add("vision", "shared:vision")
				a, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "vault"})
				c.Ends(a.GetTask(), err)
				before := rig.Contents(t, source)
				c.Unseal(vault)
				must.Do(t, spoil(c, source, filepath.Join(vault, ".datasets/vision", digest, "data")))
				end := c.Ends(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "shared"}))
				if end.GetState() != task.Failed || end.GetExitCode() != 9 {
					t.Errorf("it ended as %v", end)
				}
				if got := rig.Contents(t, source); len(got) != len(before) {
					t.Errorf("of %d entries there are %d", len(before), len(got))
				}
				r := c.ReplicasOf("vision")
				if r["shared@"].GetState() != pb.ReplicaState_REPLICA_STATE_WHOLE || r["shared@"].GetTask() != "" || r["vault@"].GetLevel() != pb.Level_LEVEL_UNSPECIFIED {
					t.Errorf("replicas: %v", r)
				}
				if len(c.LeasesOf("vision")) > 0 {
					t.Errorf("leases: %v", c.LeasesOf("vision"))
				}
			})
		})
	}
}

// TestDatasetGoneByHand: what somebody has removed by hand is released, and its copy is not
// blamed.
func TestDatasetGoneByHand(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t)
		vault := c.Warm("vault")
		c.Join("n1")
		source := c.Tree("shared/vision", 50, 0, 0)
		digest := c.Add("vision", "shared:vision")
		a, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "vault"})
		c.Ends(a.GetTask(), err)
		c.Unseal(vault)
		must.Do(t, os.RemoveAll(filepath.Join(vault, ".datasets/vision", digest, "data")))
		if end := c.Ends(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "vault"})); end.GetState() != task.Done {
			t.Errorf("it ended as %v", end)
		}
		if r := c.ReplicasOf("vision"); len(r) != 1 || r["shared@"].GetLevel() != pb.Level_LEVEL_READ {
			t.Errorf("replicas: %v", r)
		}
		if got := rig.Contents(t, source); len(got) == 0 {
			t.Error("the source is gone")
		}
	})
}

// TestDatasetSurvivorOtherTimes: equal contents with other times are a copy, which a reading
// shows.
func TestDatasetSurvivorOtherTimes(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t)
		vault := c.Warm("vault")
		c.Join("n1")
		source := c.Tree("shared/vision", 50, 0, 0)
		digest := c.Add("vision", "shared:vision")
		a, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "vault"})
		c.Ends(a.GetTask(), err)
		copied := filepath.Join(vault, ".datasets/vision", digest, "data")
		c.Unseal(vault)
		must.Do(t, os.Chtimes(copied+"/d00/f00000", time.Time{}, time.Unix(1, 0)))
		if end := c.Ends(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "shared"})); end.GetState() != task.Done {
			t.Fatalf("it ended as %v", end)
		}
		if _, err := os.Stat(source); !os.IsNotExist(err) {
			t.Errorf("it is there still: %v", err)
		}
		if _, err := c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "vault"}); !errors.Is(err, mover.ErrRefused) {
			t.Errorf("the last copy is released: %v", err)
		}
	})
}

// TestReplicaLiesInItsTier: what is recorded to be in a tier is there, and not where a
// symbolic link leads; nor is a copy that has to survive a release.
//
//safety:6 with TestPurgeStaysInItsTier
func TestReplicaLiesInItsTier(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t)
		vault := c.Warm("vault")
		c.Join("n1")
		c.Tree("nodes/n1/scratch/vision", 20, 0, 0)
		must.Do(t, os.Symlink(filepath.Join(c.Dir, "nodes/n1/scratch/vision"), filepath.Join(vault, "link")))
		for _, at := range []string{"vault:link", filepath.Join(vault, "link"), "vault:link/d00"} {
			x, err := c.AddDataset(ctx, &pb.AddDatasetRequest{Name: "vision", Location: at})
			if end := c.Ends(x, err); end.GetState() != task.Failed || !strings.Contains(end.GetError(), "symbolic link") {
				t.Errorf("%s was added: %v", at, end)
			}
		}
		if got := c.ReplicasOf("vision"); len(got) > 0 {
			t.Errorf("recorded are %v", got)
		}

		source := c.Tree("shared/vision", 20, 0, 0)
		digest := c.Add("vision", "shared:vision")
		a, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "vault"})
		c.Ends(a.GetTask(), err)
		copied, moved := filepath.Join(vault, ".datasets/vision", digest, "data"), filepath.Join(c.Dir, "nodes/n1/scratch/moved")
		c.Unseal(vault)
		must.Do(t, errors.Join(os.Rename(copied, moved), os.Symlink(moved, copied)))
		if end := c.Ends(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "shared"})); end.GetState() != task.Failed {
			t.Errorf("what survives lies on scratch: %v", end)
		}
		if got := rig.Contents(t, source); len(got) < 20 {
			t.Errorf("of the source there is %v", got)
		}
	})
}

// TestPurgeStaysInItsTier: a symbolic link does not lead a purge, or a staging, out of its
// tier. One that is named itself goes, and not what it leads to.
//
//safety:6 purge, release and staging of datasets behind symbolic links that lead out of the tier; datasets that are added there, and copies that lie there when the other one is to go
func TestPurgeStaysInItsTier(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		c.Tree("shared/vision", 20, 0, 0)
		digest := c.Add("vision", "shared:vision")
		scratch, outside := filepath.Join(c.Dir, "nodes/n1/scratch"), filepath.Join(c.Dir, "outside")
		for _, err := range []error{
			os.MkdirAll(outside+"/keep", 0o755), os.WriteFile(outside+"/keep/f", []byte("precious"), 0o644), os.Mkdir(scratch+"/job", 0o755),
			os.Symlink(outside, scratch+"/job/out"), os.Symlink(outside, scratch+"/link"), os.Symlink(outside, scratch+"/.datasets"),
		} {
			must.Do(t, err)
		}
		safe := func(what string) {
			t.Helper()
			if got := rig.Contents(t, outside); len(got) != 1 {
				t.Fatalf("%s: outside there is %v", what, got)
			}
		}
		for at, want := range map[string]pb.TaskState{"scratch:job/out/keep": task.Failed, "scratch:job/out/keep/f": task.Failed, "scratch:link": task.Done} {
			if end := c.Ends(c.Purge(ctx, &pb.PurgeRequest{Location: at})); end.GetState() != want {
				t.Errorf("purge of %s: %v", at, end)
			}
			safe(at)
		}
		a, err := c.Stage(ctx, &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})
		if end := c.Ends(a.GetTask(), err); end.GetState() != task.Failed {
			t.Errorf("staged behind a link: %v", end)
		}
		safe("stage")
		must.Do(t, os.Remove(scratch+"/.datasets"))
		c.Until("the place is free again", func() bool { return c.ReplicasOf("vision")["scratch@n1"] == nil })
		c.Done(c.StageTo("dataset:vision", "n1", "slurm:1").GetTask().GetId())
		for l, err := range c.Leases(ctx, &pb.ListLeasesRequest{}) {
			if err == nil {
				_, err = c.DropLease(ctx, &pb.DropLeaseRequest{Id: l.GetId()})
			}
			must.Do(t, err)
		}
		replica := c.Scratch("n1", "vision", digest)
		c.Unseal(scratch)
		must.Do(t, errors.Join(os.Rename(filepath.Dir(replica), outside+"/moved"), os.Symlink(outside+"/moved", filepath.Dir(replica))))
		if end := c.Ends(c.Release(ctx, &pb.ReleaseRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})); end.GetState() != task.Failed {
			t.Errorf("released behind a link: %v", end)
		}
		if got := rig.Contents(t, outside); len(got) < 20 {
			t.Errorf("outside there is %v", got)
		}
		if end := c.Ends(c.Purge(ctx, &pb.PurgeRequest{Location: "scratch:job"})); end.GetState() != task.Done {
			t.Errorf("purge of what has a link in it: %v", end)
		}
		if _, err := os.Stat(outside + "/keep/f"); err != nil {
			t.Error(err)
		}
	})
}
