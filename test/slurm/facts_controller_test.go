package slurm

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestReconfigure: scontrol reconfigure does not disturb a job that is being staged.
func TestReconfigure(t *testing.T) {
	soak(t)
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

func (c *Cluster) letGo() { c.t.Helper(); must.Do(c.t, write(c.Path(Controller, "/project/go"), "")) }

// TestRestart: slurmctld is stopped, and started again, while a job is in a phase: what has that phase started is killed, and
// it is called again; after data_in with a teardown before, a minute later.
func TestRestart(t *testing.T) {
	soak(t)
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
			must.Do(t, gone(c, Controller, "sh -c while")) // what the phase has started is dead when slurmctld has ended
			c.letGo()
			c.StartController()
			c.UntilState(id, "COMPLETED")
			c.untilPhase(id, "job_teardown false")
			inOrder(t, c.phases(id), want...)
			c.noDrain()
		})
	}
}

// TestCrash: slurmctld is killed, and what its phases have started with it. It knows what it had saved, up to some seconds before
// of jobs and half a minute before of burst buffers.
func TestCrash(t *testing.T) {
	soak(t)
	t.Run("just after the submission", func(t *testing.T) {
		t.Parallel()
		c, id := crashed(t, "data_in", func(c *Cluster) { c.save() }, func(*Cluster) {})
		if j, err := c.Job(id); err == nil {
			t.Logf("this time the job was saved in the moment before: %+v", j)
			return
		}
		if p := c.phases(id); !slices.Equal(p, []string{"job_process", "setup", "data_in"}) { // nobody calls its teardown
			t.Errorf("phases %q", p)
		}
	})
	t.Run("in data_in", func(t *testing.T) {
		t.Parallel()
		c, id := crashed(t, "data_in", func(*Cluster) {}, (*Cluster).save)
		c.UntilState(c.MustSubmit(Ben, staged), "COMPLETED") // others are not held up
		if j, err := c.Job(id); err != nil || j.State != "PENDING" || j.Reason != "BurstBufferStageIn" {
			t.Errorf("%+v, %v", j, err)
		}
		c.Scancel(id)
		c.UntilState(id, "CANCELLED")
		phases := []string{"job_process", "setup", "data_in"} // it would wait for ever
		if killed := c.untilTornOrKilled(id, c.phases); !killed {
			phases = append(phases, "job_teardown true")
		} else { // and no slurmctld calls it again: it has recovered no burst buffer
			t.Log("this time slurmctld killed the teardown in the moment after")
		}
		if p := c.phases(id); !slices.Equal(p, phases) {
			t.Errorf("phases %q, want %q", p, phases)
		}
	})
	t.Run("in pre_run", func(t *testing.T) {
		t.Parallel()
		c, id := crashed(t, "pre_run", func(*Cluster) {}, (*Cluster).save)
		c.UntilState(id, "COMPLETED")
		c.untilPhase(id, "job_teardown false")
		inOrder(t, c.phases(id), "paths", "pre_run", "paths", "pre_run", "prolog node1", "job_teardown false")
		c.noDrain()
	})
	t.Run("in data_out", func(t *testing.T) {
		t.Parallel()
		c, id := crashed(t, "data_out", func(*Cluster) {}, (*Cluster).save)
		c.UntilState(c.MustSubmit(Ben, staged), "COMPLETED")
		c.Scancel(id) // is of no use
		if j, err := c.Job(id); err != nil || j.State != "STAGE_OUT" {
			t.Errorf("%+v, %v", j, err)
		}
		if n := len(c.said("data_out " + id)); n != 1 {
			t.Errorf("data_out was called %d times", n)
		}
		c.Requeue(id) // ends that: it runs again
		c.Until(id, "waits for its time", func(j Job) bool { return j.State == "PENDING" && j.Reason == "BeginTime" })
	})
}

// crashed has slurmctld crash when a job is in a phase, with what is to be done before its submission and before the crash, and
// starts it again.
func crashed(t *testing.T, phase string, before, then func(*Cluster)) (c *Cluster, id string) {
	t.Helper()
	c = recorded(t, Options{Nodes: 1}, nil)
	c.do(phase, waiting)
	before(c)
	id = c.MustSubmit(Anna, staged)
	c.untilPhase(id, phase)
	then(c)
	c.KillController()
	c.Eventually("what the phase has started is killed", func() error { return gone(c, Controller, "sh -c while") })
	c.letGo()
	c.StartController()
	return c, id
}

// save waits until slurmctld has written down what it knows of jobs.
func (c *Cluster) save() {
	c.t.Helper()
	const mark = "job-that-is-saved"
	c.MustSubmit(Carl, "#!/bin/sh\n", "--hold", "--job-name="+mark)
	c.Eventually("the state is saved", func() error {
		text, err := os.ReadFile(c.Path(Controller, "/var/lib/slurm/slurmctld/job_state"))
		if err == nil && !strings.Contains(string(text), mark) {
			err = errors.New("it is another one")
		}
		return err
	})
}
