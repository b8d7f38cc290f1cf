package burstbuffer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/cluster/rig"
	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm"
)

// begun has a job that was brought in, and runs on n1.
func (w *world) begun(id uint32, lines ...string) {
	w.Helper()
	w.setup(id, lines...)
	must.Do(w.T, w.In(w.Context(), id))
	w.nodes(id, "n1")
	must.Do(w.T, w.Before(w.Context(), id))
	w.prolog(id)
}

// epilog ends a job on its node, and says whether its directory stays.
func (w *world) epilog(id uint32) (stays bool) {
	w.Helper()
	out := must.Get(w.node().Epilog(w.Context(), w.job(id)))(w.T)
	if _, err := os.Stat(w.path("scratch/jobs/" + w.job(id).Dir())); (err == nil) != (out.Dir != "") {
		w.Errorf("%+v, %v", out, err)
	}
	return out.Dir != ""
}

// TestPlanted: somebody else holds something in the name of what a job holds, on its node. The epilog lets go of both, each as whose it is, and
// neither is in the way of the other.
//
//safety:6 leases of others in the name of a job
func TestPlanted(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-in=dataset:near")
		for i := range 8 { // their ids are before and behind that of the job's
			must.Get(w.service.AcquireLease(rig.As("bob"), &datamovev1.AcquireLeaseRequest{Dataset: "near", Tier: "scratch", Node: "n1", Holder: "slurm:7:near", Ttl: durationpb.New(time.Hour), IdempotencyKey: fmt.Sprint(i)}))(t)
		}
		if out := must.Get(w.node().Epilog(t.Context(), w.job(7)))(t); len(out.Notes) > 0 {
			t.Errorf("%q", out.Notes)
		}
		w.wantsHeld("slurm:7:warm:near on ")
	})
}

// TestOut: what a job has written comes to where it is to be, and the node has it until then; what it has not written is not missed; then what is
// to be purged goes.
func TestOut(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=results:run1", "stage-out=scratch:none to=results:none", "purge=temp:old", "purge=scratch:out")
		w.write("temp/old/file", "of a run before")
		must.Do(t, os.Chown(w.path("temp/old"), int(w.uid), int(w.uid)))
		w.wrote(7, "out/answer")
		if !w.epilog(7) {
			t.Fatal("its results are gone")
		}
		must.Do(t, w.Ended(7, End{Status: 256})) // which changes nothing: they are to leave always
		for range 2 {
			must.Do(t, w.Out(t.Context(), 7, 0))
		}
		w.wants("results/run1/answer", "7 out/answer")
		w.wants("temp/old/file", "")
		w.wantsTasks(7, "copy DONE", "copy DONE", "mark CANCELLED", "mark CANCELLED")
		if w.epilog(7) {
			t.Error("its directory stays")
		}
	})
}

// TestFailed: what can not be brought away stays on the node; the rest comes; nothing is purged.
//
//safety:5/jobs with TestKilled
func TestFailed(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.service.Refuse(w.path("shared"), mover.ErrPermission)
		w.begun(7, "stage-out=scratch:out to=results:run1", "stage-out=scratch:more to=shared:run1", "purge=temp:old")
		w.write("temp/old/file", "of a run before")
		must.Do(t, os.Chown(w.path("temp/old"), int(w.uid), int(w.uid)))
		w.wrote(7, "out/answer", "more/answer")
		for range 2 { // and begins again when somebody asks again
			wantsError(t, w.Out(t.Context(), 7, 0), mover.ErrPermission, "stage out scratch:more to shared:run1 on n1", "jobs/"+w.job(7).Dir()+"/more", "on the node still")
		}
		w.wants("results/run1/answer", "7 out/answer")
		w.wants("temp/old/file", "of a run before")
		for _, hurry := range []bool{false, true} {
			must.Do(t, w.Teardown(t.Context(), 7, hurry))
			if !w.epilog(7) {
				t.Fatal("what did not leave is gone")
			}
		}
		w.service.Done(w.service.Copy(w.path("scratch/jobs/"+w.job(7).Dir())+"/more", w.path("results/by-hand")).GetId())
		w.wants("results/by-hand/answer", "7 more/answer")
	})
}

