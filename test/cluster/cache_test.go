package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
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
)

// small puts a file system in memory of so many bytes in the place of a node's scratch.
func (c *cluster) small(node string, bytes int) {
	c.t.Helper()
	if os.Geteuid() != 0 {
		c.t.Skip("only root can mount a small file system")
	}
	dir := filepath.Join(c.dir, "nodes", node, "scratch")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		c.t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		c.t.Skipf("a small file system can not be mounted: %v", err)
	}
	c.t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			c.t.Error(err)
		}
	})
}

// TestDatasetEvicted fills the scratch of a node: what was used longest ago goes, and
// what is leased stays, though it is older.
func TestDatasetEvicted(t *testing.T) {
	c := newCluster(t)
	c.small("n1", 64<<20)
	conf := *c.conf.Load()
	conf.Tiers = map[string]config.Tier{"shared": conf.Tiers["shared"], "scratch": conf.Tiers["scratch"]}
	scratch := conf.Tiers["scratch"]
	scratch.Cache = &config.Cache{High: 70, Low: 60}
	conf.Tiers["scratch"] = scratch
	c.conf.Store(&conf)
	c.join("n1")
	names := []string{"a", "b", "c"}
	for i, name := range names {
		c.tree("shared/"+name, i+1, 1, 14<<20) // of which two are 44 %, and three 66 %
		c.add(name, "shared:"+name)
		req := &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: "n1", Holder: "slurm:" + name}
		if name == "a" {
			req.LeaseTtl = durationpb.New(time.Hour)
		}
		a, err := c.Stage(context.Background(), req)
		if err != nil {
			t.Fatal(err)
		}
		c.done(a.GetTask().GetId())
	}
	there := func() (found string) {
		for _, name := range append(names, "d") {
			if r := c.replicas(name)["scratch@n1"]; r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE {
				found += name
			}
		}
		return found
	}
	if got := there(); got != "abc" {
		t.Fatalf("on scratch: %s", got)
	}
	c.tree("shared/d", 4, 1, 6<<20)
	c.add("d", "shared:d")
	c.done(c.stage("dataset:d", "n1", "slurm:d").GetTask().GetId()) // now 75 %
	c.eventually("the oldest that nobody needs is gone", func() bool { return there() == "acd" })
	c.eventually("its bytes are gone, and its folders", func() bool {
		_, err := os.Stat(filepath.Join(c.dir, "nodes/n1/scratch/.datasets/b"))
		return errors.Is(err, mover.ErrNotExist)
	})
	if held := c.leases("a"); held["slurm:a"] != 1 {
		t.Errorf("leases: %v", held)
	}
}

