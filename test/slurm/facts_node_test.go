package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"datamove.dev/test/must"
)

// TestSlowProlog: a Prolog that takes longer than BatchStartTimeout (10 s) does no harm: the job waits, and runs.
func TestSlowProlog(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 2}, nil)
	c.do("prolog", "sleep 20\n")
	id := c.MustSubmit(Anna, staged, "-N2")
	c.untilPhase(id, "prolog node1")
	c.Until(id, "in its Prolog", func(j Job) bool { return j.State == "RUNNING" && j.Reason == "Prolog" })
	j := c.UntilState(id, "COMPLETED")
	if j.Restarts != "0" || c.Output(Anna, id) == "" {
		t.Errorf("%+v said %q", j, c.Output(Anna, id))
	}
	c.noDrain()
}

// TestFailedHooks: an exit code of a hook that is not 0, and what it does to node and job.
func TestFailedHooks(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 4}, nil)
	fails := func(n int) string { return fmt.Sprintf("[ $(hostname) != node%d ] || exit 1\n", n) }
	c.do("prolog", fails(1))
	c.do("epilog", fails(2))
	prolog := c.MustSubmit(Anna, staged, "-wnode1")
	epilog := c.MustSubmit(Anna, staged, "-wnode2")
	c.Until(prolog, "held", func(j Job) bool { return j.State == "PENDING" && j.Priority == "0" && j.Restarts == "1" })
	c.UntilState(epilog, "COMPLETED")
	drained := func(n int, reason string) {
		t.Helper()
		c.Eventually(MachineName(n)+" is drained", func() error {
			if node := c.Nodes()[n-1]; node.State != "IDLE+DRAIN" || !strings.HasPrefix(node.Reason, reason) {
				return fmt.Errorf("%+v", node)
			}
			return nil
		})
	}
	drained(1, "Prolog error")
	drained(2, "Epilog error")
	c.untilPhase(prolog, "job_teardown false")
	inOrder(t, c.phases(prolog), "pre_run", "prolog node1", "post_run", "data_out", "job_teardown false") // though it never ran

	c.do("task-prolog", "exit 1\n")
	j := c.UntilState(c.MustSubmit(Anna, staged, "-wnode3"), "FAILED")
	t.Logf("a TaskProlog that fails: %+v", j)
	c.do("prolog-slurmctld", "exit 1\n")
	id := c.MustSubmit(Anna, staged, "-wnode3")
	c.untilPhase(id, "prolog-slurmctld control")
	c.Until(id, "waits for its time", func(j Job) bool { return j.State == "PENDING" && j.Reason == "BeginTime" && j.Priority != "0" })
	for _, n := range c.Nodes()[2:] {
		if n.State != "IDLE" {
			t.Errorf("%+v", n)
		}
	}
}

// TestNodeDies: a node that loses power while jobs run. Its jobs end with all phases when Slurm notices, other nodes have their
// Epilog, and the node has none: neither then, nor when it is back.
func TestNodeDies(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 3, Conf: "SlurmdTimeout=5\n"}, nil)
	const script = "#!/bin/sh\n#DATAMOVE dw\nsleep 600\n"
	again := c.MustSubmit(Anna, script, "-wnode[1-2]")
	once := c.MustSubmit(Ben, script, "-wnode[1-2]", "--no-requeue")
	c.untilPhase(again, "task-prolog node1")
	c.untilPhase(once, "task-prolog node1")
	must.Do(t, write(c.Path(1, "/local_nvme/left"), "data"))
	c.KillNode(1)
	c.UntilState(once, "NODE_FAIL")
	c.Until(again, "waits for its time", func(j Job) bool { return j.State == "PENDING" && j.Reason == "BeginTime" && j.Restarts == "1" })
	if n := c.Nodes()[0]; n.State != "DOWN+NOT_RESPONDING" || !strings.HasPrefix(n.Reason, "Not responding") {
		t.Errorf("%+v", n)
	}
	for _, id := range []string{again, once} {
		c.untilPhase(id, "epilog node2")
		c.untilPhase(id, "job_teardown false")
		inOrder(t, c.phases(id), "task-prolog node1", "post_run", "data_out", "job_teardown false")
	}
	for _, id := range []string{again, once} {
		if slices.Contains(c.phases(id), "epilog node1") {
			t.Errorf("a node that is off had an Epilog: %q", c.phases(id))
		}
	}
	c.StartNode(1)
	c.Eventually("all nodes are idle", func() error { return allIdle(c.Nodes()) })
	if out, err := c.On(1, "cat", "/local_nvme/left"); err != nil || out != "data" {
		t.Errorf("the disk of a node that came back has %q, %v", out, err)
	}
	c.BeginAgain(again)
	c.Eventually("it runs again", func() error { return missing(c.said("task-prolog "+again), 2) })
	c.noDrain()
	// When the node was off for some seconds only, there is an Epilog of the first time now, perhaps while the job begins
	// anew, which may then have no Prolog there; later there is none at all.
	t.Logf("%q", c.phases(again))
}

// TestLiveJobs: which jobs are on a node is seen in /proc, and with PrologFlags=Contain on all nodes of a job: each step, and
// the allocation, is a slurmstepd of root whose command line is the name, and perhaps NULs.
func TestLiveJobs(t *testing.T) {
	soak(t)
	for flags, want := range map[string][2]string{"Alloc": {"batch 0", "0"}, "Alloc,Contain": {"extern batch 0", "extern 0"}} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			c := recorded(t, Options{Nodes: 3, Conf: "PrologFlags=" + flags + "\n"}, nil)
			id := c.MustSubmit(Anna, "#!/bin/sh\nsrun -N2 -n2 -r0 sh -c 'echo >>/project/steps; sleep 600' &\nwait\n", "-N3")
			c.Eventually("a step runs on two nodes", func() error { return missing(strings.Split(c.read("steps"), "\n"), 3) })
			wants := []string{want[0], want[1], strings.TrimSuffix(strings.TrimSuffix(want[1], "0"), " ")}
			for i, steps := range wants {
				var names []string
				for step := range strings.FieldsSeq(steps) {
					names = append(names, "slurmstepd: ["+id+"."+step+"]")
				}
				slices.Sort(names)
				c.Eventually("the steps of "+MachineName(i+1), func() error {
					if got := c.steps(i + 1); !slices.Equal(got, names) {
						return fmt.Errorf("%q, want %q", got, names)
					}
					return nil
				})
			}
			c.StopSlurmd(1) // they do without it
			if got := c.steps(1); len(got) != len(strings.Fields(wants[0])) {
				t.Errorf("without slurmd there are %q", got)
			}
			c.StartSlurmd(1)
			c.Scancel(id)
			c.untilPhase(id, "epilog node3")
			for n := 1; n <= 3; n++ {
				c.Eventually("no step is left", func() error {
					if got := c.steps(n); len(got) > 0 {
						return fmt.Errorf("%q", got)
					}
					return nil
				})
			}
		})
	}
}

// steps are the command lines of the processes of root on a node whose program is slurmstepd, without NULs at the end.
func (c *Cluster) steps(n int) (names []string) {
	out, err := c.On(n, "sh", "-c", `for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != slurmstepd ] || [ "$(stat -c %u $p)" != 0 ] || { tr '\0' ' ' <$p/cmdline; echo; }; done 2>/dev/null; true`)
	if err != nil {
		return []string{err.Error()}
	}
	for line := range strings.Lines(out) {
		names = append(names, strings.TrimSpace(line))
	}
	slices.Sort(names)
	return names
}
