package slurm

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"datamove.dev/test/must"
)

// TestSubmit: what a user hears, when a job is refused and when not, and which directives Slurm takes for its own.
func TestSubmit(t *testing.T) {
	c := shared(t).standIn()
	files := recorders()
	files["job_submit.lua"] = &fstest.MapFile{Data: []byte("function slurm_job_submit() return slurm.SUCCESS end\nfunction slurm_job_modify() return slurm.SUCCESS end\n")}
	c.swap(files)
	const no = "sbatch: error: Batch job submission failed: Burst Buffer request invalid\n"
	for _, s := range []struct{ what, process, directive, want string }{
		{"each line of a text is one of sbatch", `return slurm.ERROR, "line 2: no such tier\nwrite TIER:path"`, "stage-in=a", "sbatch: error: burst_buffer/lua: line 2: no such tier\nsbatch: error: write TIER:path\n" + no},
		{"a long text is whole", `return slurm.ERROR, string.rep("a", 9000)`, "stage-in=a", "sbatch: error: burst_buffer/lua: " + strings.Repeat("a", 9000) + "\n" + no},
		{"a text with success is not seen", `return slurm.SUCCESS, "a word"`, "stage-in=a", ""},
		{"a second value that is nil is a failure", `return slurm.SUCCESS, nil`, "stage-in=a", no},
		{"a script that breaks is a failure", `error("broken")`, "stage-in=a", no},
		{"capacity= demands a pool", `return slurm.SUCCESS`, "stage-in=a capacity=10G", no},
		{"so does one with a text", `return slurm.SUCCESS`, "stage-in=a capacity=banana", no},
		{"pool= alone is ours", `return slurm.SUCCESS`, "pool=x", ""},
		{"and words of other plugins", `return slurm.SUCCESS`, "swap=4 type=scratch access_mode=striped persistentdw create_persistent name=x size=4", ""},
	} {
		c.do("job_process", s.process)
		id, said, err := c.Submit(Anna, "#!/bin/sh\n#DATAMOVE "+s.directive+"\n")
		switch {
		case s.want == "" && (err != nil || said != "Submitted batch job "+id+"\n"), s.want != "" && (err == nil || said != s.want):
			t.Errorf("%s: %q, %v", s.what, said, err)
		}
	}
	c.do("job_process", "return slurm.SUCCESS")
	for _, s := range []struct {
		what, script, args string
		has                bool
	}{
		{"in the script", "#!/bin/sh\n\n# a comment\n#SBATCH -N1\n#DATAMOVE dw\n", "", true},
		{"after the first command", "#!/bin/sh\ntrue\n#DATAMOVE dw\n", "", false},
		{"on the command line", "#!/bin/sh\n", "--bb=#DATAMOVE dw", true},
		{"of another plugin", "#!/bin/sh\n#DW jobdw\n", "", false},
		{"with a blank before it", "#!/bin/sh\n #DATAMOVE dw\n", "", false},
		{"is the beginning of a longer word, too", "#!/bin/sh\n#DATAMOVER dw\n", "", true},
	} {
		args := []string{"--hold"}
		if s.args != "" {
			args = append(args, s.args)
		}
		j, err := c.Job(c.MustSubmit(Anna, s.script, args...))
		if err != nil || (j.BurstBuffer != "") != s.has {
			t.Errorf("a directive %s: %q, %v", s.what, j.BurstBuffer, err)
		}
	}
	if id, said, err := c.Submit("root", staged); err == nil {
		t.Errorf("root's job %s has a burst buffer: %s", id, said)
	}
}

