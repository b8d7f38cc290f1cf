package burstbuffer

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
	"datamove.dev/tiering/slurm/directive"
)

// TestChain: a job that reads what an earlier one brings away has all of it, though Slurm begins it while that is on its way. What the job itself is to bring
// there does not hold it back.
func TestChain(t *testing.T) {
	t.Parallel()
	const out = "stage-out=scratch:out to=slow:chain"
	for name, lines := range map[string][]string{
		"onto the node":          {"stage-in=slow:chain to=scratch:in required", out},
		"to where all see it":    {"stage-in=slow:chain to=temp:in", "stage-out=scratch:out to=slow:next"},
		"and nothing of its own": {"stage-in=slow:chain to=scratch:in required"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rig.Bubble(t, func(t *testing.T) {
				w := served(t)
				must.Do(t, os.Chown(w.path("temp"), int(w.uid), int(w.uid)))
				w.begun(7, out)
				w.wrote(7, "out/answer")
				large := noise(largeBytes)
				w.write("scratch/jobs/"+w.job(7).Dir()+"/out/large", large)
				w.owned(w.path("scratch/jobs/" + w.job(7).Dir()))
				w.epilog(7)
				leaves := w.phase(0, live, func(ctx context.Context, c *Controller) error { return c.Out(ctx, 7, 0) })
				w.service.Until("it leaves", func() bool { return slices.Contains(w.tasks(7), "copy RUNNING") })
				w.begun(8, lines...)
				in := "scratch/jobs/" + w.job(8).Dir() + "/in/"
				if name == "to where all see it" {
					in = "temp/in/"
				}
				w.wants(in+"answer", "7 out/answer")
				w.wants(in+"large", large)
				<-leaves.ended
				must.Do(t, leaves.err)
			})
		})
	}
}

// TestBrokenChain: where what an earlier job brings away does not arrive, a job that waits for it hears that.
func TestBrokenChain(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=slow:chain")
		w.write("scratch/jobs/"+w.job(7).Dir()+"/out/large", noise(largeBytes))
		w.owned(w.path("scratch/jobs/" + w.job(7).Dir()))
		w.epilog(7)
		leaves := w.phase(0, live, func(ctx context.Context, c *Controller) error { return c.Out(ctx, 7, 0) })
		w.service.Until("it leaves", func() bool { return slices.Contains(w.tasks(7), "copy RUNNING") })
		w.setup(8, "stage-in=slow:chain to=scratch:in required")
		must.Do(t, w.In(t.Context(), 8))
		w.nodes(8, "n1")
		time.AfterFunc(time.Second, func() {
			for task, err := range w.service.Tasks(w.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: "7"}, States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_RUNNING}}) {
				must.Do(t, err)
				must.Get(w.service.CancelTask(w.Context(), &datamovev1.CancelTaskRequest{Id: task.GetId()}))(t)
			}
		})
		wantsError(t, w.Before(t.Context(), 8), mover.ErrRefused, "slow:chain", "cancelled")
		<-leaves.ended
		// Slurm makes it pending, and has it staged anew: it is held then, until a person releases it.
		must.Do(t, w.Teardown(t.Context(), 8, true))
		w.setup(8, "stage-in=slow:chain to=scratch:in required")
		if err := w.In(t.Context(), 8); err == nil || !strings.Contains(err.Error(), "cancelled") {
			t.Errorf("it is staged anew: %v", err)
		}
		must.Do(t, w.Teardown(t.Context(), 8, true))
		w.begun(8, "stage-in=slow:chain to=scratch:in required")
	})
}

// TestBrokenBefore: what an earlier job has not brought away when the next one is staged holds that one, once; what others have not, or is torn down, does not.
func TestBrokenBefore(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=slow:chain", "stage-out=scratch:out to=slow:other")
		w.write("scratch/jobs/"+w.job(7).Dir()+"/out/large", noise(largeBytes))
		w.owned(w.path("scratch/jobs/" + w.job(7).Dir()))
		w.epilog(7)
		leaves := w.phase(0, live, func(ctx context.Context, c *Controller) error { return c.Out(ctx, 7, 0) })
		w.service.Until("it leaves", func() bool { return slices.Contains(w.tasks(7), "copy RUNNING") })
		for task, err := range w.service.Tasks(w.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: "7"}}) {
			must.Do(t, err)
			if task.GetSpec().GetTarget() == "slow:chain" && task.GetSpec().GetLabels()[slurm.Leaves] != slurm.AllNodes {
				must.Get(w.service.CancelTask(w.Context(), &datamovev1.CancelTaskRequest{Id: task.GetId()}))(t)
			}
		}
		<-leaves.ended
		w.begun(9, "stage-in=slow:other to=scratch:in required") // which has come
		w.setup(8, "stage-in=slow:chain to=scratch:in required")
		wantsError(t, w.In(t.Context(), 8), mover.ErrRefused, "job 7 has not brought to slow:chain", "cancelled")
		must.Do(t, w.Teardown(t.Context(), 8, true))
		w.begun(8, "stage-in=slow:chain to=scratch:in required") // a person has released it
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.begun(10, "stage-in=slow:chain to=scratch:in required")
	})
}