// TestNotBegun: marks stay where one of the copies can not begin; the others come.
//
//safety:5/jobs with TestKilled
func TestNotBegun(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		extra := w.Config.Tiers["results"]
		extra.Path = w.path("extra")
		w.Config.Tiers["extra"] = extra // of which the mover knows nothing
		w.setup(7, "stage-out=scratch:out to=extra:run1", "stage-out=scratch:out to=results:run1")
		x := must.Get(w.begin(7))(t)
		defer x.close()
		marks := must.Get(x.marks())(t)
		must.Do(t, x.marked(api.For(t.Context(), w.uid), marks[1]))
		w.nodes(7, "n1")
		must.Do(t, w.Before(t.Context(), 7))
		w.prolog(7)
		w.wrote(7, "out/answer")
		if err := w.Out(t.Context(), 7, 0); err == nil || !strings.Contains(err.Error(), "extra") {
			t.Error(err)
		}
		w.wants("results/run1/answer", "7 out/answer")
		w.wantsTasks(7, "copy DONE", "mark PAUSED")
		must.Do(t, w.Teardown(t.Context(), 7, false))
		if !w.epilog(7) {
			t.Error("what could not leave is gone")
		}
	})
}

// TestGivenUp: what a person cancels has ended, and its directory goes.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=slow:run1", "stage-out=scratch:small to=results:run1")
		w.large("scratch/jobs/" + w.job(7).Dir() + "/out/file")
		w.wrote(7, "small/answer")
		out := make(chan error)
		go func() { out <- w.Out(w.Context(), 7, 0) }()
		var id string
		w.service.Until("it is on its way", func() bool {
			for task, err := range w.service.Tasks(t.Context(), &datamovev1.ListTasksRequest{States: []datamovev1.TaskState{datamovev1.TaskState_TASK_STATE_RUNNING}, Labels: map[string]string{slurm.Leaves: "n1"}}) {
				if err == nil && strings.HasPrefix(task.GetSpec().GetTarget(), "slow:") {
					id = task.GetId()
				}
			}
			return id != ""
		})
		w.service.Until("the marks are gone", func() bool { return !strings.Contains(strings.Join(w.tasks(7), " "), "mark PAUSED") })
		if !w.epilog(7) {
			t.Fatal("what is on its way is gone")
		}
		_, err := w.service.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: id})
		must.Do(t, err)
		must.Do(t, <-out)
		w.wants("results/run1/answer", "7 small/answer")
		if !w.heard("it was cancelled (task " + id) {
			t.Errorf("%q", w.told)
		}
		if w.epilog(7) {
			t.Error("its directory stays")
		}
	})
}

// TestWhen: what is to leave on success does so only then; what nobody has told counts as success.
func TestWhen(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		for id, row := range map[uint32]struct {
			status  int
			state   State
			success bool
		}{
			1: {0, 0, true}, 2: {256, 0, false}, 3: {15, 0, false},
			4: {0, 0x8003, true},                                      // complete, and completing
			5: {0, 0x8004, false}, 6: {0, 6, false}, 7: {0, 7, false}, // cancelled, out of time, lost a node: Slurm says 0 of all of them
			8: {256, 0x8005, false},
			9: {256, 0x8000, false}, 11: {0, 0x8000, true}, // pending: it says nothing
		} {
			run := "results:run" + w.job(id).Dir()
			w.begun(id, "stage-out=scratch:out when=success to="+run, "stage-out=scratch:log to="+run+"-log")
			w.wrote(id, "out/answer", "log/log")
			must.Do(t, w.Ended(id, End{Status: row.status}))
			must.Do(t, w.Out(t.Context(), id, row.state))
			must.Do(t, w.Teardown(t.Context(), id, false))
			at := "results/run" + w.job(id).Dir()
			w.wants(at+"-log/log", w.text(id, "log/log"))
			if row.success {
				w.wants(at+"/answer", w.text(id, "out/answer"))
			} else {
				w.wants(at+"/answer", "")
			}
			if w.epilog(id) {
				t.Errorf("job %d: its directory stays", id)
			}
		}
		w.setup(10, "stage-out=scratch:out to=results:run10 when=success")
		x := must.Get(w.begin(10))(t)
		defer x.close()
		if !x.succeeded(w.within(time.Millisecond), Place{}, 0) || !w.heard("how the job has ended is not known") {
			t.Errorf("%q", w.told)
		}
		must.Do(t, w.beside(10, fileEnd, "no status"))
		if !x.succeeded(t.Context(), Place{}, 0) {
			t.Error("what can not be read counts as a failure")
		}
		must.Do(t, w.Ended(10, End{Status: 256})) // told late, by an epilog of a run before
		w.nodes(10, "n1")
		if !x.succeeded(w.within(time.Millisecond), Place{}, 0) {
			t.Error("the status of a run before counts")
		}
	})
}