// What job_submit.lua can do: it tells what it sees, and does what the comment says.
const submitPlugin = `
function slurm_job_submit(job, parts, uid)
  local f = io.open("/project/submit", "a")
  local function tell(name, value) f:write(name, "=", tostring(value), "\n") end
  tell("uid", uid) tell("user_id", job.user_id) tell("user_name", job.user_name) tell("group_id", job.group_id)
  tell("comment", job.comment) tell("burst_buffer", job.burst_buffer) tell("script", job.script) tell("work_dir", job.work_dir)
  tell("FROM_USER", job.environment and job.environment["FROM_USER"])
  f:close()
  if job.comment == "refuse" then slurm.log_user("over budget:\nask %s", "ops") return slurm.ERROR end
  if job.comment == "directive" then job.burst_buffer = "#DATAMOVE one\n#DATAMOVE two" slurm.log_user("you get a burst buffer") end
  if job.comment == "both" then job.burst_buffer = "#DATAMOVE more" end
  if job.comment == "script" then job.script = "#!/bin/sh\n#DATAMOVE by-script\necho another\n" end
  if job.comment == "environment" then job.environment["DATAMOVE_NEW"] = "from submit" end
  if job.comment == "comment" then job.admin_comment = "for operators" job.comment = "another" end
  return slurm.SUCCESS
end
function slurm_job_modify() return slurm.SUCCESS end
`

// TestJobSubmit: job_submit.lua can read and change the script, the environment and the comment, gives a burst buffer to a job
// that asked for none, and speaks to the user.
func TestJobSubmit(t *testing.T) {
	c := shared(t).standIn()
	files := recorders()
	files["job_submit.lua"] = &fstest.MapFile{Data: []byte(submitPlugin)}
	c.swap(files)
	c.do("job_process", `local s = io.open((...)) local f = io.open("/project/script", "w") f:write(s:read("*a")) f:close() s:close() return slurm.SUCCESS`)
	const script = "#!/bin/sh\n#SBATCH -N1\necho \"$DATAMOVE_NEW\"\n"
	submit := func(comment, script string) (id, said string, err error) {
		must.Do(t, os.WriteFile(c.Path(Controller, "/project/submit"), nil, 0o666))
		must.Do(t, os.Chmod(c.Path(Controller, "/project/submit"), 0o666))
		return c.Submit(Anna, script, "--comment="+comment, "--export=ALL,FROM_USER=x y")
	}
	if _, said, err := submit("refuse", script); err == nil || said != "sbatch: error: over budget:\nsbatch: error: ask ops\nsbatch: error: Batch job submission failed: Unspecified error\n" {
		t.Errorf("refused: %q, %v", said, err)
	}
	if got, want := c.read("submit"), "uid=5001\nuser_id=5001\nuser_name=anna\ngroup_id=5001\ncomment=refuse\nburst_buffer=nil\nscript="+script+"\nwork_dir=/home/anna\nFROM_USER=x y\n"; got != want {
		t.Errorf("it sees %q, want %q", got, want)
	}

	id, said, err := submit("directive", script)
	if err != nil || said != "sbatch: you get a burst buffer\nSubmitted batch job "+id+"\n" {
		t.Errorf("directive: %q, %v", said, err)
	}
	if j := c.UntilState(id, "COMPLETED"); j.BurstBuffer != "#DATAMOVE one\n#DATAMOVE two" {
		t.Errorf("the burst buffer is %q", j.BurstBuffer)
	}
	if got, want := c.read("script"), strings.Replace(script, "\n", "\n#DATAMOVE one\n#DATAMOVE two\n", 1)+"\x00"; got != want {
		t.Errorf("job_process read %q, want %q: the lines are after the first, and a NUL is at the end", got, want)
	}
	inOrder(t, c.phases(id), "setup", "data_in", "pre_run", "post_run", "data_out")

	id, _, err = submit("both", "#!/bin/sh\n#DATAMOVE own\n")
	must.Do(t, err)
	j, err := c.Job(id)
	if want := "#!/bin/sh\n#DATAMOVE more\n#DATAMOVE own\n\x00"; err != nil || j.BurstBuffer != "#DATAMOVE more\n#DATAMOVE own" || c.read("script") != want {
		t.Errorf("with one of its own: %q, %v; script %q", j.BurstBuffer, err, c.read("script"))
	}

	id, _, err = submit("script", script)
	must.Do(t, err)
	c.UntilState(id, "COMPLETED")
	if got := c.Output(Anna, id); got != "another\n" || c.read("script") != "#!/bin/sh\n#DATAMOVE by-script\necho another\n\x00" {
		t.Errorf("another script: the job said %q, job_process read %q", got, c.read("script"))
	}

	id, _, err = submit("environment", script)
	must.Do(t, err)
	c.UntilState(id, "COMPLETED")
	if got := c.Output(Anna, id); got != "from submit\n" {
		t.Errorf("environment: the job said %q", got)
	}
	id, _, err = submit("comment", script)
	must.Do(t, err)
	if j, err := c.Job(id); err != nil || j.Comment != "another" || j.AdminComment != "for operators" {
		t.Errorf("comment: %+v, %v", j, err)
	}
}

