package controller

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/crash/rig"
)

// TestDeserted: when slurmctld ends, what a phase of its was bringing goes on, and is what the next one waits for. When the phase alone is
// killed, because the job is cancelled, it ends.
//
//safety:5/jobs with TestKilled
func TestDeserted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"data_in", "pre_run"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			deserted(t, name)
		})
	}
}

func deserted(t *testing.T, phaseName string) {
	w := served(t)
	data := make([]byte, 8<<20) // 8 s
	_, _ = rand.NewChaCha8([32]byte{}).Read(data)
	w.write("slow/data7/file", string(data))
	w.large("slow/data8/file") // more than comes while slurmctld is given time to end
	w.write("slurmctld", "#!/bin/sh\n"+w.path("slurmscriptd")+" \"$@\"\nexec sleep 600\n")
	w.write("slurmscriptd", "#!/bin/sh\n\"$@\"\nexec sleep 600\n")
	for _, name := range []string{"slurmctld", "slurmscriptd"} {
		must(t, os.Chmod(w.path(name), 0o755))
	}
	begun := func(id uint32) (daemon *rig.Run, script, phase *os.Process) {
		t.Helper()
		if phaseName == "data_in" {
			w.setup(id, fmt.Sprintf("stage-in=slow:data%d to=results:data%d", id, id))
		} else {
			w.setup(id, fmt.Sprintf("stage-in=slow:data%d to=scratch:data required", id))
			must(t, w.In(t.Context(), id))
			w.nodes(id, "n1")
		}
		cli := w.cli()
		cli.Wrapper = []string{w.path("slurmctld")}
		daemon = cli.Start(t, "hook", "bb", phaseName, fmt.Sprint(id), "job.sh")
		w.until("it is copied", func() bool { return len(w.tasks(id)) == 1 && w.tasks(id)[0] == "copy RUNNING" })
		script = children(t, daemon.PID())[0]
		return daemon, script, children(t, script.Pid)[0]
	}
	stopped, script, phase := begun(7)
	must(t, phase.Kill())
	must(t, script.Kill())
	stopped.Signal(syscall.SIGKILL)
	cancelled, script, phase := begun(8)
	must(t, phase.Kill())
	w.cli().Do(t, 0, "hook", "bb", phaseName, "7", "job.sh")
	w.wantsTasks(7, "copy DONE")
	if phaseName == "data_in" {
		w.wants("results/data7/file", string(data))
	} else {
		w.wants("scratch/jobs/"+w.job(7).Dir()+"/data/file", string(data))
	}
	stopped.Wait() // also for what outlives it, which has the same output
	w.until("the job that was cancelled is undone", func() bool {
		_, err := w.Controller.Run(8)
		left, _ := w.records().all(fileEnded)
		return errors.Is(err, mover.ErrNotExist) && len(left) == 0
	})
	w.wantsTasks(8, "copy CANCELLED")
	must(t, script.Kill())
	cancelled.Signal(syscall.SIGKILL)
	cancelled.Wait()
	must(t, w.Teardown(t.Context(), 7, true))
	w.wantsUndone()
}

// TestOutlivedLate: a phase is killed at once, and the job begins anew before what outlives the phase has begun. That does not end the new run.
//
//safety:5/jobs with TestKilled
func TestOutlivedLate(t *testing.T) {
	t.Parallel()
	w := served(t)
	w.setup(7, "stage-in=dataset:near")
	old, err := w.Controller.Run(7)
	must(t, err)
	w.setup(7, "stage-in=dataset:near")
	for _, phase := range []string{"data_in", "pre_run"} {
		late := w.cli()
		late.Wrapper = []string{"sh", "-c", `true | "$@" 3<&0`, "sh"} // its pipe has ended
		late.Env = append(late.Env, "DATAMOVE_OUTLIVES=0 "+old.RunID())
		late.Do(t, 5, "hook", "bb", phase, "7", "job.sh")
		if now, err := w.Controller.Run(7); err != nil || now.RunID() == old.RunID() {
			t.Fatalf("after a late %s: %v, %v", phase, now, err)
		}
	}
	w.cli().Do(t, 0, "hook", "bb", "data_in", "7", "job.sh")
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) (all []*os.Process) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	must(t, err)
	for _, name := range lists {
		text, _ := os.ReadFile(name) // a thread may have ended
		for _, number := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(number)
			must(t, err)
			p, err := os.FindProcess(n)
			must(t, err)
			all = append(all, p)
		}
	}
	return all
}
