package slurm

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"datamove.dev/test/must"
)

// started is as whom and with what a hook was started.
type started struct {
	UID, Dir, Umask string
	Env             map[string]string
}

// names are those of the environment.
func (c started) names() []string {
	var names []string
	for name := range c.Env {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// look is what a recorder does to tell its context: its process has the environment that it was started with.
const look = `{ /usr/bin/id -u; pwd; umask; cat /proc/$$/environ; } >/project/context-NAME`

func (c *Cluster) started(name string) started {
	c.t.Helper()
	text := c.read("context-" + name)
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) != 4 {
		c.t.Fatalf("no context of %s: %q", name, text)
	}
	x := started{UID: lines[0], Dir: lines[1], Umask: lines[2], Env: map[string]string{}}
	for v := range strings.SplitSeq(strings.TrimSuffix(lines[3], "\x00"), "\x00") {
		name, value, _ := strings.Cut(v, "=")
		x.Env[name] = value
	}
	return x
}

// hostile is a comment that a hook must take as one value.
const hostile = "a comment; $(reboot)\nSLURM_JOB_UID=0"

// The names that hooks have in their environments: those of every job, and of one in an array.
var (
	both       = "SLURM_CLUSTER_NAME SLURM_JOBID SLURM_JOB_COMMENT SLURM_JOB_CPUS_PER_NODE SLURM_JOB_GID SLURM_JOB_ID SLURM_JOB_NUM_NODES SLURM_JOB_PARTITION SLURM_JOB_RESTART_COUNT SLURM_JOB_STDIN SLURM_JOB_UID SLURM_JOB_USER SLURM_JOB_WORK_DIR SLURM_SCRIPT_CONTEXT"
	onNodes    = both + " SLURMD_NODENAME SLURM_CONF SLURM_NODELIST SLURM_UID"
	onControl  = both + " SLURM_JOB_ACCOUNT SLURM_JOB_GROUP SLURM_JOB_NAME SLURM_JOB_NODELIST"
	atTheEnd   = " SLURM_JOB_DERIVED_EC SLURM_JOB_EXIT_CODE SLURM_JOB_EXIT_CODE2"
	inPhases   = "GOGC LANG PATH SLURM_CONF" // GOGC, LANG and PATH: (*machine).enter
	wantsNames = map[string]string{"prolog": onNodes, "epilog": onNodes + atTheEnd, "prolog-slurmctld": onControl, "epilog-slurmctld": onControl + atTheEnd}
)

// TestEnvironment: as whom hooks and phases run, where, and what they are told.
func TestEnvironment(t *testing.T) {
	soak(t)
	for _, user := range []string{"slurm", "root"} {
		t.Run(user, func(t *testing.T) { environment(t, user) })
	}
}

func environment(t *testing.T, user string) {
	t.Parallel()
	controllerID := strconv.Itoa(UID(user))
	c := recorded(t, Options{Nodes: 1, User: user, Conf: "JobSubmitPlugins=lua\n"}, func(f fstest.MapFS) {
		f["job_submit.lua"] = &fstest.MapFile{Data: []byte("function slurm_job_submit() os.execute([[" + strings.ReplaceAll(look, "NAME", "job_submit") + "]]) return slurm.SUCCESS end\nfunction slurm_job_modify() return slurm.SUCCESS end")}
	})
	phases := []string{"job_process", "setup", "data_in", "paths", "pre_run", "post_run", "data_out", "job_teardown", "get_status"}
	for _, name := range phases {
		c.do(name, "os.execute([["+strings.ReplaceAll(look, "NAME", name)+"]]) return slurm.SUCCESS")
	}
	for _, name := range hooks {
		c.do(name, strings.ReplaceAll(look, "NAME", name)+"\n")
	}
	c.do("data_in", `os.execute([[`+strings.ReplaceAll(look, "NAME", "data_in")+`]]) local p = io.popen("stat -c '%a %u' " .. select(2, ...) .. " $(dirname " .. select(2, ...) .. ")") local f = io.open("/project/rights", "w") f:write(p:read("*a")) f:close() return slurm.SUCCESS`)
	id := c.MustSubmit(Anna, staged, "--comment="+hostile)
	c.UntilState(id, "COMPLETED")
	for _, last := range []string{"job_teardown false", "epilog node1", "epilog-slurmctld control"} {
		c.untilPhase(id, last)
	}
	_, err := c.As(Ben, 1, "", "scontrol", "show", "bbstat")
	must.Do(t, err)
	for _, name := range append(phases, "job_submit") {
		x := c.started(name)
		if x.UID != controllerID || x.Dir != "/" || x.Umask != "0022" {
			t.Errorf("%s runs as %s in %s with %s", name, x.UID, x.Dir, x.Umask)
		}
		if got := strings.Join(x.names(), " "); got != inPhases {
			t.Errorf("%s is told %s, want %s: what slurmctld was started with, and SLURM_CONF", name, got, inPhases)
		}
	}
	if got, want := c.read("rights"), "700 "+controllerID+"\n700 "+controllerID+"\n"; got != want {
		t.Errorf("the script and its directory have rights %q, want %q: SlurmUser alone can read them", got, want)
	}
	for name, want := range wantsNames {
		x := c.started(name)
		wantUID := "0"
		if strings.HasSuffix(name, "slurmctld") {
			wantUID = controllerID
		}
		if x.UID != wantUID || x.Dir != "/" || x.Umask != "0022" {
			t.Errorf("%s runs as %s in %s with %s", name, x.UID, x.Dir, x.Umask)
		}
		fields := strings.Fields(want)
		slices.Sort(fields)
		if got := x.names(); !slices.Equal(got, fields) { // no PATH, no HOME
			t.Errorf("%s is told\n%q, want\n%q", name, got, fields)
		}
		if x.Env["SLURM_JOB_COMMENT"] != hostile || x.Env["SLURM_JOB_UID"] != "5001" || x.Env["SLURM_JOB_ID"] != id {
			t.Errorf("%s is told %q", name, x.Env)
		}
	}
	x := c.started("task-prolog")
	if x.UID != "5001" || x.Dir != "/home/anna" || x.Umask != "0022" || x.Env["HOME"] != "/home/anna" || x.Env["SLURM_JOB_ID"] != id || x.Env["PATH"] != path {
		t.Errorf("task-prolog runs as %+v", x)
	}
	if _, has := x.Env["SLURM_JOB_COMMENT"]; has {
		t.Errorf("task-prolog knows the comment")
	}

	array := c.MustSubmit(Anna, "#!/bin/sh\n", "--array=7")
	c.untilPhase(c.UntilState(array+"_7", "COMPLETED").ID, "epilog node1")
	t.Logf("a task of an array without a comment: prolog %q\nprolog-slurmctld %q", c.started("prolog").Env, c.started("prolog-slurmctld").Env)
	if c.started("prolog-slurmctld").Env["SLURM_ARRAY_TASK_ID"] != "7" {
		t.Errorf("prolog-slurmctld is told %q", c.started("prolog-slurmctld").Env)
	}
}