// TestStatus: scontrol show bbstat gives its words to slurm_bb_get_status, for everybody, and shows its text as it is. The text
// of a failure is not shown.
func TestStatus(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	c.do("get_status", `return slurm.SUCCESS, "first\n\n\tthird " .. select("#", ...) .. " <" .. table.concat({...}, "|") .. ">\n"`)
	for _, s := range []struct {
		words []string
		want  string
	}{
		{nil, "first\n\n\tthird 0 <>\n"},
		{[]string{"a", "b c"}, "first\n\n\tthird 2 <a|b c>\n"},
		{[]string{"$(id)", "", `"`}, "first\n\n\tthird 3 <$(id)||\">\n"},
	} {
		for _, n := range []int{Controller, 1} {
			for _, user := range []string{"root", Ben} {
				if got, err := c.As(user, n, "", append([]string{"scontrol", "show", "bbstat"}, s.words...)...); err != nil || got != s.want {
					t.Errorf("%s on %s, %q: %q, %v, want %q", user, MachineName(n), s.words, got, err, s.want)
				}
			}
		}
	}
	c.do("get_status", `return slurm.SUCCESS, string.rep("a", 100000)`)
	if got, err := c.On(Controller, "scontrol", "show", "bbstat"); err != nil || len(got) < 100000 {
		t.Errorf("a long text has %d bytes, %v", len(got), err)
	}
	c.do("get_status", `return slurm.ERROR, "our text"`)
	if got, err := c.On(Controller, "scontrol", "show", "bbstat"); err != nil || got != "Error running slurm_bb_get_status\n" {
		t.Errorf("a failure is told as %q, %v", got, err)
	}
}

// TestSymbols: Slurm replaces what begins with a percent sign in directives, and what it does not know by nothing; in job_process not yet. A job
// that is no array has %A 0.
func TestSymbols(t *testing.T) {
	soak(t)
	c := recorded(t, Options{Nodes: 1}, nil)
	keep := func(arg int, name string) string {
		return fmt.Sprintf(`local f = io.open(select(%d, ...)); local text = f:read("*a"); f:close(); f = io.open("/project/%s", "w"); f:write(text:match("#DATAMOVE[^\n]*")); f:close(); return slurm.SUCCESS`, arg, name)
	}
	c.do("job_process", keep(1, "raw"))
	c.do("setup", keep(6, "replaced"))
	id := c.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE dw j=%j u=%u x=%x A=%A n=%n percent=%% node={node} z=%z\nhostname\n", "--job-name=train")
	c.UntilState(id, "COMPLETED")
	for name, want := range map[string]string{
		"raw":      "#DATAMOVE dw j=%j u=%u x=%x A=%A n=%n percent=%% node={node} z=%z",
		"replaced": "#DATAMOVE dw j=" + id + " u=anna x=train A=0 n= percent=% node={node} z=",
	} {
		if text, err := os.ReadFile(c.Path(Controller, "/project/"+name)); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
}
