package coordinator

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset/datasetserver"
)

// free has the agent of n1 say how full its scratch is, of 1,000 bytes.
func (d *desk) free(free int64) {
	d.pass(2 * datasetserver.RoomLag)
	d.scheduler.mu.Lock()
	defer d.scheduler.mu.Unlock()
	n := d.scheduler.agents["n1"]
	n.seen, n.room["scratch"] = d.now(), &agentv1.Room{Tier: "scratch", TotalBytes: 1000, FreeBytes: free}
}

// TestRoomForStagings: a staging for which there is no room is refused before its first byte, with both sizes, or others go for it within the rules. Each of the
// datasets has 100 bytes, and 100 bytes of the tier stay free.
//
//safety:8 stagings that are larger than the room that there is
func TestRoomForStagings(t *testing.T) {
	stage := func(name, holder string) *pb.StageRequest {
		return &pb.StageRequest{Source: "dataset:" + name, Tier: "scratch", Node: "n1", Holder: holder, LeaseTtl: durationpb.New(time.Hour)}
	}
	begins := func(d *desk, name string) *pb.Task {
		d.t.Helper()
		a, err := d.datasets.Stage(root, stage(name, "another"))
		if err != nil {
			d.t.Fatalf("%v", err)
		}
		d.give()
		return a.GetTask()
	}
	full := func(what string, sizes ...string) func(*testing.T, *desk, error) {
		return func(t *testing.T, d *desk, err error) {
			wants(t, what, err, mover.ErrFull)
			for _, size := range sizes {
				if err != nil && !strings.Contains(err.Error(), size) {
					t.Errorf("%v; it says nothing of %s", err, size)
				}
			}
			if _, there := d.leased()["job"]; there || d.row("c", digestOf(3), "scratch", "n1") != nil {
				t.Error("something of it is there")
			}
		}
	}
	running := func(t *testing.T, d *desk, err error) {
		wants(t, "stage", err, nil)
		d.give()
		if got := d.row("c", digestOf(3), "scratch", "n1"); got == nil || d.state(got.GetTask()).GetState() != task.Running {
			t.Errorf("it does not come: %v", got)
		}
	}
	for _, c := range []struct {
		name  string
		first func(*desk)
		want  func(*testing.T, *desk, error)
	}{
		{"there is room", func(d *desk) { d.free(200) }, running},
		{"nothing is known of it", func(*desk) {}, running},
		{"what stays free is not for it", func(d *desk) { d.free(199) }, full("stage", "it has 100 B", "scratch on n1 has room for 99 B", "199 B are free", "100 B stay free")},
		{"what is on its way has room", func(d *desk) {
			d.free(299)
			begins(d, "a")
		}, full("stage", "100 B are on their way")},
		{"as far as it is not written", func(d *desk) {
			d.free(300)
			d.scheduler.leads[begins(d, "a").GetId()].task.Progress = &pb.Progress{BytesDone: 50}
			d.free(250)
		}, running},
		{"others are leased", func(d *desk) {
			d.free(300)
			_ = d.finish(begins(d, "a").GetId(), 1, nil)
			d.free(150)
		}, full("stage", "100 B are leased")},
		{"it never fits", func(d *desk) { d.free(950); d.scheduler.agents["n1"].room["scratch"].TotalBytes = 110 }, func(t *testing.T, d *desk, err error) {
			wants(t, "stage", err, mover.ErrRefused)
			if err != nil && !strings.Contains(err.Error(), "it has 100 B, and scratch on n1 takes 99 B at most") {
				t.Error(err)
			}
		}},
		{"the word about it is old", func(d *desk) {
			d.free(290)
			_ = d.finish(begins(d, "a").GetId(), 1, nil)
		}, func(t *testing.T, d *desk, err error) {
			wants(t, "stage", err, nil)
			d.give()
			id := d.row("c", digestOf(3), "scratch", "n1").GetTask()
			if got := d.state(id); got.GetState() != task.Queued || !strings.Contains(got.GetWhy(), "room is being made") {
				t.Errorf("it is %v", got)
			}
			d.free(200)
			d.give()
			if got := d.state(id); got.GetState() != task.Running {
				t.Errorf("it is %v", got)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := spacious(t)
			c.first(d)
			_, err := d.datasets.Stage(root, stage("c", "job"))
			c.want(t, d, err)
		})
	}
}

// spacious is a desk with three datasets of 100 bytes, and a tier of which a tenth stays free.
func spacious(t *testing.T) *desk {
	t.Helper()
	conf := site()
	scratch := conf.Tiers["scratch"]
	scratch.KeepFree = 10
	conf.Tiers["scratch"] = scratch
	d := newDesk(t, conf, authz.Input{})
	for i, name := range []string{"a", "b", "c"} {
		d.add(root, name, "project:"+name, uint64(i+1))
	}
	return d
}

// TestRoomIsMade: what nobody needs goes for a staging when that is about to begin, and not before it is asked for; where no cache is kept it ends.
func TestRoomIsMade(t *testing.T) {
	for _, cache := range []bool{true, false} {
		t.Run(fmt.Sprint("cache: ", cache), func(t *testing.T) {
			d := spacious(t)
			d.free(400)
			d.staged(root, &pb.StageRequest{Source: "dataset:a", Tier: "scratch", Node: "n1"}, 1)
			d.free(300)
			// Both are asked for before one of them begins: each alone has room.
			b, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:b", Tier: "scratch", Node: "n1"})
			wants(t, "stage b", err, nil)
			c, err := d.datasets.Stage(root, &pb.StageRequest{Source: "dataset:c", Tier: "scratch", Node: "n1"})
			wants(t, "stage c", err, nil)
			d.free(250)
			if !cache {
				scratch := d.conf.Tiers["scratch"]
				scratch.Cache = nil
				d.conf.Tiers["scratch"] = scratch
			}
			d.give()
			d.give()
			first, second := d.state(b.GetTask().GetId()), d.state(c.GetTask().GetId())
			if second.GetState() == task.Running {
				first, second = second, first
			}
			if !cache {
				if first.GetState() != task.Running || second.GetState() != task.Failed || !strings.Contains(second.GetError(), "100 B are on their way") {
					t.Errorf("%v and %v", first, second)
				}
				return
			}
			if first.GetState() != task.Running || second.GetState() != task.Queued || !strings.Contains(second.GetWhy(), "room is being made for 100 B") {
				t.Fatalf("%v and %v", first, second)
			}
			gone := d.row("a", digestOf(1), "scratch", "n1")
			d.give()
			wants(t, "the removal", d.finish(gone.GetTask(), 0, nil), nil)
			d.give()
			if got := d.state(second.GetId()); got.GetState() != task.Queued {
				t.Errorf("before it is said that there is room it is %v", got)
			}
			d.free(350)
			d.give()
			if got := d.state(second.GetId()); got.GetState() != task.Running {
				t.Errorf("when there is room it is %v: %s", got.GetState(), got.GetWhy())
			}
		})
	}
}
