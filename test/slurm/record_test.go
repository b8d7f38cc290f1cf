package slurm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// The recorders of these tests say in /project/said what they were called with, one line each: phase, job, the rest.
// What one does beside that is in /project/do/PHASE: Lua, or sh.
const luaRecorder = `
local function said(...)
  local f = io.open("/project/said", "a")
  f:write(table.concat({...}, " ") .. "\n")
  f:close()
end
local function ended(name, job, ...)
  said(name .. "-ended", tostring(job), tostring((...)))
  return ...
end
local function phase(name, ...)
  local words = {name}
  for i = 1, select("#", ...) do words[#words+1] = tostring(select(i, ...)) end
  said(unpack(words))
  local f = loadfile("/project/do/" .. name)
  if f then
    return ended(name, (...), f(...))
  end
  return slurm.SUCCESS
end
for _, name in ipairs{"job_process", "setup", "data_in", "real_size", "paths", "pre_run", "post_run", "data_out", "job_teardown", "test_data_in", "test_data_out", "get_status"} do
  _G["slurm_bb_" .. name] = function(...) return phase(name, ...) end
end
function slurm_bb_pools() return slurm.SUCCESS end
`

const shRecorder = `#!/bin/sh
export PATH=/usr/bin:/bin
name=$(basename "$0")
echo "$name ${SLURM_JOB_ID:-$SLURM_JOBID} $(hostname)" >>/project/said
if [ -e /project/do/$name ]; then . /project/do/$name; fi
exit 0
`

var hooks = []string{"prolog", "epilog", "prolog-slurmctld", "epilog-slurmctld", "task-prolog", "task-epilog"}

const recorderConf = `
PrologFlags=Alloc
Prolog=/etc/slurm/prolog
Epilog=/etc/slurm/epilog
PrologSlurmctld=/etc/slurm/prolog-slurmctld
EpilogSlurmctld=/etc/slurm/epilog-slurmctld
TaskProlog=/etc/slurm/task-prolog
TaskEpilog=/etc/slurm/task-epilog
BurstBufferType=burst_buffer/lua
`

const bbConf = "Directive=DATAMOVE\nFlags=TeardownFailure\nStageInTimeout=60\nStageOutTimeout=60\nValidateTimeout=30\nOtherTimeout=30\n"

func recorders() fstest.MapFS {
	files := fstest.MapFS{"burst_buffer.lua": {Data: []byte(luaRecorder), Mode: 0o644}, "burst_buffer.conf": {Data: []byte(bbConf), Mode: 0o644}}
	for _, h := range hooks {
		files[h] = &fstest.MapFile{Data: []byte(shRecorder), Mode: 0o755}
	}
	return files
}

// recorded starts a cluster with recorders, and what a test adds.
func recorded(t *testing.T, o Options, change func(fstest.MapFS)) *Cluster {
	t.Helper()
	files := recorders()
	if change != nil {
		change(files)
	}
	o.Conf = recorderConf + o.Conf
	o.Etc = append([]fs.FS{files}, o.Etc...)
	c := Start(t, o)
	c.clear()
	return c
}

// clear begins with no word said, and nothing to do.
func (c *Cluster) clear() {
	c.t.Helper()
	for _, name := range []string{"said", "called", "submitted"} {
		file := c.Path(Controller, "/project/"+name)
		must.Do(c.t, errors.Join(os.WriteFile(file, nil, 0o666), os.Chmod(file, 0o666)))
	}
	do := c.Path(Controller, "/project/do")
	must.Do(c.t, errors.Join(os.RemoveAll(do), os.Mkdir(do, 0o755)))
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("recorded:\n%s\ncalled:\n%q", strings.Join(c.said(""), "\n"), c.calls(""))
		}
	})
}

// do has a hook or a phase do something from now on.
func (c *Cluster) do(name, text string) {
	c.t.Helper()
	file := c.Path(Controller, "/project/do/"+name)
	must.Do(c.t, os.WriteFile(file+"~", []byte(text), 0o644))
	must.Do(c.t, os.Rename(file+"~", file))
}