// TestBrokenCheckpoint: a job that reads where an earlier one saves is held when a checkpoint can not come there, once, and waits for those that leave when the earlier one has ended. What its
// node tries again, and an earlier run of that job, hold nothing.
func TestBrokenCheckpoint(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		ctx := api.For(t.Context(), w.uid)
		carried := func(step, part string, paused bool) *datamovev1.Task {
			t.Helper()
			dir := "jobs/" + w.job(7).Dir() + "/ckpt/" + step
			w.wrote(7, "ckpt/"+step+"/shard")
			return must.Get(w.service.SubmitTask(ctx, &datamovev1.SubmitTaskRequest{Paused: paused, Spec: &datamovev1.TaskSpec{Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "scratch:" + dir, Target: "slow:saved/" + step, Node: "n1",
				Labels: map[string]string{slurm.Label: "7", slurm.Leaves: "n1", slurm.PartLabel: part, slurm.CopyLabel: step}}}))(t)
		}
		fails := func(step string, why error) {
			t.Helper()
			w.service.Refuse(w.path("slow"), why)
			w.service.Ends(carried(step, "lead", false), nil)
			w.service.Refuse(w.path("slow"), nil)
		}
		w.begun(7, "checkpoint=scratch:ckpt to=slow:saved")
		fails("before", mover.ErrPermission)
		must.Do(t, w.Teardown(t.Context(), 7, true))
		w.begun(7, "checkpoint=scratch:ckpt to=slow:saved")
		fails("passes", mover.ErrConflict)
		w.begun(8, "stage-in=slow:saved to=scratch:in")
		must.Do(t, w.Teardown(t.Context(), 8, true))
		fails("step1", mover.ErrPermission)
		w.setup(8, "stage-in=slow:saved to=scratch:in")
		wantsError(t, w.In(t.Context(), 8), mover.ErrRefused, "job 7 has not brought to slow:saved/step1", "failed", "release the job")
		must.Do(t, w.Teardown(t.Context(), 8, true))
		w.begun(8, "stage-in=slow:saved to=scratch:in") // a person has released it
		must.Do(t, w.Teardown(t.Context(), 8, true))
		must.Do(t, w.Ended(7, End{}))
		w.setup(8, "stage-in=slow:saved to=scratch:in")
		waits := w.phase(0, live, func(ctx context.Context, c *Controller) error { return c.In(ctx, 8) })
		w.service.Until("it waits", func() bool {
			return w.heard("job 7 has ended, and its checkpoints are leaving n1 for slow:saved still")
		})
		if table := must.Get(w.Status(t.Context()))(t); !strings.Contains(table, "waits for ") || !strings.Contains(table, "job 7 has ended, and its checkpoints are leaving n1") {
			t.Errorf("bbstat does not show what it waits for:\n%s", table)
		}
		for task, err := range w.service.Tasks(w.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: "7", slurm.PartLabel: slurm.Watch}, States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_PAUSED}}) {
			must.Do(t, err)
			must.Get(w.service.CancelTask(ctx, &datamovev1.CancelTaskRequest{Id: task.GetId()}))(t) // as its node ends it when all has left
		}
		<-waits.ended
		must.Do(t, waits.err)
		if table := must.Get(w.Status(t.Context()))(t); strings.Contains(table, "waits for ") {
			t.Errorf("bbstat shows a wait that is over:\n%s", table)
		}
	})
}

// TestChainEarly: a job is staged in before it is known how the one before it has ended, and so before anything leaves that.
func TestChainEarly(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=slow:chain/%j when=success")
		w.wrote(7, "out/answer")
		w.epilog(7)
		leaves := w.phase(0, live, func(ctx context.Context, c *Controller) error { return c.Out(ctx, 7, 0) })
		time.AfterFunc(5*time.Second, func() { must.Do(t, w.Ended(7, End{})) })
		time.Sleep(time.Second)
		w.wantsTasks(7, "mark PAUSED")
		w.begun(8, "stage-in=slow:chain to=scratch:in required")
		w.wants("scratch/jobs/"+w.job(8).Dir()+"/in/7/answer", "7 out/answer")
		<-leaves.ended
		must.Do(t, leaves.err)
	})
}

// TestLeadsTo: one place leads to another one where it is that, above it or below it, as far as that is the same for every job.
func TestLeadsTo(t *testing.T) {
	rig.Bubble(t, func(t *testing.T) {
		w := unserved(t)
		for _, row := range []struct {
			out, in string
			want    bool
		}{
			{"stage-out=scratch:out to=slow:chain", "stage-in=slow:chain", true},
			{"stage-out=scratch:out to=slow:chain/%j", "stage-in=slow:chain/7", true},
			{"stage-out=scratch:out to=slow:chain", "stage-in=slow:chain/a", true},
			{"stage-out=scratch:out to=slow:chain", "stage-in=slow:chain2", false},
			{"stage-out=scratch:out to=slow:chain", "stage-in=shared:chain", false},
			{"stage-out=scratch:out to=slow:chain", "stage-in=" + w.path("slow") + "/chain", true},
			{"checkpoint=scratch:ckpt to=slow:run1,shared:run1", "stage-in=shared:run1/step", true},
			{"stage-out=scratch:out to=s3://bucket/a", "stage-in=s3://bucket/a/b to=scratch:b", true},
			{"stage-out=scratch:out to=s3://bucket/a", "stage-in=s3://other/a/b to=scratch:b", false},
			{"stage-out=scratch:out to=shared:near", "stage-in=dataset:near", false},
		} {
			a := must.Get(directive.Parse(text(row.out), TiersOf(w.Config)))(t)
			b := must.Get(directive.Parse(text(row.in), TiersOf(w.Config)))(t)
			if got := w.leadsTo(a, b); got != row.want {
				t.Errorf("%s leads to %s: %v", row.out, row.in, got)
			}
		}
	})
}