func (w *world) text(id uint32, name string) string {
	return strings.SplitN(w.job(id).Dir(), ".", 2)[0] + " " + name
}

// TestUnknownPlace: where nobody has said where a job was its results stay, and one that brings nothing away misses nothing.
//
//safety:5/jobs with TestKilled
func TestUnknownPlace(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.setup(7, "stage-in=dataset:near")
		must.Do(t, w.Out(t.Context(), 7, 0))
		w.setup(8, "stage-out=scratch:out to=results:run1")
		must.Do(t, w.In(t.Context(), 8))
		must.Do(t, w.Before(t.Context(), 8))
		w.prolog(8)
		w.wrote(8, "out/answer")
		wantsError(t, w.Out(t.Context(), 8, 0), mover.ErrNotExist, "its results stay there")
		must.Do(t, w.Teardown(t.Context(), 8, false))
		if !w.epilog(8) {
			t.Error("its results are gone")
		}
		wantsError(t, w.Out(t.Context(), 9, 0), mover.ErrNotExist, filepath.Join(w.Records, "9.job"))
	})
}

// TestOneNodeIsGone: what is on the other ones comes, and the copy from it goes on by itself when there is no more time.
func TestOneNodeIsGone(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		w.begun(7, "stage-out=scratch:out to=results:run1")
		w.nodes(7, "n1", "n2")
		w.wrote(7, "out/answer")
		err := w.Out(w.within(4*time.Second), 7, 0)
		t.Log(err)
		wantsError(t, err, mover.ErrTimeout, "on n2", "it goes on by itself")
		w.wants("results/run1/answer", "7 out/answer")
	})
}

// TestVacant: a job whose number an earlier one had does not begin where results of that one wait still, and its own have none of them.
func TestVacant(t *testing.T) {
	t.Parallel()
	rig.Bubble(t, func(t *testing.T) {
		w := served(t)
		begins := func() error {
			w.setup(7, "stage-out=scratch:out to=results:%j")
			must.Do(t, w.In(t.Context(), 7))
			w.nodes(7, "n1")
			return w.Before(t.Context(), 7)
		}
		must.Do(t, begins())
		w.prolog(7)
		w.wrote(7, "out/old")
		must.Do(t, os.RemoveAll(w.path("results")))
		must.Do(t, os.WriteFile(w.path("results"), nil, 0o644)) // nothing can be brought there
		must.Do(t, w.Ended(7, End{}))
		wantsError(t, w.Out(w.within(time.Minute), 7, 0), mover.ErrTimeout)
		must.Get(w.node().Epilog(t.Context(), w.job(7)))(t)
		must.Do(t, w.Teardown(t.Context(), 7, false))

		wantsError(t, begins(), mover.ErrConflict, "on n1 is what an earlier run, or job, with the number 7 has left", "datamove task cancel") // which is tried again
		must.Do(t, w.Teardown(t.Context(), 7, true))
		last := must.Get(w.service.ListTasks(t.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{slurm.Label: "7", slurm.Leaves: "n1"}}))(t).GetTasks()[0].GetId()
		must.Get(w.service.PauseTask(t.Context(), &datamovev1.PauseTaskRequest{Id: last}))(t)
		wantsError(t, begins(), mover.ErrRefused, "on n1 is what an earlier run, or job, with the number 7 has left")
		if err := w.In(t.Context(), 7); err == nil || !strings.Contains(err.Error(), "with the number 7") {
			t.Errorf("Slurm does not hold it: %v", err)
		}
		if out := w.prolog(7); out.Dir != "" || len(out.Notes) != 1 {
			t.Errorf("%+v", out)
		}
		must.Do(t, w.Teardown(t.Context(), 7, true))
		must.Get(w.service.CancelTask(t.Context(), &datamovev1.CancelTaskRequest{Id: last}))(t)
		must.Do(t, os.Remove(w.path("results")))
		must.Do(t, os.Mkdir(w.path("results"), 0o777))
		must.Do(t, os.Chmod(w.path("results"), 0o777))
		must.Do(t, begins())
		w.prolog(7)
		w.wrote(7, "out/new")
		must.Do(t, w.Ended(7, End{}))
		must.Do(t, w.Out(t.Context(), 7, 0))
		w.wants("results/7/new", "7 out/new")
		w.wants("results/7/old", "")
	})
}
