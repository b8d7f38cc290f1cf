package slurm

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"datamove.dev/test/must"
)

// munge starts the daemon by which all parts know each other.
func (c *Cluster) munge() error {
	ids := fmt.Sprint(mungeUID)
	err := c.daemon(Controller, "munged", "setpriv", "--reuid="+ids, "--regid="+ids, "--clear-groups", "munged", "--foreground",
		"--key-file=/etc/munge/munge.key", "--socket=/rig/munge/munge.socket.2", "--pid-file=/rig/munge/munged.pid", "--seed-file=/rig/munge/munged.seed", "--log-file=/rig/munge/munged.log", "--num-threads=2")
	if err == nil {
		c.Eventually("munged answers", func() error { _, err := c.On(Controller, "munge", "-n"); return err })
	}
	return err
}

// slurmctld starts it as root; it becomes SlurmUser.
func (c *Cluster) slurmctld() error {
	run := c.Path(Controller, "/run/slurm")
	if err := errors.Join(os.MkdirAll(run, 0o755), own(run, slurmUID)); err != nil {
		return err
	}
	return c.daemon(Controller, "slurmctld", "slurmctld", "-D")
}

func (c *Cluster) slurmd(n int) error {
	if err := os.MkdirAll(c.Path(n, "/run/slurm"), 0o755); err != nil {
		return err
	}
	return c.daemon(n, "slurmd", "slurmd", "-D")
}

// StartController starts slurmctld again.
func (c *Cluster) StartController() {
	c.t.Helper()
	must.Do(c.t, c.slurmctld())
	c.Eventually("slurmctld answers", func() error {
		out, err := c.On(Controller, "scontrol", "ping")
		if err == nil && !strings.Contains(out, "is UP") {
			err = fmt.Errorf("%s", out)
		}
		return err
	})
}

// StopController ends slurmctld as its unit does.
func (c *Cluster) StopController() {
	c.t.Helper()
	must.Do(c.t, c.machines[Controller].daemons["slurmctld"].Stop())
}

// KillController ends slurmctld by SIGKILL. What it has started is left to see that by itself.
func (c *Cluster) KillController() {
	c.t.Helper()
	must.Do(c.t, c.machines[Controller].daemons["slurmctld"].Kill())
}

// KillNode ends all that runs on a node at once, as if power went. Its disks stay: /var, /tmp, /local_nvme.
func (c *Cluster) KillNode(n int) { c.machines[n].off() }

// StartNode starts a node again, with slurmd alone.
func (c *Cluster) StartNode(n int) {
	c.t.Helper()
	must.Do(c.t, c.machines[n].on(c.machines[Controller], c.o))
	must.Do(c.t, c.slurmd(n))
}

// StopSlurmd ends slurmd of a node as its unit does; jobs go on. StartSlurmd starts it again.
func (c *Cluster) StopSlurmd(n int) {
	c.t.Helper()
	must.Do(c.t, c.machines[n].daemons["slurmd"].Stop())
}

// StartSlurmd starts slurmd of a node that is on.
func (c *Cluster) StartSlurmd(n int) { c.t.Helper(); must.Do(c.t, c.slurmd(n)) }
