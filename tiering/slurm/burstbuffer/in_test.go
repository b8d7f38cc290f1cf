package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// TestBegins: a job's data is warm before it has a node, and hot before it begins; every phase twice is once.
func TestBegins(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, "stage-in=dataset:train", "stage-in=dataset:near required", "stage-in=shared:notes to=scratch:notes", "stage-in=tape:train to=temp:train", "stage-out=scratch:out to=results:run1")
		for range 2 {
			must.Do(t, w.In(t.Context(), 7))
		}
		w.wants("temp/train/picture", "a picture")
		w.wantsTasks(7, "copy DONE", "mark PAUSED", "stage DONE")
		w.wantsHeld("slurm:7:warm:near on ", "slurm:7:warm:train on ")
		lines, err := w.Paths(7)
		must.Do(t, err)
		dir := w.path("scratch/jobs/" + w.job(7).Dir())
		want := []string{"DATAMOVE_DIR=" + dir, "DATAMOVE_IN_NEAR=" + dir + "/near", "DATAMOVE_IN_NOTES=" + dir + "/notes", "DATAMOVE_IN_TRAIN=" + dir + "/train",
			"DATAMOVE_WARM_NEAR=" + w.path("shared/near"), "DATAMOVE_WARM_NOTES=" + w.path("shared/notes")}
		if len(lines) != 7 || !slices.Equal(lines[:6], want) || !strings.HasPrefix(lines[6], "DATAMOVE_WARM_TRAIN="+w.path("shared/")) {
			t.Errorf("%q", lines)
		}
		w.nodes(7, "n1")
		for range 2 {
			must.Do(t, w.Before(t.Context(), 7))
		}
		w.wantsTasks(7, "copy DONE", "copy DONE", "mark PAUSED", "stage DONE", "stage DONE", "stage DONE")
		w.wantsHeld("slurm:7:near on n1", "slurm:7:train on n1", "slurm:7:warm:near on ", "slurm:7:warm:train on ")
		if out := w.prolog(7); len(out.Notes) > 0 || len(out.Links) != 2 || !slices.Equal(out.Copies, []string{"notes"}) {
			t.Errorf("%+v", out)
		}
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/train/picture", "a picture")
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/near/picture", "one that is near")
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/notes/note", "a note")
		table, err := w.Status(t.Context())
		if err != nil || !strings.Contains(table, "somebody") || !strings.Contains(table, "there is nothing to wait for") {
			t.Errorf("%s, %v", table, err)
		}
	})
}

// TestRenew: what a job holds on its node, and where all nodes see it, is renewed as its user; what is another job's, on another node, or
// somebody else's is not.
func TestRenew(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		for _, id := range []uint32{7, 70} {
			w.setup(id, "stage-in=dataset:near")
			must.Do(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
			must.Do(t, w.Before(t.Context(), id))
		}
		ends := func() map[string]time.Time {
			all := map[string]time.Time{}
			for l, err := range w.service.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
				must.Do(t, err)
				all[l.GetHolder()] = l.GetExpireTime().AsTime()
			}
			return all
		}
		before := ends()
		renew := func(j slurm.Job, until time.Time) map[string]time.Time {
			must.Do(t, w.node().Mover.Renew(t.Context(), j, until))
			return ends()
		}
		if got := renew(w.job(7), time.Now().Add(slurm.LeaseTTL/2)); !got["slurm:7:near"].Equal(before["slurm:7:near"]) {
			t.Errorf("what lasts long enough: %v, then %v", before, got)
		}
		other := w.job(7)
		other.UID = rig.People["bob"]
		if got := renew(other, time.Now().Add(2*slurm.LeaseTTL)); !got["slurm:7:near"].Equal(before["slurm:7:near"]) {
			t.Errorf("a job of somebody else with this number: %v, then %v", before, got)
		}
		after := renew(w.job(7), time.Now().Add(2*slurm.LeaseTTL))
		for holder, end := range before {
			if ours := strings.HasPrefix(holder, "slurm:7:"); ours != after[holder].After(end) {
				t.Errorf("%s: %s, then %s", holder, end, after[holder])
			}
		}
	})
}

