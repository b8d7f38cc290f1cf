package slurm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestReconfigure: scontrol reconfigure does not disturb a job that is being staged.
func TestReconfigure(t *testing.T) {
	long(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("data_in", waiting)
	id := c.MustSubmit(Anna, staged)
	c.untilPhase(id, "data_in")
	c.Scontrol("reconfigure")
	c.letGo()
	c.UntilState(id, "COMPLETED")
	c.untilPhase(id, "job_teardown false")
	if n := len(c.said("data_in " + id)); n != 1 {
		t.Errorf("it was staged %d times: %q", n, c.phases(id))
	}
	c.noDrain()
}

// waiting is what a phase does until letGo.
const waiting = `os.execute("while [ ! -e /project/go ]; do sleep 0.2; done") return slurm.SUCCESS`

func (c *Cluster) letGo() { c.t.Helper(); must(c.t, write(c.Path(Controller, "/project/go"), "")) }

// TestRestart: slurmctld is stopped, and started again, while a job is in a phase: what has that phase started is killed, and
// it is called again; after data_in with a teardown before, a minute later.
func TestRestart(t *testing.T) {
	slow(t)
	for phase, want := range map[string][]string{
		"data_in":  {"setup", "data_in", "job_teardown true", "setup", "data_in", "paths", "pre_run"},
		"pre_run":  {"data_in", "paths", "pre_run", "paths", "pre_run", "prolog node1"},
		"post_run": {"pre_run", "prolog node1", "post_run", "post_run", "data_out", "job_teardown false"},
		"data_out": {"post_run", "data_out", "post_run", "data_out", "job_teardown false"},
	} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, Options{Nodes: 1}, nil)
			c.do(phase, waiting)
			id := c.MustSubmit(Anna, staged)
			c.untilPhase(id, phase)
			c.StopController()
			must(t, gone(c, "sh -c while")) // what the phase has started is dead when slurmctld has ended
			c.letGo()
			c.StartController()
			c.UntilState(id, "COMPLETED")
			c.untilPhase(id, "job_teardown false")
			inOrder(t, c.phases(id), want...)
			c.noDrain()
		})
	}
}

// TestCrash: slurmctld is killed. It knows what it had saved, up to some seconds before of jobs and half a minute before of burst
// buffers: a job that was submitted just before is not known any more, and nobody calls its teardown; one that was leaving stays
// in STAGE_OUT.
func TestCrash(t *testing.T) {
	slow(t)
	t.Run("just after the submission", func(t *testing.T) {
		t.Parallel()
		c := recorded(t, Options{Nodes: 1}, nil)
		c.do("data_in", waiting)
		old := c.MustSubmit(Ben, "#!/bin/sh\n", "--hold")
		c.save(old)
		id := c.MustSubmit(Anna, staged)
		c.untilPhase(id, "data_in")
		c.KillController()
		c.Eventually("what data_in has started is killed", func() error { return gone(c, "sh -c while") })
		c.letGo()
		c.StartController()
		if j, err := c.Job(old); err != nil || j.State != "PENDING" {
			t.Errorf("%+v, %v", j, err)
		}
		if j, err := c.Job(id); err == nil {
			t.Logf("this time the job is known: %+v", j) // saved in the moment before
			return
		}
		if p := c.phases(id); slices.Contains(p, "job_teardown true") {
			t.Errorf("phases %q", p)
		}
	})
	for phase, want := range map[string][]string{
		"data_in": {"setup", "data_in", "setup", "data_in", "paths", "pre_run", "job_teardown false"}, // no teardown between
		"pre_run": {"paths", "pre_run", "paths", "pre_run", "prolog node1", "job_teardown false"},
	} {
		t.Run("in "+phase, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, Options{Nodes: 1}, nil)
			c.do(phase, waiting)
			id := c.MustSubmit(Anna, staged)
			c.untilPhase(id, phase)
			c.save(id)
			c.KillController()
			c.letGo()
			c.StartController()
			c.UntilState(id, "COMPLETED")
			c.untilPhase(id, "job_teardown false")
			inOrder(t, c.phases(id), want...)
			c.noDrain()
		})
	}
}

// save waits until slurmctld has written down how a job is now.
func (c *Cluster) save(id string) {
	c.t.Helper()
	mark := "saved-" + id
	c.Scontrol("update", "jobid="+id, "comment="+mark)
	c.Eventually("the state is saved", func() error {
		text, err := os.ReadFile(c.Path(Controller, "/var/lib/slurm/slurmctld/job_state"))
		if err == nil && !strings.Contains(string(text), mark) {
			err = errors.New("it is another one")
		}
		return err
	})
}
