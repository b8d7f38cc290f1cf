package slurm

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"datamove.dev/test/must"
)

// TestStageInFails: the job is held, with our text where people look for it; released, it stages again.
func TestStageInFails(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("data_in", `return slurm.ERROR, "stage vision: not there (ask \"anna\")\nsecond = line"`)
	id := c.MustSubmit(Anna, staged)
	j := c.Until(id, "held", func(j Job) bool { return j.State == "PENDING" && j.Priority == "0" && j.SystemComment != "" })
	if want := `burst_buffer/lua:_slurm_bb_data_in:_stage_vision:_not_there_(ask_"anna")_second_=_line`; j.Reason != want {
		t.Errorf("scontrol has the reason %q, want %q", j.Reason, want)
	}
	if want := "burst_buffer/lua: data_in: stage vision: not there (ask \"anna\")\nsecond = line"; !strings.HasSuffix(j.SystemComment, " "+want) {
		t.Errorf("the system comment is %q, want a time and %q", j.SystemComment, want)
	}
	out, err := c.On(Controller, "squeue", "--noheader", "--format=%r", "--jobs="+id)
	if want := "burst_buffer/lua: slurm_bb_data_in: stage vision: not there (ask \"anna\")\nsecond = line\n"; err != nil || out != want {
		t.Errorf("squeue says %q, %v, want %q", out, err, want)
	}
	c.untilPhase(id, "job_teardown true") // by Flags=TeardownFailure

	c.do("data_in", `return slurm.ERROR, string.rep("a", 5000) .. "END"`)
	c.Release(id)
	j = c.Until(id, "held again", func(j Job) bool { return j.Priority == "0" && len(j.Reason) > 5000 })
	if !strings.HasSuffix(j.Reason, "aEND") || !strings.HasSuffix(j.SystemComment, "aEND") {
		t.Errorf("long texts were cut: %d and %d bytes", len(j.Reason), len(j.SystemComment))
	}
	c.do("data_in", `return slurm.SUCCESS`)
	c.Release(id)
	c.UntilState(id, "COMPLETED")
	c.untilPhase(id, "job_teardown false")
	inOrder(t, c.phases(id), "setup", "data_in", "job_teardown true", "setup", "data_in", "job_teardown true", "setup", "data_in", "paths", "pre_run", "job_teardown false")
	c.noDrain()
}

// TestPreRunFails: the job waits with a reason that says where it failed, and its text in the system comment; no node is drained.
func TestPreRunFails(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("pre_run", `return slurm.ERROR, "no room on node1"`)
	id := c.MustSubmit(Anna, staged)
	j := c.Until(id, "waits", func(j Job) bool { return j.State == "PENDING" && j.Reason == "Burst_buffer_pre_run_error" })
	if j.Priority == "0" || !strings.HasSuffix(j.SystemComment, "burst_buffer/lua: pre_run: no room on node1") {
		t.Errorf("%+v", j)
	}
	c.untilPhase(id, "job_teardown true")
	if p := c.phases(id); slices.Contains(p, "prolog node1") || slices.Contains(p, "post_run") || slices.Contains(p, "data_out") {
		t.Errorf("after a pre_run that failed: %q", p)
	}
	c.untilPhase(id, "epilog-slurmctld control")
	c.do("pre_run", `return slurm.SUCCESS`)
	c.BeginAgain(id)
	c.UntilState(id, "COMPLETED")
	// Its node has an Epilog though there was no Prolog, or has not; and no Prolog when it begins anew in the second of that
	// Epilog: all have been seen.
	inOrder(t, c.phases(id), "job_teardown true", "setup", "data_in", "paths", "pre_run", "task-prolog node1")
	c.noDrain()
}

// TestStageOutFails: with TeardownFailure the job is done, and our text is its reason.
func TestStageOutFails(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("data_out", `return slurm.ERROR, "the archive is full"`)
	id := c.MustSubmit(Anna, staged)
	c.untilPhase(id, "job_teardown false")
	j := c.UntilState(id, "COMPLETED")
	if j.Reason != "burst_buffer/lua:_slurm_bb_data_out:_the_archive_is_full" || !strings.HasSuffix(j.SystemComment, "burst_buffer/lua: slurm_bb_data_out: the archive is full") {
		t.Errorf("%+v", j)
	}
}