// TestPinned: the version that there was when a job was brought its data is the one that it has on its nodes.
func TestPinned(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, "stage-in=dataset:train")
		must.Do(t, w.In(t.Context(), 7))
		w.write("tape/train2/picture", "a newer picture")
		w.service.Add("train", "tape:train2")
		must.Do(t, w.In(t.Context(), 7)) // somebody killed the first one, as it was about to say that it was done
		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
		w.prolog(7)
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/train/picture", "a picture")
		w.setup(7, "stage-in=dataset:train") // again, from the start
		must.Do(t, w.In(t.Context(), 7))
		w.nodes(7, "n1")
		w.setup(8, "stage-in=dataset:train")
		must.Do(t, w.In(t.Context(), 8))
		w.nodes(8, "n1")
		must.Do(t, w.Before(t.Context(), 8))
		w.prolog(8)
		w.wants("scratch/jobs/"+w.job(8).Dir()+"/train/picture", "a newer picture")
	})
}

// TestLate: what is late the job does without, and a copy that is late ends; without what it requires it does not begin, nor
// without what can never be there.
func TestLate(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.large("slow/copied/file")
		w.setup(7, "stage-in=slow:copied to=scratch:copied")
		w.nodes(7, "n1")
		must.Do(t, w.Before(w.within(3*time.Second), 7))
		if !w.heard("it begins without: stage in slow:copied to scratch:copied on n1: timed out") {
			t.Errorf("%q", w.told)
		}
		w.wantsTasks(7, "copy CANCELLED")

		w.setup(8, "stage-in=slow:copied to=scratch:copied required")
		w.nodes(8, "n1")
		wantsError(t, w.Before(w.within(2*time.Second), 8), mover.ErrTimeout, "slow:copied", "on n1")
		w.wantsTasks(8, "copy CANCELLED")

		w.setup(9, "stage-in=shared:nowhere to=scratch:x")
		w.nodes(9, "n1")
		wantsError(t, w.Before(t.Context(), 9), mover.ErrNotExist, "nowhere")
		for _, task := range w.tasks(9) {
			if task != "copy FAILED" && task != "copy CANCELLED" {
				t.Errorf("a copy that can never be there goes on: %q", w.tasks(9))
			}
		}
		w.setup(10, "stage-in=dataset:imagnet")
		wantsError(t, w.In(t.Context(), 10), mover.ErrNotExist, "imagnet")

		w.setup(11, "stage-in=dataset:near")
		must.Do(t, w.Controller.beside(11, filePlace, "no place"))
		must.Do(t, w.Before(t.Context(), 11)) // where it runs is not known, and it needs nothing
		w.setup(12, "stage-in=dataset:near required")
		must.Do(t, w.Controller.beside(12, filePlace, "no place"))
		wantsError(t, w.Before(t.Context(), 12), mover.ErrCorrupt)
	})
}

// TestWarmIsNotNeeded: where all nodes see it there is no room for a dataset, or nobody may write, and its nodes read it where it is.
func TestWarmIsNotNeeded(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.Config.Slurm.Warm = "gone"
		w.setup(7, "stage-in=dataset:train required")
		must.Do(t, w.In(t.Context(), 7))
		if !w.heard("it begins without: stage in dataset:train to gone") {
			t.Errorf("%q", w.told)
		}
		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
		w.wantsHeld("slurm:7:train on n1")
	})
}

// TestNoRoom: where all nodes see it there is no room for a dataset. The job does not wait for that for ever, and has it on its nodes.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.Config.Slurm.Warm = "temp"
		w.service.Refuse(w.path("temp"), mover.ErrFull)
		w.setup(7, "stage-in=dataset:train required")
		must.Do(t, w.In(t.Context(), 7))
		if !w.heard("it begins without: stage in dataset:train to temp") {
			t.Errorf("%q", w.told)
		}
		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
		w.wantsHeld("slurm:7:train on n1")
		must.Do(t, w.Teardown(t.Context(), 7, false))
		w.service.Until("nobody waits for it", func() bool { return slices.Equal(w.tasks(7), []string{"stage CANCELLED", "stage DONE"}) })
		w.wantsHeld()
	})
}

