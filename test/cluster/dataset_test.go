package cluster

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"

	"datamove.dev/mover/config"
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
	return filepath.Join(c.dir, "nodes", node, "scratch", ".datasets", dataset, digest)
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
