package burstbuffer

import (
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
)

// wantsUndone fails when something is to be undone still of runs that are over.
func (w *world) wantsUndone() {
	w.Helper()
	if left, err := w.records().all(fileEnded); len(left) > 0 || err != nil {
		w.Errorf("%v have a record still, %v", left, err)
	}
}

// TestTeardown: nothing is held, nothing comes any more; what is on its way away goes on, but not in a hurry.
func TestTeardown(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		for _, hurry := range []bool{false, true} {
			w := served(t)
			w.large("tape/large/file")
			w.service.Add("large", "tape:large")
			w.begun(7, "stage-in=dataset:near", "stage-out=scratch:out to=slow:run1")
			w.large("scratch/jobs/" + w.job(7).Dir() + "/out/file")
			w.wrote(7)
			must.Do(t, w.Before(t.Context(), 7))
			_ = w.Out(w.within(time.Second), 7, 0) // which is late
			w.service.Until("the marks are gone", func() bool { return !strings.Contains(strings.Join(w.tasks(7), " "), "mark PAUSED") })
			for range 2 {
				must.Do(t, w.Teardown(t.Context(), 7, hurry))
			}
			w.wantsHeld()
			want := map[bool]string{false: "copy RUNNING", true: "copy CANCELLED"}[hurry]
			w.service.Until("it is "+want, func() bool { return w.tasks(7)[0] == want })
			if w.wantsUndone(); w.epilog(7) == hurry {
				t.Errorf("hurry %v: what leaves is treated alike", hurry)
			}
			must.Do(t, w.Teardown(t.Context(), 70, true)) // of which nobody knows
		}
	})
}

// TestOthersWait: two jobs of one person wait for the same staging. When one of them ends the other one gets it; when both have, it ends.
//
//safety:5/jobs a job that ends where another one of the same person waits for the same staging; a mover that comes back later
func TestOthersWait(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.large("tape/large/file")
		w.service.Add("large", "tape:large")
		for _, id := range []uint32{7, 8} {
			w.setup(id, "stage-in=dataset:large")
			w.nodes(id, "n1")
			must.Do(t, w.Before(w.within(2*time.Second), id))
		}
		w.wantsTasks(7, "stage RUNNING")
		w.wantsTasks(8, "stage RUNNING") // the same
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsTasks(8, "stage RUNNING")
		must.Do(t, w.Teardown(t.Context(), 8, false))
		w.service.Until("it has ended", func() bool { return w.tasks(7)[0] == "stage CANCELLED" })
		w.wantsHeld()
	})
}

// TestAway: a mover that is away keeps nobody; it is told when another job ends. A run of the job that has begun meanwhile is left alone.
//
//safety:5/jobs with TestOthersWait
func TestAway(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-in=dataset:near", "stage-out=scratch:out to=results:run1")
		w.begun(8, "stage-in=dataset:near", "stage-out=scratch:out to=results:run2")
		w.kill()
		must.Do(t, w.Teardown(t.Context(), 7, true))
		must.Do(t, w.Teardown(t.Context(), 8, true))
		if !w.heard("will be undone later") {
			t.Errorf("%q", w.told)
		}
		if table, err := w.Status(t.Context()); err != nil || strings.Contains(table, "near") {
			t.Errorf("%s, %v", table, err)
		}
		w.setup(7, "stage-in=dataset:near", "stage-out=scratch:out to=results:run1")
		w.start()
		must.Do(t, w.Teardown(t.Context(), 9, false))
		w.wantsHeld("slurm:7:near on n1", "slurm:7:warm:near on ")
		w.wantsTasks(8, "mark CANCELLED")
		must.Do(t, w.In(t.Context(), 7)) // which ends what the first run has left
		must.Do(t, w.Teardown(t.Context(), 9, false))
		w.wantsHeld("slurm:7:warm:near on ")
		w.wantsTasks(7, "mark CANCELLED", "mark PAUSED", "stage DONE")
		w.wantsUndone()
	})
}