// TestDatasetLeaseEnds: a lease that nobody renews ends, one that is renewed does not.
func TestDatasetLeaseEnds(t *testing.T) {
	ctx := context.Background()
	c := newCluster(t, "n1")
	c.tree("shared/vision", 3, 0, 0)
	c.add("vision", "shared:vision")
	acquire := func(holder string, ttl time.Duration) *pb.Lease {
		l, err := c.AcquireLease(ctx, &pb.AcquireLeaseRequest{Dataset: "vision", Tier: "shared", Holder: holder, Ttl: durationpb.New(ttl)})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	short, long := acquire("slurm:1", time.Second), acquire("slurm:2", time.Second)
	if _, err := c.RenewLease(ctx, &pb.RenewLeaseRequest{Id: long.GetId(), Ttl: durationpb.New(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	c.eventually("the one ends", func() bool { return len(c.leases("vision")) == 1 })
	if _, err := c.RenewLease(ctx, &pb.RenewLeaseRequest{Id: short.GetId(), Ttl: durationpb.New(time.Hour)}); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("a lease that has ended is renewed: %v", err)
	}
	if held := c.leases("vision"); held["slurm:2"] != 1 {
		t.Errorf("leases: %v", held)
	}
	if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: short.GetId()}); err != nil {
		t.Errorf("dropping what has ended: %v", err)
	}
	c.halt()
	c.start()
	if held := c.leases("vision"); held["slurm:2"] != 1 {
		t.Errorf("leases after a restart: %v", held)
	}
}

// TestDatasetTiers: how full tiers are, and who has what there.
func TestDatasetTiers(t *testing.T) {
	c := newCluster(t, "n1", "n2")
	c.tree("shared/vision", 10, 1, 1<<20)
	c.add("vision", "shared:vision")
	c.done(c.stage("dataset:vision", "n2", "slurm:1").GetTask().GetId())
	c.eventually("the agents have said how full they are", func() bool {
		l, err := c.ListTiers(context.Background(), &pb.ListTiersRequest{})
		if err != nil || len(l.GetTiers()) != 3 {
			t.Fatalf("tiers: %v, %v", l, err)
		}
		for i, want := range []struct {
			name, node     string
			agents, leased int
		}{{"scratch", "n1", 1, 0}, {"scratch", "n2", 1, 1}, {"shared", "", 2, 0}} {
			got := l.GetTiers()[i]
			if got.GetName() != want.name || got.GetNode() != want.node || len(got.GetAgents()) != want.agents || (got.GetLeasedBytes() > 1<<20) != (want.leased == 1) {
				t.Fatalf("tier %d is %v", i, got)
			}
			if got.GetTotalBytes() == 0 || got.GetFreeBytes() == 0 {
				return false
			}
		}
		return true
	})
}

// TestDatasetTierAppears: an agent says so when it reaches another tier, after a reload or
// a mount.
func TestDatasetTierAppears(t *testing.T) {
	c := newCluster(t, "n1")
	agents := func(tier string) int {
		l, err := c.ListTiers(context.Background(), &pb.ListTiersRequest{Name: tier})
		if err != nil {
			t.Fatal(err)
		}
		return len(l.GetTiers()[0].GetAgents())
	}
	dir := filepath.Join(c.dir, "vault")
	conf := *c.conf.Load()
	conf.Tiers = maps.Clone(conf.Tiers)
	conf.Tiers["vault"] = config.Tier{Level: "warm", Path: dir}
	c.conf.Store(&conf)
	if n := agents("vault"); n != 0 {
		t.Errorf("before it is there %d agents reach it", n)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c.eventually("the agent reaches it", func() bool { return agents("vault") == 1 })
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	c.eventually("and does not any more", func() bool { return agents("vault") == 0 })
}

// TestTierNotMounted: a directory on another file system than its tier has to be on is reached by nobody, and a task that wants
// something there waits. Who says another name for what is in it fails, with nothing made there.
func TestTierNotMounted(t *testing.T) {
	c := newCluster(t, "n1")
	source, dir := c.tree("source", 3, 0, 0), filepath.Join(c.dir, "vault")
	if err := os.MkdirAll(filepath.Join(dir, "shelf"), 0o755); err != nil {
		t.Fatal(err)
	}
	set := func(kind string) {
		conf := *c.conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		conf.Tiers["vault"] = config.Tier{Level: "warm", Path: dir, Kind: kind}
		conf.Tiers["shelf"] = config.Tier{Level: "warm", Path: filepath.Join(dir, "shelf")}
		c.conf.Store(&conf)
	}
	set("lustre")
	waits := c.submit(source, filepath.Join(dir, "copy")).GetId()
	failed := c.ends(c.submit(source, "shelf:copy"), nil)
	if failed.GetState() != pb.TaskState_TASK_STATE_FAILED || failed.GetErrorKind() != "UNREACHABLE" || !strings.Contains(failed.GetError(), "has to be on one of kind lustre: is it mounted?") {
		t.Errorf("%v %s: %s", failed.GetState(), failed.GetErrorKind(), failed.GetError())
	}
	if got := c.now(waits); got.GetState() != pb.TaskState_TASK_STATE_QUEUED {
		t.Errorf("%v: %s", got.GetState(), got.GetError())
	}
	for _, made := range []string{"copy", "shelf/copy"} {
		if _, err := os.Lstat(filepath.Join(dir, made)); err == nil {
			t.Errorf("%s was made", made)
		}
	}
	set("") // it is mounted
	c.done(waits)
}
