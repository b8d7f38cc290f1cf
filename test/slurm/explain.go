package slurm

import (
	"os"
	"strings"
)

// Log is what a daemon has written: slurmctld, munged, or what was started beside them on machine n, and slurmd of a node.
func (c *Cluster) Log(n int, daemon string) string {
	file := logFile(n, daemon)
	switch daemon {
	case "slurmctld":
		file = "/var/log/slurm/slurmctld.log"
	case "slurmd":
		file = disk(n) + "/var/log/slurm/slurmd.log"
	}
	text, err := os.ReadFile(c.Path(Controller, file))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// explain shows what is needed to see why a test failed.
func (c *Cluster) explain() {
	c.t.Helper()
	if len(c.machines) == 0 || c.machines[Controller].one == nil {
		return
	}
	for _, args := range []string{"show job", "show node", "show burstbuffer"} {
		out, err := c.On(Controller, append([]string{"scontrol"}, strings.Fields(args)...)...)
		c.t.Logf("scontrol %s: %v\n%s", args, err, tail(out))
		if err != nil {
			break // nobody answers
		}
	}
	c.t.Logf("end of the log of slurmctld:\n%s", tail(c.Log(Controller, "slurmctld")))
	for _, m := range c.machines {
		if m.number != Controller {
			c.t.Logf("end of the log of slurmd of %s:\n%s", m.name(), tail(c.Log(m.number, "slurmd")))
		}
		for name := range m.daemons {
			said, err := os.ReadFile(c.Path(Controller, logFile(m.number, name)))
			if err == nil && len(said) > 0 {
				c.t.Logf("%s of %s said:\n%s", name, m.name(), tail(string(said)))
			}
		}
	}
}

func tail(s string) string { return s[max(0, len(s)-4000):] }