// TestTooLarge: a job whose dataset never fits onto its nodes hears that at submit, and before the first byte, and is held when it is staged anew.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		conf := *w.service.Conf.Load()
		conf.Tiers = maps.Clone(conf.Tiers)
		scratch := conf.Tiers["scratch"]
		scratch.KeepFree = 100
		conf.Tiers["scratch"] = scratch
		w.service.Conf.Store(&conf)
		w.service.Until("the node has said how full it is", func() bool {
			l := must.Get(w.service.ListTiers(t.Context(), &datamovev1.ListTiersRequest{Name: "scratch"}))(t)
			return l.GetTiers()[0].GetTotalBytes() > 0
		})
		_, err := w.Process(t.Context(), text("stage-in=dataset:train required"))
		wantsError(t, err, mover.ErrRefused, "the job asks for 9 B on each node, and scratch takes 0 B at most on any node")
		w.setup(7, "stage-in=dataset:train required")
		must.Do(t, w.In(t.Context(), 7))
		w.nodes(7, "n1")
		wantsError(t, w.Before(t.Context(), 7), mover.ErrRefused, "scratch on n1 takes 0 B at most")
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.setup(7, "stage-in=dataset:train required")
		if err := w.In(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "takes 0 B at most") {
			t.Errorf("it is staged anew: %v", err)
		}
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsHeld()
	})
}

// TestOneDirectory: space that all nodes see as one is on a node's own disk for jobs of one node only.
func TestOneDirectory(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		must.Do(t, w.Setup(w.job(7), directive.Text{Script: "#!/bin/sh\n#DATAMOVE dw\n#DW jobdw type=scratch access_mode=striped capacity=1GiB\ntrue\n"}))
		w.nodes(7, "n1", "n2")
		wantsError(t, w.Before(t.Context(), 7), mover.ErrUnsupported, "2 nodes", "access_mode=private")
		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
	})
}

// TestComponent: a component of a heterogeneous job does not begin where its data would come to that component alone, and is held then.
func TestComponent(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		w.setup(7, "stage-in=shared:notes required")
		must.Do(t, w.Nodes(7, Place{Nodes: []string{"n1"}, Part: true}))
		wantsError(t, w.Before(t.Context(), 7), mover.ErrUnsupported, "each component as a job of its own")
		w.setup(7, "stage-in=shared:notes required")
		if err := w.In(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "each component as a job of its own") {
			t.Errorf("it is staged anew: %v", err)
		}
	})
}

