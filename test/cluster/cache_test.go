package cluster

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/task"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
)

// TestDatasetLeaseEnds: a lease that nobody renews ends, one that is renewed does not.
func TestDatasetLeaseEnds(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		ctx := context.Background()
		c := rig.New(t, "n1")
		c.Tree("shared/vision", 3, 0, 0)
		c.Add("vision", "shared:vision")
		acquire := func(holder string, ttl time.Duration) *pb.Lease {
			l := must.Get(c.AcquireLease(ctx, &pb.AcquireLeaseRequest{Dataset: "vision", Tier: "shared", Holder: holder, Ttl: durationpb.New(ttl)}))(t)
			return l
		}
		short, long := acquire("slurm:1", time.Second), acquire("slurm:2", time.Second)
		if _, err := c.RenewLease(ctx, &pb.RenewLeaseRequest{Id: long.GetId(), Ttl: durationpb.New(time.Hour)}); err != nil {
			t.Fatal(err)
		}
		c.Until("the one ends", func() bool { return len(c.LeasesOf("vision")) == 1 })
		if _, err := c.RenewLease(ctx, &pb.RenewLeaseRequest{Id: short.GetId(), Ttl: durationpb.New(time.Hour)}); !errors.Is(err, mover.ErrNotExist) {
			t.Errorf("a lease that has ended is renewed: %v", err)
		}
		if held := c.LeasesOf("vision"); held["slurm:2"] != 1 {
			t.Errorf("leases: %v", held)
		}
		if _, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: short.GetId()}); err != nil {
			t.Errorf("dropping what has ended: %v", err)
		}
		c.Restart()
		if held := c.LeasesOf("vision"); held["slurm:2"] != 1 {
			t.Errorf("leases after a restart: %v", held)
		}
	})
}

// TestDatasetTiers: how full tiers are, and who has what there.
func TestDatasetTiers(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1", "n2")
		c.Tree("shared/vision", 10, 1, 1<<20)
		c.Add("vision", "shared:vision")
		c.Done(c.StageTo("dataset:vision", "n2", "slurm:1").GetTask().GetId())
		c.Until("the agents have said how full they are", func() bool {
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
	})
}

// TestDatasetTierAppears: an agent says so when it reaches another tier, after a reload or
// a mount.
func TestDatasetTierAppears(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		agents := func(tier string) int {
			l := must.Get(c.ListTiers(context.Background(), &pb.ListTiersRequest{Name: tier}))(t)
			return len(l.GetTiers()[0].GetAgents())
		}
		dir := filepath.Join(c.Dir, "vault")
		conf := *c.Conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		conf.Tiers["vault"] = config.Tier{Level: "warm", Path: dir}
		c.Conf.Store(&conf)
		if n := agents("vault"); n != 0 {
			t.Errorf("before it is there %d agents reach it", n)
		}
		must.Do(t, os.Mkdir(dir, 0o755))
		c.Until("the agent reaches it", func() bool { return agents("vault") == 1 })
		must.Do(t, os.Remove(dir))
		c.Until("and does not any more", func() bool { return agents("vault") == 0 })
	})
}

// TestTierNotMounted: a directory on another file system than its tier has to be on is reached by nobody, and a task that wants
// something there waits. Who says another name for what is in it fails, with nothing made there.
//
//safety:4 with mover/backend TestWhereATierIsNotMounted
func TestTierNotMounted(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		source, dir := c.Tree("source", 3, 0, 0), filepath.Join(c.Dir, "vault")
		must.Do(t, os.MkdirAll(filepath.Join(dir, "shelf"), 0o755))
		set := func(kind string) {
			conf := *c.Conf.Load()
			conf.Tiers = maps.Clone(conf.Tiers)
			conf.Tiers["vault"] = config.Tier{Level: "warm", Path: dir, Kind: kind}
			conf.Tiers["shelf"] = config.Tier{Level: "warm", Path: filepath.Join(dir, "shelf")}
			c.Conf.Store(&conf)
		}
		set("lustre")
		waits := c.Copy(source, filepath.Join(dir, "copy")).GetId()
		failed := c.Ends(c.Copy(source, "shelf:copy"), nil)
		if failed.GetState() != pb.TaskState_TASK_STATE_FAILED || failed.GetErrorKind() != "UNREACHABLE" || !strings.Contains(failed.GetError(), "has to be on one of kind lustre: is it mounted?") {
			t.Errorf("%v %s: %s", failed.GetState(), failed.GetErrorKind(), failed.GetError())
		}
		if got := c.Now(waits); got.GetState() != pb.TaskState_TASK_STATE_QUEUED {
			t.Errorf("%v: %s", got.GetState(), got.GetError())
		}
		for _, made := range []string{"copy", "shelf/copy"} {
			if _, err := os.Lstat(filepath.Join(dir, made)); err == nil {
				t.Errorf("%s was made", made)
			}
		}
		set("") // it is mounted
		c.Done(waits)
	})
}

// TestKeepFree: nothing is staged or copied into the part of a tier that stays free: a staging is refused at once, and a copy ends, or waits, without a byte.
func TestKeepFree(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		c := rig.New(t, "n1")
		c.Tree("shared/vision", 3, 1, 1<<20)
		c.Add("vision", "shared:vision")
		conf := *c.Conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		scratch := conf.Tiers["scratch"]
		scratch.KeepFree = 100
		conf.Tiers["scratch"] = scratch
		c.Conf.Store(&conf)
		c.Until("the agent has said how full it is", func() bool {
			l := must.Get(c.ListTiers(context.Background(), &pb.ListTiersRequest{Name: "scratch"}))(t)
			return l.GetTiers()[0].GetTotalBytes() > 0
		})
		_, err := c.Stage(context.Background(), &pb.StageRequest{Source: "dataset:vision", Tier: "scratch", Node: "n1"})
		if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "scratch on n1 takes 0 B at most") {
			t.Errorf("it is staged: %v", err)
		}
		for _, fails := range []bool{true, false} {
			x := must.Get(c.SubmitTask(context.Background(), &pb.SubmitTaskRequest{Spec: &pb.TaskSpec{Kind: pb.TaskKind_TASK_KIND_COPY, Source: "shared:vision", Target: "scratch:vision", Node: "n1",
				Options: &pb.Options{FailWhenFull: fails}}}))(t)
			if fails {
				if end := must.Get(c.Wait(context.Background(), x.GetId(), nil))(t); end.GetState() != task.Failed || end.GetErrorKind() != mover.KindName(mover.ErrFull) || !strings.Contains(end.GetError(), "keep_free") {
					t.Errorf("it has ended as %v: %s", end.GetState(), end.GetError())
				}
			} else {
				c.Until("it waits for room", func() bool { return strings.Contains(c.Now(x.GetId()).GetWhy(), "keep_free") })
			}
		}
		for name, text := range rig.Contents(t, filepath.Join(rig.ScratchOf(c.Dir, "n1"), "vision")) {
			if text != "" && !strings.HasPrefix(name, ".datamove-") {
				t.Errorf("%s has %.40q", name, text)
			}
		}
	})
}
