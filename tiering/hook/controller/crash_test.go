package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"datamove.dev/api"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/tiering/hook"
)

// crash is one job whose phases are killed, each as often as a die says.
type crash struct {
	*world
	*rand.Rand
	cli *rig.Program
	id  uint32
	run int // of the job: it may be requeued

	killed int        // phases
	lost   []*rig.Run // whose phases may be at work still
}

// TestKilled kills phases, and the mover, and lets the job be requeued; in the end all is as if nobody had. The seed decides what is killed, and when.
//
//safety:5/jobs phases and the mover killed at any moment, teardowns that are half done or lost, runs that never began, copies that fail for good or can not begin, runs of a job that was requeued, a run that is given up beside the next one, or that its slurmctld has left, a phase that is killed before what outlives it has begun, a number that comes again for another person
func TestKilled(t *testing.T) {
	t.Parallel()
	random := kill.Random(t)
	w := served(t)
	for i := range kill.Times(1, 50) {
		c := &crash{world: w, Rand: random, cli: w.cli(), id: uint32(100 + i)}
		c.whole()
		t.Logf("%d phases were killed, in %d runs", c.killed, c.run)
		if t.Failed() {
			t.Fatalf("job %d", i)
		}
	}
}

// whole is a job from its submission to its end.
func (c *crash) whole() {
	c.Helper()
	c.cli.Env = append(c.cli.Env, "SLURM_JOB_NODELIST=n1", "SLURM_JOB_NAME=train", "SLURM_JOB_EXIT_CODE=0", fmt.Sprintf("SLURM_JOB_ID=%d", c.id))
	uid, purged := fmt.Sprint(c.uid), fmt.Sprintf("temp/%d", c.id)
	c.write(purged+"/file", "to be purged")
	must(c.T, os.Chown(c.path(purged), int(c.uid), int(c.uid)))
	c.write("job.sh", script("stage-in=dataset:train required", "stage-in=shared:notes to=scratch:notes required", "stage-out=scratch:out to=results:%j", "purge=temp:"+fmt.Sprint(c.id)))
	dir := "scratch/jobs/" + c.job(c.id).Dir()
	for c.run = 1; ; c.run++ {
		c.phase("setup", uid, uid, c.path("job.sh"))
		if c.run < 3 && c.IntN(4) == 0 {
			c.lose(c.cli.Start(c.T, "hook", "bb", "data_in", fmt.Sprint(c.id), "job.sh"))
			if c.staged() || c.IntN(2) == 0 {
				c.phase("teardown", "job.sh", "true")
			}
			continue
		}
		c.phase("data_in")
		if c.requeued() {
			c.phase("teardown", "job.sh", "true")
			continue
		}
		c.phase("prolog-slurmctld")
		if c.run < 3 && c.IntN(2) == 0 { // whose end is that of the run: what is left of it goes by itself, also where Slurm kills its teardown, too
			c.lose(c.cli.Start(c.T, "hook", "bb", "pre_run", fmt.Sprint(c.id), "job.sh"))
			if c.ready() || c.IntN(2) == 0 {
				c.phase("teardown", "job.sh", "true")
			}
			continue
		}
		c.cli.Start(c.T, "hook", "bb", "pre_run", fmt.Sprint(c.id), "job.sh").Want(0)
		c.prolog(c.id)
		c.wants(dir+"/train/picture", "a picture")
		c.wants(dir+"/notes/note", "a note")
		c.wrote(c.id, fmt.Sprintf("out/run%d", c.run))
		if !c.epilog(c.id) {
			c.Fatal("its results are gone")
		}
		c.phase("epilog-slurmctld")
		c.phase("data_out")
		c.phase("teardown", "job.sh", "false")
		c.wants(fmt.Sprintf("results/%d/run%d", c.id, c.run), fmt.Sprintf("%d out/run%d", c.id, c.run))
		if !c.requeued() {
			break
		}
	}
	c.ends(purged)
}

// lose kills a phase that brings data as Slurm does, and sometimes what outlives it, too. Else that is at work still beside the phases behind it.
func (c *crash) lose(r *rig.Run) {
	c.Helper()
	time.Sleep(time.Duration(c.IntN(80)) * time.Millisecond) // a random instant is what this is about
	outlives := children(c.T, r.PID())
	r.Signal(syscall.SIGKILL)
	r.Until("it is dead", func() bool { return errors.Is(syscall.Kill(r.PID(), 0), syscall.ESRCH) })
	if c.IntN(2) == 0 {
		for _, p := range outlives {
			_ = p.Kill() // it may have ended
		}
	}
	c.lost = append(c.lost, r)
	c.killed++
}

// ready says whether pre_run has come to its end, so that Slurm kills no teardown any more.
func (c *crash) ready() bool {
	x, err := c.Controller.Run(c.id)
	return err == nil && c.records().begun(x)
}

// staged says the same of data_in.
func (c *crash) staged() bool {
	var s Staged
	err := c.records().read(c.id, fileStaged, &s)
	return err == nil && len(s.Paths) > 0
}

// requeued says whether the job begins anew.
func (c *crash) requeued() bool { return c.run < 3 && c.IntN(3) == 0 }

// phase runs one to its end, after some that were killed before it, or lost the mover.
func (c *crash) phase(name string, args ...string) {
	c.Helper()
	line := append([]string{"hook", "bb", name, fmt.Sprint(c.id)}, args...)
	if strings.HasSuffix(name, "slurmctld") {
		line = []string{"hook", name}
	} else if len(args) == 0 {
		line = append(line, "job.sh")
	}
	for range c.IntN(4) {
		if c.kill(c.cli.Start(c.T, line...), time.Duration(c.IntN(80))*time.Millisecond) {
			c.killed++
		}
	}
	r := c.cli.Start(c.T, line...)
	if c.IntN(6) == 0 {
		c.kill(r, 0)
		r = c.cli.Start(c.T, line...)
		c.service.KillAfter(time.Duration(c.IntN(120)) * time.Millisecond)
		c.start()
	}
	r.Want(0)
}

// kill kills a phase together with what outlives it, as the end of a host does: killed alone, the phase would end the run. It reports whether it was killed.
func (c *crash) kill(r *rig.Run, after time.Duration) bool {
	c.Helper()
	time.Sleep(after) // a random instant is what this is about
	r.Signal(syscall.SIGSTOP)
	for _, p := range children(c.T, r.PID()) {
		_ = p.Kill() // it may have ended
	}
	return r.KillAfter(0)
}

// ends looks whether nothing of the job is left.
func (c *crash) ends(purged string) {
	c.Helper()
	for _, r := range c.lost {
		r.Wait() // also for what outlives it, which has the same output
	}
	c.cli.Do(c.T, 0, "hook", "bb", "teardown", "1", "job.sh", "false") // what a mover that was away has not heard it hears now
	c.wants(purged+"/file", "")
	if c.epilog(c.id) {
		c.Error("its directory stays")
	}
	for t, err := range c.client.Tasks(c.Context(), &datamovev1.ListTasksRequest{Labels: map[string]string{hook.Label: fmt.Sprint(c.id)}}) {
		must(c.T, err)
		if !api.Ended(t.GetState()) {
			c.Errorf("%s of %s is left", t.GetState(), t.GetSpec())
		}
	}
	c.wantsHeld()
	for _, what := range []string{fileJob, fileEnded} { // what means nothing without them goes after an hour
		if left, err := c.records().all(what); err != nil || len(left) > 0 {
			c.Errorf("%v have a record still, %v", left, err)
		}
	}
}