// TestProcess: what is wrong is told at submit, also when no mover answers; and nobody waits for one for long.
func TestProcess(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		large := directive.Text{Script: "#!/bin/sh\n#DATAMOVE dw\n#DW jobdw type=xfs capacity=8000PiB name=a\n#DW jobdw type=xfs capacity=8000PiB name=b\n#DATAMOVE stage-in=dataset:near\ntrue\n"}
		rows := []struct {
			what  string
			text  directive.Text
			asks  int
			err   error
			words string
			alone bool // also without a mover
		}{
			{"nothing", directive.Text{Script: "#!/bin/sh\ntrue\n"}, 0, nil, "", true},
			{"what is there", text("stage-in=dataset:near", "stage-out=scratch:out to=results:%j"), 2, nil, "", false},
			{"a dataset that is not", text("stage-in=dataset:imagnet"), 0, mover.ErrNotExist, "datamove dataset list", false},
			{"one that an earlier job may add", text("stage-in=dataset:imagnet", "depends"), 1, nil, "", false},
			{"a version that is not", text("stage-in=dataset:near@" + strings.Repeat("0", 64)), 0, mover.ErrNotExist, "no version", false},
			{"no directive", text("stage-on=dataset:near"), 0, mover.ErrUsage, "script line 2", true},
			{"more than there may be", large, 0, mover.ErrRefused, "slurm.most", true},
			{"a name that is too long to hold it by", text("stage-in=dataset:near to=scratch:" + strings.Repeat("a/", 115) + "near"), 0, mover.ErrUsage, "name another target", true},
			{"a name that is not shown as it is", text(`stage-in=dataset:near to="scratch:\"near\""`), 0, mover.ErrUsage, "name another target", true},
			{"a target that is known too late", text("stage-in=tape:train to=temp:%x"), 0, mover.ErrUsage, "before the job begins", true},
		}
		for _, row := range rows {
			asks, err := w.Process(t.Context(), row.text)
			if len(asks) != row.asks || !errors.Is(err, row.err) || err != nil && !strings.Contains(err.Error(), row.words) {
				t.Errorf("%s: %q, %v", row.what, asks, err)
			}
		}
		w.Config.Slurm.Most = config.Size(20)
		if _, err := w.Process(t.Context(), text("stage-in=dataset:near", "stage-in=dataset:train to=scratch:b")); !errors.Is(err, mover.ErrRefused) {
			t.Errorf("two of which each may be: %v", err)
		}
		mute := unserved(t)
		mute.Dial = func(ctx context.Context) (*api.Client, error) {
			return api.Dial(ctx, "mute", api.Options{Dialer: func(ctx context.Context) (net.Conn, error) {
				ours, theirs := net.Pipe()
				context.AfterFunc(ctx, func() { _ = theirs.Close() })
				return ours, nil
			}})
		}
		for what, away := range map[string]*world{"one that is not there": unserved(t), "one that hangs": mute} {
			for _, row := range rows {
				var want error
				if row.alone {
					want = row.err
				}
				if asks, err := away.Process(t.Context(), row.text); !errors.Is(err, want) {
					t.Errorf("%s: %s: %q, %v", what, row.what, asks, err)
				}
			}
		}
	})
}

// TestKeep: what a job holds where all nodes see it lasts as long as the job is pending, and no longer; also what a crash of Slurm has forgotten ends.
func TestKeep(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		for id := uint32(7); id < 11; id++ {
			must.Do(t, w.Saw(w.path(fmt.Sprintf("state/hash.%d/job.%d/script", id%10, id))))
			w.write(fmt.Sprintf("state/hash.%d/job.%d/script", id%10, id), script("stage-in=dataset:near"))
			w.setup(id, "stage-in=dataset:near")
			must.Do(t, w.In(t.Context(), id))
		}
		must.Do(t, w.Teardown(t.Context(), 8, true))
		must.Do(t, os.Remove(w.path("state/hash.9/job.9/script"))) // Slurm does not know it, and does not tear it down
		ends := func() map[string]time.Time {
			all := map[string]time.Time{}
			for l, err := range w.service.Leases(t.Context(), &datamovev1.ListLeasesRequest{}) {
				must.Do(t, err)
				all[l.GetHolder()] = l.GetExpireTime().AsTime()
			}
			return all
		}
		before := ends()
		must.Do(t, w.Keep(t.Context()))
		if got := ends(); !maps.Equal(got, before) {
			t.Errorf("what lasts long enough: %v, then %v", before, got)
		}
		w.kill()
		must.Do(t, w.Keep(t.Context())) // within the hour
		time.Sleep(keepEvery)
		if err := w.Keep(t.Context()); !away(err) {
			t.Errorf("without a mover: %v", err)
		}
		w.start()
		must.Do(t, w.Keep(t.Context()))
		must.Do(t, w.renew(t.Context(), must.Get(w.lasting())(t), time.Now().Add(2*slurm.LeaseTTL))) // as when half of a lease is over
		for holder, end := range ends() {
			if lasts := holder == "slurm:7:warm:near" || holder == "slurm:10:warm:near"; lasts != end.After(before[holder]) {
				t.Errorf("%s: %s, then %s", holder, before[holder], end)
			}
		}
		must.Do(t, w.Teardown(t.Context(), 9, true))
		w.wantsHeld("slurm:10:warm:near on ", "slurm:7:warm:near on ")
	})
}