// said are the recorded lines that begin with words; all, if with none.
func (c *Cluster) said(words string) (lines []string) {
	c.t.Helper()
	text := must.Get(os.ReadFile(c.Path(Controller, "/project/said")))(c.t)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); words == "" || strings.HasPrefix(line+" ", words+" ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// read is a file that a recorder has written.
func (c *Cluster) read(name string) string {
	text, err := os.ReadFile(c.Path(Controller, filepath.Join("/project", name)))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// untilSaid waits for a recorded line.
func (c *Cluster) untilSaid(words string) []string {
	c.t.Helper()
	c.Eventually("recorded: "+words, func() error {
		if len(c.said(words)) == 0 {
			return fmt.Errorf("only %q", c.said(""))
		}
		return nil
	})
	return c.said(words)
}

// phases are the phases and hooks of a job, in the order in which they began. A hook has its machine beside it.
func (c *Cluster) phases(id string) (names []string) {
	c.t.Helper()
	for _, line := range c.said("") {
		f := strings.Fields(line)
		switch {
		case len(f) < 2 || strings.HasSuffix(f[0], "-ended"):
		case f[0] == "job_process" && strings.HasSuffix(f[1], "/job."+id+"/script"):
			names = append(names, f[0])
		case f[1] != id:
		case f[0] == "job_teardown":
			names = append(names, f[0]+" "+f[3])
		case slices.Contains(hooks, f[0]):
			names = append(names, f[0]+" "+f[2])
		default:
			names = append(names, f[0])
		}
	}
	return names
}

// inOrder fails unless these phases began in this order, with what else there is between them.
func inOrder(t *testing.T, phases []string, want ...string) {
	t.Helper()
	rest := phases
	for _, w := range want {
		i := slices.Index(rest, w)
		if i < 0 {
			t.Errorf("there is no %q where it should be: %q in %q", w, want, phases)
			return
		}
		rest = rest[i+1:]
	}
}

// untilPhase waits until a phase of a job has begun.
func (c *Cluster) untilPhase(id, phase string) {
	c.t.Helper()
	c.Eventually("job "+id+" is in "+phase, func() error {
		if p := c.phases(id); !slices.Contains(p, phase) {
			return fmt.Errorf("only %q", p)
		}
		return nil
	})
}

// untilTorn waits for the teardown of a job that was cancelled. On a busy machine Slurm has been seen to kill it with the rest of
// the job: then it comes when slurmctld starts anew.
func (c *Cluster) untilTorn(id string, phases func(id string) []string) {
	c.t.Helper()
	if !c.untilTornOrKilled(id, phases) {
		return
	}
	c.StopController()
	c.StartController()
	c.Eventually("the teardown of job "+id, func() error { return c.torn(id, phases) })
}

// untilTornOrKilled waits until the teardown of a job has begun, or was killed by slurmctld before it did.
func (c *Cluster) untilTornOrKilled(id string, phases func(id string) []string) (killed bool) {
	c.t.Helper()
	c.Eventually("the teardown of job "+id, func() error {
		killed = strings.Contains(c.Log(Controller, "slurmctld"), "teardown for JobId="+id+" terminated by slurmctld")
		err := c.torn(id, phases)
		if err == nil {
			killed = false
		} else if killed {
			return nil
		}
		return err
	})
	return killed
}

// torn returns an error while the teardown of a job has not begun.
func (c *Cluster) torn(id string, phases func(id string) []string) error {
	if p := phases(id); !slices.ContainsFunc(p, func(name string) bool { return strings.Contains(name, "teardown") }) {
		return fmt.Errorf("only %q", p)
	}
	return nil
}

// noDrain fails when a node is not as it should be.
func (c *Cluster) noDrain() {
	c.t.Helper()
	for _, n := range c.Nodes() {
		if strings.Contains(n.State, "DRAIN") || strings.Contains(n.State, "DOWN") {
			c.t.Errorf("%s is %s: %s", n.Name, n.State, n.Reason)
		}
	}
}

// soak leaves a test with a cluster of its own to make soak: what it holds of Slurm changes with the version of that, or it takes minutes.
func soak(t *testing.T) {
	t.Helper()
	if !seed.Soak() {
		t.Skip("elsewhere: make soak: a Slurm of its own")
	}
	Need(t)
	t.Parallel()
}

// gone is an error while a command that begins with words runs on machine n.
func gone(c *Cluster, n int, words string) error {
	out, err := c.On(n, "ps", "-A", "-o", "args=")
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, words) {
			return fmt.Errorf("%q runs", strings.TrimSpace(line))
		}
	}
	return err
}

// missing is an error until there are so many lines.
func missing(lines []string, want int) error {
	if len(lines) < want {
		return fmt.Errorf("only %q", lines)
	}
	return nil
}
