package slurm

import (
	"slices"
	"strings"
	"testing"
)

// staged is a batch script with a directive.
const staged = "#!/bin/sh\n#DATAMOVE stage-in=a to=b\necho \"paths said $FROM_PATHS, the prolog $FROM_PROLOG\"\n"

// TestOrder: which phase and hook is called when, and with what.
func TestOrder(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 2}, nil)
	c.do("paths", `local f = io.open(select(3, ...), "w") f:write("FROM_PATHS=a b\n") f:close() return slurm.SUCCESS`)
	c.do("pre_run", `os.execute("sleep 1") return slurm.SUCCESS`)
	c.do("task-prolog", "echo 'export FROM_PROLOG=c d'\n")
	id := c.MustSubmit(Anna, staged, "-N2")
	c.UntilState(id, "COMPLETED")
	for _, last := range []string{"job_teardown false", "epilog node1", "epilog node2", "epilog-slurmctld control"} {
		c.untilPhase(id, last)
	}
	p := c.phases(id)
	t.Log(p)
	inOrder(t, p, "job_process", "setup", "data_in", "paths", "pre_run", "prolog node1", "task-prolog node1", "post_run", "data_out", "job_teardown false")
	inOrder(t, p, "pre_run", "prolog node2", "epilog node2") // no step runs there: by PrologFlags=Alloc alone
	inOrder(t, p, "paths", "prolog-slurmctld control", "prolog node1")
	inOrder(t, p, "task-prolog node1", "epilog-slurmctld control")
	inOrder(t, p, "task-prolog node1", "epilog node1")
	ended := c.said("pre_run-ended " + id)
	if all := c.said(""); len(ended) != 1 || slices.Index(all, ended[0]) > slices.Index(all, "prolog "+id+" node1") {
		t.Errorf("a node's Prolog ran before pre_run had ended: %q", all)
	}
	if got, want := c.Output(Anna, id), "paths said a b, the prolog c d\n"; got != want {
		t.Errorf("the script said %q, want %q", got, want)
	}
	dir := "/var/lib/slurm/slurmctld/hash." + id + "/job." + id
	for _, want := range []string{"job_process " + dir + "/script", "setup " + id + " 5001 5001 (null) 0 " + dir + "/script", "data_in " + id + " " + dir + "/script", "paths " + id + " " + dir + "/script " + dir + "/path",
		"pre_run " + id + " " + dir + "/script", "post_run " + id + " " + dir + "/script", "data_out " + id + " " + dir + "/script", "job_teardown " + id + " " + dir + "/script false"} {
		if !slices.Contains(c.said(""), want) {
			t.Errorf("nobody was called as %q: %q", want, c.said(""))
		}
	}
	c.noDrain()
}

// TestArray: each task of an array goes from setup to teardown with an id of its own.
func TestArray(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	id := c.MustSubmit(Anna, staged, "--array=1-2")
	for _, task := range []string{"1", "2"} {
		j := c.UntilState(id+"_"+task, "COMPLETED")
		if j.ArrayID != id || j.ArrayTask != task {
			t.Errorf("%+v", j)
		}
		c.untilPhase(j.ID, "job_teardown false")
		inOrder(t, c.phases(j.ID), "setup", "data_in", "paths", "pre_run", "prolog node1", "post_run", "data_out", "job_teardown false")
	}
	if got := c.phases(id); slices.Contains(got, "setup") && len(c.said("setup")) != 2 {
		t.Errorf("setup was called for %q", c.said("setup"))
	}
}

// TestRequeue: a running job that is requeued leaves as one that has ended, and comes again from setup on, with the same id.
func TestRequeue(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("epilog", "echo \"restarts $SLURM_JOB_ID $SLURM_JOB_RESTART_COUNT\" >>/project/said\n")
	id := c.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE dw\n[ \"$SLURM_RESTART_COUNT\" ] || sleep 600\n")
	c.untilPhase(id, "task-prolog node1")
	c.Requeue(id)
	c.untilPhase(id, "job_teardown false")
	c.Until(id, "waits for its time", func(j Job) bool { return j.State == "PENDING" && j.Reason == "BeginTime" && j.Restarts == "1" })
	c.BeginAgain(id)
	c.UntilState(id, "COMPLETED")
	c.untilSaid("restarts " + id)
	c.Eventually("both ends are recorded", func() error { return missing(c.said("restarts "+id), 2) })
	p := c.phases(id)
	// There is a second Prolog, unless the job begins on the same node in the second of its Epilog: both have been seen.
	inOrder(t, p, "setup", "data_in", "prolog node1", "task-prolog node1", "post_run", "data_out", "job_teardown false", "setup", "data_in", "paths", "pre_run", "task-prolog node1", "post_run")
	inOrder(t, p, "prolog node1", "task-prolog node1", "epilog node1", "task-prolog node1", "epilog node1")
	// The Epilog of the first time already has the count of the next.
	if got, want := strings.Join(c.said("restarts"), ","), "restarts "+id+" 1,restarts "+id+" 1"; got != want {
		t.Errorf("got %q, want %s", got, want)
	}
}

// TestCancel: what is called when a job is cancelled, by when.
func TestCancel(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	running := c.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE dw\nsleep 600\n")
	c.untilPhase(running, "task-prolog node1")
	c.Scancel(running)
	c.UntilState(running, "CANCELLED")
	c.untilPhase(running, "job_teardown false")
	inOrder(t, c.phases(running), "post_run", "data_out", "job_teardown false")

	c.do("data_in", `os.execute("sleep 30; echo data_in-outlived >>/project/said") return slurm.SUCCESS`)
	staging := c.MustSubmit(Anna, staged)
	c.untilPhase(staging, "data_in")
	c.Scancel(staging)
	c.UntilState(staging, "CANCELLED")
	c.Eventually("what data_in has started is killed", func() error { return gone(c, Controller, "sleep 30") })
	if p := c.phases(staging); slices.Contains(p, "data_out") || slices.Contains(p, "post_run") {
		t.Errorf("a job whose data was still coming had %q", p)
	}

	c.do("data_in", `return slurm.SUCCESS`)
	c.do("pre_run", `os.execute("sleep 31; echo pre_run-outlived >>/project/said") return slurm.SUCCESS`)
	configuring := c.MustSubmit(Anna, staged)
	c.untilPhase(configuring, "pre_run")
	c.Scancel(configuring)
	c.UntilState(configuring, "CANCELLED")
	c.Eventually("what pre_run has started is killed", func() error { return gone(c, Controller, "sleep 31") })
	// Both jobs have a teardown(true), and this one an EpilogSlurmctld, unless Slurm kills them with the rest: all of that has been seen.
	if p := c.phases(configuring); slices.Contains(p, "data_out") || slices.Contains(p, "post_run") {
		t.Errorf("a job that never began had %q", p)
	}
	c.noDrain()
}
