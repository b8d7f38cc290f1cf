package root

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestOutlives: the second process of a phase sees whether the first one was killed alone, as for a job that is cancelled, or went with its slurmctld.
//
//safety:5/jobs with tiering/slurm/burstbuffer TestKilled
func TestOutlives(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.yaml":  "tiers:\n  scratch: {level: hot, path: DIR/scratch, ephemeral: true, node_local: true}\nslurm: {records: DIR/records}\nservice: unix://DIR/nobody\n",
		"job.sh":       "#!/bin/sh\n#DATAMOVE stage-in=dataset:train\n",
		"slurmctld":    "#!/bin/sh\nDIR/slurmscriptd \"$@\"\nexec sleep 600\n",
		"slurmscriptd": "#!/bin/sh\n\"$@\"\nexec sleep 600\n",
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), 0o755))
	}
	t.Setenv("DATAMOVE_CONFIG", filepath.Join(dir, "config.yaml"))
	script, record := filepath.Join(dir, "job.sh"), filepath.Join(dir, "records/7.job")
	if out, err := exec.Command("datamove", "hook", "bb", "setup", "7", "1000", "1000", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	was := must.Get(os.ReadFile(record))(t)

	daemon, said := begun(t, filepath.Join(dir, "slurmctld"), "datamove", "hook", "bb", "data_in", "7", script)
	scripts := children(t, daemon.Process.Pid)[0]
	first := children(t, scripts.Pid)[0]
	for _, p := range []*os.Process{first, scripts, daemon.Process} {
		must.Do(t, p.Kill())
	}
	next, nextSaid := begun(t, "datamove", "hook", "bb", "data_in", "7", script)
	silent(said)
	if now, err := os.ReadFile(record); err != nil || string(now) != string(was) {
		t.Errorf("a run whose slurmctld has ended is over, %v", err)
	}
	must.Do(t, next.Process.Kill())
	silent(nextSaid)
	if _, err := os.Stat(record); !os.IsNotExist(err) {
		t.Errorf("a run that is cancelled goes on, %v", err)
	}
}

// begun starts a phase, and returns when its second process is at work.
func begun(t *testing.T, args ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	errors := must.Get(cmd.StderrPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	said := bufio.NewScanner(errors)
	for said.Scan() {
		if strings.Contains(said.Text(), "will ask again") {
			return cmd, said
		}
	}
	t.Fatalf("%s has ended", args)
	return nil, nil
}

// silent waits for the end of all that say something there.
func silent(said *bufio.Scanner) {
	for said.Scan() {
	}
}

// children are the processes that a process has started.
func children(t *testing.T, pid int) (all []*os.Process) {
	t.Helper()
	lists := must.Get(filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)))(t)
	for _, name := range lists {
		text, _ := os.ReadFile(name) // a thread may have ended
		for _, number := range strings.Fields(string(text)) {
			n := must.Get(strconv.Atoi(number))(t)
			p := must.Get(os.FindProcess(n))(t)
			all = append(all, p)
		}
	}
	return all
}