// TestEarlierRun: a job that is requeued, and then cancelled, does not stop what its first run brings away.
//
//safety:5/jobs with TestKilled
func TestEarlierRun(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		const line = "stage-out=scratch:out to=slow:run1"
		w.begun(7, line)
		w.large("scratch/jobs/" + w.job(7).Dir() + "/out/file")
		w.wrote(7)
		_ = w.Out(w.within(time.Second), 7, 0)
		w.service.Until("the marks are gone", func() bool { return !strings.Contains(strings.Join(w.tasks(7), " "), "mark PAUSED") })
		must.Do(t, w.Teardown(t.Context(), 7, false))
		w.setup(7, line)
		must.Do(t, w.In(t.Context(), 7))
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsTasks(7, "copy RUNNING", "mark CANCELLED", "mark CANCELLED")
	})
}

// TestHostileHolder: what another account holds in the name of a job is its own, is not told of it, and keeps no job from ending; nor do broken records of other jobs.
func TestHostileHolder(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-in=dataset:near")
		_, err := w.service.Stage(rig.As("bob"), &datamovev1.StageRequest{Source: "dataset:near", Tier: "shared", Holder: "slurm:7:warm:near", LeaseTtl: durationpb.New(time.Hour), Labels: map[string]string{slurm.Label: "7"}})
		must.Do(t, err)
		w.service.Ends(w.service.Submit(rig.As("bob"), &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "shared:none", Target: "slow:none", Labels: map[string]string{slurm.Label: "7"}}}))
		if table, err := w.Status(t.Context()); err != nil || strings.Contains(table, "failed") {
			t.Errorf("%s, %v", table, err)
		}
		must.Do(t, os.WriteFile(w.path("records/5.ended-1"), []byte("{"), 0o600))
		must.Do(t, os.WriteFile(w.path("records/6.job"), []byte("{"), 0o600))
		must.Do(t, w.Teardown(t.Context(), 7, false))
		w.wantsHeld("slurm:7:warm:near on ")
		if !w.heard("job 5: ") {
			t.Errorf("%q", w.told)
		}
		table, err := w.Status(t.Context())
		if err != nil || !strings.Contains(table, "6.job") {
			t.Errorf("%s, %v", table, err)
		}
	})
}

// TestClusters: jobs of two Slurm clusters that have one coordinator, one number and one user are two jobs.
func TestClusters(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.Config.Slurm.Cluster = "lab"
		conf := *w.Config
		conf.Slurm.Cluster = "hall"
		other := &Controller{Config: &conf, Records: w.path("records-of-hall"), Dial: w.Dial}
		lines := []string{"stage-in=dataset:near", "stage-out=scratch:out to=results:%j"}
		for _, c := range []*Controller{w.Controller, other} {
			must.Do(t, c.Setup(w.job(7), text(lines...)))
			must.Do(t, c.In(t.Context(), 7))
			time.Sleep(time.Nanosecond)
		}
		w.wantsHeld("slurm:hall/7:warm:near on ", "slurm:lab/7:warm:near on ")
		w.wantsTasks(7, "mark PAUSED", "mark PAUSED")
		node := w.node()
		for _, c := range []*Controller{w.Controller, other} { // the newest of the same copies counts, of one cluster
			j, run := w.job(7), must.Get(c.Run(7))(t).RunID()
			j.Cluster = c.Config.Slurm.Cluster
			if moves := must.Get(node.Mover.Moves(t.Context(), j))(t); len(moves) != 1 || moves[0].Run != run {
				t.Errorf("run %s of %s: %+v", run, j.Cluster, moves)
			}
		}
		must.Do(t, other.Teardown(t.Context(), 7, true))
		w.wantsHeld("slurm:lab/7:warm:near on ")
		w.wantsTasks(7, "mark CANCELLED", "mark PAUSED")

		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
		if out := w.prolog(7); len(out.Notes) > 0 || len(out.Links) != 1 || out.Links[0].Name != "near" {
			t.Errorf("%+v", out)
		}
		if jobs := must.Get(w.lasting())(t); len(jobs) != 1 || w.renew(t.Context(), jobs, time.Now().Add(2*slurm.LeaseTTL)) != nil {
			t.Errorf("%v", jobs)
		}
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.wantsHeld()
		w.wantsTasks(7, "mark CANCELLED", "mark CANCELLED", "stage DONE")
	})
}
