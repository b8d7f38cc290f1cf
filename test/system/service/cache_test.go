package service

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// small puts a file system in memory of so many bytes in the place of a node's scratch.
func (c *cluster) small(node string, bytes int) {
	c.t.Helper()
	if os.Geteuid() != 0 {
		c.t.Skip("only root can mount a small file system")
	}
	dir := filepath.Join(c.Dir, "nodes", node, "scratch")
	must.Do(c.t, os.MkdirAll(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		c.t.Skipf("a small file system can not be mounted: %v", err)
	}
	c.t.Cleanup(func() {
		must.Tell(c.t, syscall.Unmount(dir, syscall.MNT_DETACH))
	})
}

// TestDatasetEvicted fills the scratch of a node: what was used longest ago goes, and
// what is leased stays, though it is older. What is larger than all of it is refused, and for what has no room others go before it comes.
//
//safety:5/datasets with test/cluster TestDatasetReleased
func TestDatasetEvicted(t *testing.T) {
	c := newCluster(t)
	c.small("n1", 64<<20)
	conf := *c.Conf.Load()
	conf.Tiers = map[string]config.Tier{"shared": conf.Tiers["shared"], "scratch": conf.Tiers["scratch"]}
	scratch := conf.Tiers["scratch"]
	scratch.Cache = &config.Cache{High: 70, Low: 60}
	conf.Tiers["scratch"] = scratch
	c.Conf.Store(&conf)
	c.Join("n1")
	names := []string{"a", "b", "c"}
	for i, name := range names {
		c.Tree("shared/"+name, i+1, 1, 14<<20) // of which two are 44 %, and three 66 %
		c.Add(name, "shared:"+name)
		req := &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: "n1", Holder: "slurm:" + name}
		if name == "a" {
			req.LeaseTtl = durationpb.New(time.Hour)
		}
		a := must.Get(c.Stage(context.Background(), req))(t)
		c.Done(a.GetTask().GetId())
	}
	there := func() (found string) {
		for _, name := range append(names, "d", "f") {
			if r := c.ReplicasOf(name)["scratch@n1"]; r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE {
				found += name
			}
		}
		return found
	}
	if got := there(); got != "abc" {
		t.Fatalf("on scratch: %s", got)
	}
	c.Tree("shared/d", 4, 1, 6<<20)
	c.Add("d", "shared:d")
	c.Done(c.StageTo("dataset:d", "n1", "slurm:d").GetTask().GetId()) // now 75 %
	c.Until("the oldest that nobody needs is gone", func() bool { return there() == "acd" })
	c.Until("its bytes are gone, and its folders", func() bool {
		_, err := os.Stat(filepath.Join(c.Dir, "nodes/n1/scratch/.datasets/b"))
		return errors.Is(err, mover.ErrNotExist)
	})
	c.Tree("shared/e", 5, 1, 80<<20)
	c.Add("e", "shared:e")
	if _, err := c.Stage(context.Background(), &pb.StageRequest{Source: "dataset:e", Tier: "scratch", Node: "n1"}); !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "scratch on n1 takes 64.0 MiB at most") {
		t.Errorf("what is larger than the disk: %v", err)
	}
	c.Tree("shared/f", 6, 1, 38<<20) // for which 30 MiB are free
	c.Add("f", "shared:f")
	c.Done(c.StageTo("dataset:f", "n1", "slurm:f").GetTask().GetId())
	if got := there(); got != "adf" {
		t.Errorf("on scratch: %s", got)
	}
	if held := c.LeasesOf("a"); held["slurm:a"] != 1 {
		t.Errorf("leases: %v", held)
	}
}
