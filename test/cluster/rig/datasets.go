package rig

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
)

// ScratchOf is the scratch of a node in a cluster below a directory.
func ScratchOf(dir, node string) string { return filepath.Join(dir, "nodes", node, "scratch") }

// ConfOf is the configuration of an agent: each node has a scratch of its own.
func (c *Cluster) ConfOf(name string) func() *config.Config {
	own := ScratchOf(c.Dir, name)
	if err := os.MkdirAll(own, 0o755); err != nil {
		c.t.Fatal(err)
	}
	return func() *config.Config {
		conf := *c.Conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		scratch := conf.Tiers["scratch"]
		scratch.Path = own
		conf.Tiers["scratch"] = scratch
		return &conf
	}
}

// Add makes a version of a dataset, and returns its digest.
func (c *Cluster) Add(name, location string) string {
	c.t.Helper()
	t, err := c.AddDataset(context.Background(), &pb.AddDatasetRequest{Name: name, Location: location})
	if err != nil {
		c.t.Fatal(err)
	}
	c.Done(t.GetId())
	d, err := c.GetDataset(context.Background(), &pb.GetDatasetRequest{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	return d.GetVersions()[0].GetDigest()
}

// StageTo asks for a dataset on a node's scratch.
func (c *Cluster) StageTo(source, node, holder string) *pb.StageResponse {
	c.t.Helper()
	a, err := c.Stage(context.Background(), &pb.StageRequest{Source: source, Tier: "scratch", Node: node, LeaseTtl: durationpb.New(time.Hour), Holder: holder})
	if err != nil {
		c.t.Fatal(err)
	}
	return a
}

// ReplicasOf are those of a dataset by tier and node.
func (c *Cluster) ReplicasOf(dataset string) map[string]*pb.Replica {
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

// LeasesOf are the holders of a dataset, with how many leases each has.
func (c *Cluster) LeasesOf(dataset string) map[string]int {
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

// Drop ends all leases on a dataset; on all when none is named.
func (c *Cluster) Drop(dataset string) {
	c.t.Helper()
	for l, err := range c.Leases(context.Background(), &pb.ListLeasesRequest{Dataset: dataset}) {
		if err == nil {
			_, err = c.DropLease(context.Background(), &pb.DropLeaseRequest{Id: l.GetId()})
		}
		if err != nil {
			c.t.Fatal(err)
		}
	}
}

// Scratch is where a replica lies on the scratch of a node.
func (c *Cluster) Scratch(node, dataset, digest string) string {
	return filepath.Join(ScratchOf(c.Dir, node), ".datasets", dataset, digest, "data")
}

// Slowly holds back what is written to a tier, and what else is said. In virtual time what
// has no limit takes no time.
func (c *Cluster) Slowly(tier string, bytesPerSecond config.Rate, more ...config.Limit) {
	conf := *c.Conf.Load()
	conf.Limits = append([]config.Limit{{Endpoint: tier, Direction: "write", Rate: bytesPerSecond}}, more...)
	c.Conf.Store(&conf)
	time.Sleep(toldAgain) // there is nothing to see of it
}

// toldAgain is how long it takes until agents have heard of another limit: they are told once a second.
const toldAgain = 1500 * time.Millisecond

// Half waits until a task has moved something and not everything.
func (c *Cluster) Half(id string, bytes int64) {
	c.t.Helper()
	c.Passed(id, bytes)
	if s := c.Now(id).GetState(); s != task.Running {
		c.t.Fatalf("it is %s already", task.Word(s))
	}
}

// Warm gives the cluster a second tier that is not ephemeral.
func (c *Cluster) Warm(name string) string {
	c.t.Helper()
	dir := filepath.Join(c.Dir, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	conf := *c.Conf.Load()
	conf.Tiers = maps.Clone(conf.Tiers)
	conf.Tiers[name] = config.Tier{Level: "warm", Path: dir}
	c.Conf.Store(&conf)
	c.Restart() // so that its rules know it
	return dir
}
