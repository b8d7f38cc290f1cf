package slurm

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"datamove.dev/cmd/datamove-bench/harness"
	"datamove.dev/cmd/datamove/root"
	"datamove.dev/cmd/datamoved/daemon"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

func TestMain(m *testing.M) {
	rig.Be(rig.Commands{"datamove": root.Main, "datamoved": daemon.Main, "datamove-bench": harness.Main})
	Become()
	code := m.Run()
	common.stop()
	os.Exit(code)
}

// TestJob: a job of four nodes, each with disks, processes and an address of its own, in a Slurm that has what a test brings.
func TestJob(t *testing.T) {
	soak(t)
	programs := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(programs, "agent"), []byte("#!/bin/sh\nhostname >/run/agent; exec sleep 600\n"), 0o755))
	c := Start(t, Options{Conf: "Include site.conf\n", Etc: []fs.FS{fstest.MapFS{"site.conf": {Data: []byte("MaxJobCount=77\n")}}}, Binds: map[string]string{"/opt/site/bin": programs}})
	if out := c.Scontrol("show", "config"); !strings.Contains(out, "= 77\n") {
		t.Errorf("what lies beside slurm.conf was not included: %s", out)
	}
	id := c.MustSubmit(Anna, "#!/bin/sh\nsrun sh -c 'echo $(hostname) $(id -un) $(id -Gn) $(hostname >/tmp/mine; cat /tmp/mine)'\n", "-N4")
	c.UntilState(id, "COMPLETED")
	said := c.Output(Anna, id)
	for n := 1; n <= 4; n++ {
		if line := MachineName(n) + " anna anna vision " + MachineName(n) + "\n"; !strings.Contains(said, line) {
			t.Errorf("it said %q, and not %q", said, line)
		}
		must.Do(t, os.WriteFile(c.Path(n, "/local_nvme/mine"), []byte(MachineName(n)), 0o644))
	}
	for n := 1; n <= 4; n++ {
		if out, err := c.On(n, "cat", "/local_nvme/mine"); err != nil || out != MachineName(n) {
			t.Errorf("the disk of node %d has %q, %v", n, out, err)
		}
	}
	must.Tell(t, allIdle(c.Nodes()))
	for _, end := range []func(*Daemon) error{(*Daemon).Stop, (*Daemon).Kill} {
		agent := c.Beside(3, "agent", "/opt/site/bin/agent")
		c.Eventually("it is on node3", func() error { _, err := c.On(3, "grep", "node3", "/run/agent"); return err })
		must.Do(t, end(agent))
		must.Tell(t, gone(c, 3, "sleep 600"))
		must.Do(t, os.Remove(c.Path(3, "/run/agent")))
	}
}

// TestNothingStays: a test that is killed takes its cluster with it.
func TestNothingStays(t *testing.T) {
	soak(t)
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestStaysOn$")
	cmd.Env = append(os.Environ(), staysOn+"="+filepath.Join(t.TempDir(), "pids"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p := must.Get(begin(cmd))(t)
	defer p.kill()
	file := strings.TrimPrefix(cmd.Env[len(cmd.Env)-1], staysOn+"=")
	pids := ""
	patience.Until(t, "a cluster was started", nil, func() bool {
		text, err := os.ReadFile(file)
		pids = string(text)
		return err == nil && pids != ""
	})
	p.kill()
	for pid := range strings.FieldsSeq(pids) {
		patience.Until(t, "process "+pid+" has ended", nil, func() bool {
			_, err := os.Readlink("/proc/" + pid + "/ns/pid") // there is none of one that has ended
			return errors.Is(err, os.ErrNotExist)
		})
	}
}

const staysOn = "DATAMOVE_SLURM_STAYS"

// TestStaysOn is the test that is killed.
func TestStaysOn(t *testing.T) {
	file := os.Getenv(staysOn)
	if file == "" {
		return // of TestNothingStays alone
	}
	c := Start(t, Options{Nodes: 2})
	id := c.MustSubmit(Anna, "#!/bin/sh\nsleep 600\n", "-N2")
	c.UntilState(id, "RUNNING")
	var pids []string
	all := must.Get(filepath.Glob("/proc/[0-9]*"))(t)
	for _, dir := range all {
		for _, m := range c.machines {
			ours := must.Get(os.Readlink("/proc/" + m.pid() + "/ns/pid"))(t)
			if its, err := os.Readlink(dir + "/ns/pid"); err == nil && its == ours {
				pids = append(pids, filepath.Base(dir))
			}
		}
	}
	must.Do(t, os.WriteFile(file+"~", []byte(strings.Join(pids, "\n")), 0o600))
	must.Do(t, os.Rename(file+"~", file))
	select {}
}