// TestStageOutStays: without TeardownFailure a job whose data_out failed stays in STAGE_OUT, and a cancel does not help.
func TestStageOutStays(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, func(f fstest.MapFS) {
		f["burst_buffer.conf"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(bbConf, "Flags=TeardownFailure\n", ""))}
	})
	c.do("data_out", `return slurm.ERROR, "the archive is full"`)
	id := c.MustSubmit(Anna, staged)
	c.UntilState(id, "STAGE_OUT")
	c.untilSaid("data_out-ended " + id)
	c.Scancel(id)
	other := c.MustSubmit(Ben, "#!/bin/sh\n") // its node is free
	c.UntilState(other, "COMPLETED")
	if j, err := c.Job(id); err != nil || j.State != "STAGE_OUT" {
		t.Errorf("%+v, %v", j, err)
	}
	if p := c.phases(id); slices.ContainsFunc(p, func(s string) bool { return strings.HasPrefix(s, "job_teardown") }) {
		t.Errorf("phases %q", p)
	}
}

// TestPostRunFails: data_out is not called any more.
func TestPostRunFails(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("post_run", `return slurm.ERROR, "a node does not answer"`)
	id := c.MustSubmit(Anna, staged)
	c.untilPhase(id, "job_teardown false")
	if p := c.phases(id); slices.Contains(p, "data_out") {
		t.Errorf("phases %q", p)
	}
	if j := c.UntilState(id, "COMPLETED"); !strings.HasSuffix(j.SystemComment, "slurm_bb_post_run: a node does not answer") {
		t.Errorf("%+v", j)
	}
}

// Phases with a time limit, and what becomes of a job that they fail in.
var limited = []struct {
	phase   string
	is      func(Job) bool
	comment string // of the system: the end
	last    string
}{
	{"setup", held, "burst_buffer/lua: setup: Timeout @ 3000 msec", "job_teardown true"},
	{"data_in", held, "burst_buffer/lua: data_in: Timeout @ 3000 msec", "job_teardown true"},
	{"pre_run", func(j Job) bool { return j.State == "PENDING" && j.Reason == "Burst_buffer_pre_run_error" }, "burst_buffer/lua: pre_run: Timeout @ 3000 msec", "job_teardown true"},
	{"post_run", completed, "burst_buffer/lua: slurm_bb_post_run: Timeout @ 3000 msec", "job_teardown false"},
	{"data_out", completed, "burst_buffer/lua: slurm_bb_data_out: Timeout @ 3000 msec", "job_teardown false"},
}

func held(j Job) bool      { return j.State == "PENDING" && j.Priority == "0" }
func completed(j Job) bool { return j.State == "COMPLETED" }

// TestTimeouts: a phase that is too slow fails, with Slurm's text and not ours, and what it has started is killed: by SIGTERM, and
// by SIGKILL soon after. A script in Lua that says success in between, when its command has ended, is believed if it is quick
// enough, and the job goes on: that has been seen, and is no test.
func TestTimeouts(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, func(f fstest.MapFS) {
		f["burst_buffer.conf"] = &fstest.MapFile{Data: []byte("Directive=DATAMOVE\nFlags=TeardownFailure\nStageInTimeout=3\nStageOutTimeout=3\nOtherTimeout=3\n")}
	})
	for _, l := range limited {
		c.do(l.phase, `local p = io.popen("sleep 600; echo OK") local said = p:read("*a") p:close() if said ~= "OK\n" then return slurm.ERROR, "cut off" end return slurm.SUCCESS`)
		id := c.MustSubmit(Anna, staged)
		c.untilPhase(id, l.last)
		c.Until(id, "has failed in "+l.phase, func(j Job) bool { return l.is(j) && strings.HasSuffix(j.SystemComment, l.comment) })
		c.Eventually("what it has started is killed", func() error { return gone(c, Controller, "sleep 600") })
		c.do(l.phase, `return slurm.SUCCESS`)
		c.Scancel(id)
	}
	c.noDrain()
}

// TestTeardownFails: it is tried three times.
func TestTeardownFails(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("job_teardown", `return slurm.ERROR, "busy"`)
	id := c.MustSubmit(Anna, staged)
	c.UntilState(id, "COMPLETED")
	c.Eventually("it was tried three times", func() error { return missing(c.said("job_teardown "+id), 3) })
	c.noDrain()
}

// TestInside: slurm_bb_paths runs inside of slurmctld, which answers nobody until it has ended.
func TestInside(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("paths", `os.execute("while [ ! -e /project/go ]; do sleep 0.1; done") return slurm.SUCCESS`)
	id := c.MustSubmit(Anna, staged)
	c.untilPhase(id, "paths")
	if out, err := c.On(Controller, "timeout", "3", "scontrol", "show", "job", id); err == nil {
		t.Errorf("slurmctld answers: %s", out)
	}
	must.Do(t, write(c.Path(Controller, "/project/go"), ""))
	c.UntilState(id, "COMPLETED")
}
