package slurm

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/tiering/slurm/directive"
	"datamove.dev/tiering/slurm/slurmconf"
)

// shipped is what sites install beside slurm.conf.
const shipped = "../../deploy/slurm"

// standIn is in the place of datamove: it records its arguments, and does what the test says for the phase, and for the case that the
// job's script names behind "#do". It has no PATH, as a hook.
const standIn = `#!/bin/sh
printf '%s\000' "$#" "$@" >>/project/called
phase=$2
if [ "$2" = bb ]; then phase=$3; fi
for file; do
	if [ -f "$file" ]; then
		while read -r word case; do
			if [ "$word" = '#do' ] && [ -e "/project/do/$phase.$case" ]; then . "/project/do/$phase.$case"; fi
		done <"$file"
	fi
done
if [ "$phase" = submit ]; then /bin/cat "$5" >/project/submitted; fi
if [ -e "/project/do/$phase" ]; then . "/project/do/$phase"; fi
if [ "$2" = bb ]; then echo OK; fi
`

// stoodIn starts a cluster with what lies in deploy/slurm, changed for a test, and a stand-in for datamove.
func stoodIn(t *testing.T, o Options, change func(fstest.MapFS)) *Cluster {
	t.Helper()
	files := shippedFiles(t, change)
	bin := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(bin, "datamove"), []byte(standIn), 0o755))
	o.Conf, o.Etc, o.Binds = "Include slurm.conf.datamove\n"+o.Conf, append([]fs.FS{files}, o.Etc...), map[string]string{"/usr/local/bin": bin}
	c := Start(t, o)
	c.clear()
	return c
}

// shippedFiles are what lies in deploy/slurm, changed for a test.
func shippedFiles(t *testing.T, change func(fstest.MapFS)) fstest.MapFS {
	t.Helper()
	files := fstest.MapFS{}
	must.Do(t, fs.WalkDir(os.DirFS(shipped), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(shipped, name))
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			files[name] = &fstest.MapFile{Data: text, Mode: info.Mode().Perm()}
		}
		return err
	}))
	if change != nil {
		change(files)
	}
	return files
}

// calls are those of datamove with an argument, each with its arguments; with "", all.
func (c *Cluster) calls(with string) (calls [][]string) {
	c.t.Helper()
	words := strings.Split(c.read("called"), "\x00")
	for len(words) > 1 {
		n := must.Get(strconv.Atoi(words[0]))(c.t)
		if call := words[1 : n+1]; with == "" || slices.Contains(call, with) {
			calls = append(calls, call)
		}
		words = words[n+1:]
	}
	return calls
}

// untilCalled waits for a call with these arguments.
func (c *Cluster) untilCalled(words ...string) {
	c.t.Helper()
	c.Eventually(fmt.Sprintf("datamove %q", words), func() error {
		if !slices.ContainsFunc(c.calls(""), func(call []string) bool { return slices.Equal(call, words) }) {
			return fmt.Errorf("only %q", c.calls(""))
		}
		return nil
	})
}

// bbPhases are the phases of a job that datamove was called for.
func (c *Cluster) bbPhases(id string) (names []string) {
	c.t.Helper()
	for _, call := range c.calls(id) {
		names = append(names, call[2])
	}
	return names
}

// doing is a script whose phases do what the test says of a case.
func doing(name string) string { return "#!/bin/sh\n#DATAMOVE dw\n#do " + name + "\n" }

// TestDeploy: Slurm is installed by what lies in deploy/slurm alone. Nothing is to be changed there, as doctor says, and datamove
// is called for each phase and hook.
//
//safety:6 words of users that go through Slurm's Lua and a shell; configuration files of Slurm
//safety:8 with TestMoverStops
func TestDeploy(t *testing.T) {
	c := shared(t).standIn()
	t.Run("doctor", func(t *testing.T) { judged(t, c) })
	t.Run("phases", func(t *testing.T) { phases(t, c) })
	t.Run("errors", func(t *testing.T) { phaseErrors(t, c) })
	t.Run("status", func(t *testing.T) { status(t, c) })
	t.Run("submit", func(t *testing.T) { submits(t, c) })
	c.untilCalled("hook", "bb", "pools") // every 30 seconds
	c.noDrain()
}

// judged has what was installed looked at, as doctor does.
func judged(t *testing.T, c *Cluster) {
	records := c.Path(Controller, "/var/lib/datamove/slurm")
	must.Do(t, os.MkdirAll(records, 0o700))
	must.Do(t, os.Chmod(filepath.Dir(records), 0o711))
	must.Do(t, own(records, slurmUID))
	for n := range 2 {
		facts := slurmconf.Read("/etc/slurm/slurm.conf", slurmconf.Options{Files: os.DirFS(c.Path(n, "/")), Host: MachineName(n), Records: "/var/lib/datamove/slurm",
			Lookup: func(user string) (uint32, bool) { return slurmUID, user == "slurm" }})
		for _, f := range slurmconf.Judge(facts, slurmconf.Limits{Deadline: 5 * time.Second, Ready: 4 * time.Minute}) {
			if f.Degree != slurmconf.Good {
				t.Errorf("on %s: %+v", MachineName(n), f)
			}
		}
		shown := map[string]string{}
		for line := range strings.Lines(c.Scontrol("show", "config")) {
			key, value, _ := strings.Cut(line, "=")
			shown[strings.ToLower(strings.TrimSpace(key))] = strings.TrimSuffix(strings.TrimSpace(value), " sec")
		}
		for _, key := range []string{"MaxJobCount", "FirstJobId", "KillWait", "MinJobAge", "WaitTime", "PrologFlags", "Prolog", "EpilogSlurmctld", "JobSubmitPlugins", "ClusterName"} {
			all := facts.Conf[strings.ToLower(key)]
			if len(all) == 0 || all[len(all)-1].Value != shown[strings.ToLower(key)] {
				t.Errorf("%s: Slurm has %q, and we read %+v", key, shown[strings.ToLower(key)], all)
			}
		}
	}
}

// tells has a Slurm call burst_buffer.lua as from 23.02 on: with the ids of the job's user, and a table behind them that looks up what is known of
// the job when it is asked for it (_push_job_info of burst_buffer_lua.c). This job is cancelled, and completing.
func tells(files fstest.MapFS) {
	f := files["burst_buffer.lua"]
	f.Data = append(f.Data, `
local out = slurm_bb_data_out
function slurm_bb_data_out(job, script)
	return out(job, script, "5001", "5001", setmetatable({}, {__index = function(_, name) return name == "job_state" and 0x8004 or nil end}))
end
`...)
}

// TestJobState: from Slurm 23.02 on datamove hears how the job has ended.
func TestJobState(t *testing.T) {
	c := shared(t).standIn()
	c.swap(shippedFiles(t, tells))
	id := c.MustSubmit(Anna, "#!/bin/sh\n#DATAMOVE stage-in=a to=b\n")
	c.UntilState(id, "COMPLETED")
	c.untilCalled("hook", "bb", "data_out", id, "/var/lib/slurm/slurmctld/hash."+id[len(id)-1:]+"/job."+id+"/script", "32772")
}

// phases runs a job from its beginning to its end.
func phases(t *testing.T, c *Cluster) {
	c.do("paths", `echo "DATAMOVE_IN_A=/nvme/a b" >"$6"`)
	c.do("task-prolog", "echo export DATAMOVE_HOT=1\n")
	script := "#!/bin/sh\n#DATAMOVE stage-in=a to=b\necho \"$DATAMOVE_IN_A $DATAMOVE_HOT\"\n"
	id := c.MustSubmit(Anna, script, "-N2")
	c.UntilState(id, "COMPLETED")
	at := "/var/lib/slurm/slurmctld/hash." + id[len(id)-1:] + "/job." + id
	want := [][]string{
		{"hook", "bb", "job_process", at + "/script"},
		{"hook", "bb", "setup", id, "5001", "5001", at + "/script"},
		{"hook", "bb", "data_in", id, at + "/script"},
		{"hook", "bb", "paths", id, at + "/script", at + "/path"},
		{"hook", "bb", "pre_run", id, at + "/script"},
		{"hook", "bb", "post_run", id, at + "/script"},
		{"hook", "bb", "data_out", id, at + "/script"},
		{"hook", "bb", "teardown", id, at + "/script", "false"},
	}
	for _, words := range append(want, []string{"hook", "prolog-slurmctld"}, []string{"hook", "epilog-slurmctld"}, []string{"hook", "prolog"}, []string{"hook", "task-prolog"}, []string{"hook", "epilog"}) {
		c.untilCalled(words...)
	}
	var got [][]string
	for _, call := range c.calls("bb") {
		if slices.ContainsFunc(call, func(word string) bool { return strings.HasPrefix(word, at+"/") }) { // of this job
			got = append(got, call)
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the phases are\n%q, want\n%q", got, want)
	}
	if out := c.Output(Anna, id); out != "/nvme/a b 1\n" {
		t.Errorf("the job said %q", out)
	}
	asked := c.calls("submit")
	if len(asked) != 1 || len(asked[0]) != 7 || asked[0][3] != "5001" || !slices.Equal(asked[0][5:], []string{"sbatch", ""}) || c.read("submitted") != script {
		t.Fatalf("sbatch asked %q with %q", asked, c.read("submitted"))
	}
	if left, err := c.On(Controller, "ls", "-A", "/tmp"); err != nil || left != "" {
		t.Errorf("left in /tmp: %q, %v", left, err)
	}
}

const silent = "/usr/local/bin/datamove did not answer; the log of slurmctld may have more"

// phaseErrors has phases fail, or not answer. No job begins by that, and people see why.
func phaseErrors(t *testing.T, c *Cluster) {
	const said = "vision: not there (ask \"anna\")\n100% %s; $(id)"
	waits := func(j Job) bool { return j.State == "PENDING" && j.Reason == "Burst_buffer_pre_run_error" }
	rows := []struct {
		name, phase, do string
		is              func(Job) bool
		comment         string // of the system: the end
	}{
		{"setup", "setup", "echo 'ERROR " + strings.ReplaceAll(said, "\n", "'; echo '") + "'; exit 1", held, "setup: " + said},
		{"data_in", "data_in", "echo 'ERROR " + strings.ReplaceAll(said, "\n", "'; echo '") + "'; exit 1", held, "data_in: " + said},
		{"notes", "data_in", "echo OKAY >&2; echo ERROR no room; exit 1", held, "data_in: no room"},
		{"nothing", "data_in", "exit 0", held, "data_in: " + silent},
		{"kill", "data_in", "kill -9 $$", held, "data_in: " + silent},
		{"crash", "data_in", "echo 'panic: nil map' >&2; exit 2", held, "data_in: " + silent},
		{"other", "data_in", "echo OKAY; exit 0", held, "data_in: " + silent},
		{"late", "data_in", "echo; echo OK; exit 0", held, "data_in: " + silent},
		{"small", "data_in", "echo ok; exit 0", held, "data_in: " + silent},
		{"half", "data_in", "printf O; exit 0", held, "data_in: " + silent},
		{"mute", "data_in", "echo ERROR; exit 1", held, "data_in: " + silent},
		{"paths", "paths", "echo ERROR the mover is away; exit 1", func(j Job) bool { return held(j) && j.Reason == "JobHeldAdmin" }, ""}, // and nobody is told why
		{"pre_run", "pre_run", "echo ERROR no room on node1; exit 1", waits, "pre_run: no room on node1"},
		{"no_run", "pre_run", "kill -9 $$", waits, "pre_run: " + silent},
		{"post_run", "post_run", "echo ERROR a node is away; exit 1", completed, "post_run: a node is away"},
		{"data_out", "data_out", "echo ERROR the archive is full; exit 1", completed, "data_out: the archive is full"},
		{"no_out", "data_out", "exit 0", completed, "data_out: " + silent},
	}
	ids := map[string]string{}
	for _, r := range rows {
		c.do(r.phase+"."+r.name, r.do)
		ids[r.name] = c.MustSubmit(Anna, doing(r.name), "--output=/dev/null")
	}
	for _, r := range rows {
		c.Until(ids[r.name], "has failed in "+r.phase+": "+r.name, func(j Job) bool { return r.is(j) && strings.HasSuffix(j.SystemComment, r.comment) })
	}
	out, err := c.On(Controller, "squeue", "--noheader", "--format=%r", "--jobs="+ids["data_in"])
	if want := "burst_buffer/lua: slurm_bb_data_in: " + said + "\n"; err != nil || out != want {
		t.Errorf("squeue says %q, %v, want %q", out, err, want)
	}
	if log := c.Log(Controller, "slurmctld"); !strings.Contains(log, "datamove: data_in "+ids["crash"]+": panic: nil map\n") {
		t.Error("what datamove says to stderr is not in the log of slurmctld")
	}
	c.do("data_in.data_in", "")
	c.Release(ids["data_in"])
	c.UntilState(ids["data_in"], "COMPLETED")
	// After paths that failed there is no teardown, and a release does not help: what was staged goes when the job is cancelled.
	if got := c.bbPhases(ids["paths"]); !slices.Equal(got, []string{"setup", "data_in", "paths"}) {
		t.Errorf("after paths that failed: %q", got)
	}
	c.Scancel(ids["paths"])
	c.untilTorn(ids["paths"], c.bbPhases)

	for _, r := range []struct{ name, do, want string }{
		{"text", "echo 'ERROR line 2: no such tier'; echo 'write TIER:path 100% %s'; exit 2", "sbatch: error: burst_buffer/lua: line 2: no such tier\nsbatch: error: write TIER:path 100% %s\n"},
		{"none", "exit 0", "sbatch: error: burst_buffer/lua: " + silent + "\n"},
	} {
		c.do("job_process."+r.name, r.do)
		if id, said, err := c.Submit(Anna, doing(r.name)); err == nil || !strings.HasPrefix(said, r.want) {
			t.Errorf("job %s was taken: %q, want %q", id, said, r.want)
		}
	}
	for _, id := range ids {
		_, _ = c.On(Controller, "scancel", id) // many have ended
	}
}

// status asks for the table of all jobs, with words that are none of a shell's.
func status(t *testing.T, c *Cluster) {
	c.do("get_status", `printf 'OK\nJOB  PHASE\n7    data_in\n\t%%d\n'; exit 0`)
	words := []string{"a b", "$(touch /project/owned)", "`touch /project/owned`", "'; touch /project/owned; '", `"`, `\`, "'", "", "--help", "-o", "a\nb", "*", "~", "#", "\036"}
	for _, user := range []string{Ben, "root"} {
		before := len(c.calls("get_status"))
		out, err := c.As(user, 1, "", append([]string{"scontrol", "--", "show", "bbstat"}, words...)...)
		if want := "JOB  PHASE\n7    data_in\n\t%d\n"; err != nil || out != want {
			t.Errorf("%s sees %q, %v, want %q", user, out, err, want)
		}
		calls := c.calls("get_status")
		if len(calls) != before+1 || !slices.Equal(calls[before], append([]string{"hook", "bb", "get_status"}, words...)) {
			t.Errorf("the words came as %q", calls[before:])
		}
	}
	if _, err := os.Stat(c.Path(Controller, "/project/owned")); err == nil {
		t.Error("a word was run by a shell")
	}
	for _, r := range []struct{ do, want string }{{"echo ERROR the mover is away; exit 8", "datamove: the mover is away\n"}, {"exit 1", "datamove: " + silent + "\n"}} {
		c.do("get_status", r.do)
		if out, err := c.On(Controller, "scontrol", "show", "bbstat"); err != nil || out != r.want {
			t.Errorf("%q, %v, want %q", out, err, r.want)
		}
	}
}

// submits has requests come by all ways: what Slurm is told are lines that mean the same.
func submits(t *testing.T, c *Cluster) {
	tiers := directive.Tiers{Named: map[string]directive.Tier{"project": {Level: directive.Warm, Path: "/project"}, "scratch": {Level: directive.Hot, Path: "/local_nvme", Ephemeral: true, NodeLocal: true}}}
	const plain, cray, ours = "#!/bin/sh\necho\n", "#!/bin/sh\n# a comment\n\n#DW jobdw type=scratch capacity=1GiB\necho\n", "#!/bin/sh\n#DATAMOVE stage-in=project:own\necho\n"
	for _, r := range []struct {
		name, script, comment, variable string
		want                            string // its burst buffer, as Slurm shows it
		asks, wrong                     bool   // that datamove is asked, and would refuse it
	}{
		{"nothing is asked for", plain, "a comment", "", "", false, false},
		{"#DW lines", cray, "", "", "#DATAMOVE dw", true, false},
		{"lines of ours", ours, "", "", "#DATAMOVE stage-in=project:own", true, false},
		{"both", ours[:len(ours)-5] + cray[len("#!/bin/sh\n"):], "", "", "#DATAMOVE stage-in=project:own", true, false},
		{"a comment", plain, "datamove: stage-in=project:a", "", "#DATAMOVE  stage-in=project:a", true, false},
		{"a comment and #DW", cray, "datamove:stage-in=project:a", "", "#DATAMOVE stage-in=project:a", true, false},
		{"a comment with more", plain, "for paper 7,datamove:stage-in=project:a;; stage-in=project:b required|to=be", "", "#DATAMOVE stage-in=project:a\n#DATAMOVE  stage-in=project:b required", true, false},
		{"quotes", plain, `datamove:stage-in="project:a;b|\"c" |x datamove:stage-in=project:d`, "", "#DATAMOVE stage-in=\"project:a;b|\\\"c\" \n#DATAMOVE stage-in=project:d", true, false},
		{"the end of another word", plain, "mydatamove:stage-in=project:a", "", "", false, false},
		{"a variable", plain, "", "stage-in=project:a; stage-in=project:b", "#DATAMOVE stage-in=project:a\n#DATAMOVE  stage-in=project:b", true, false},
		{"all of them", ours, "datamove:stage-in=project:a", "stage-in=project:b", "#DATAMOVE stage-in=project:a\n#DATAMOVE stage-in=project:b\n#DATAMOVE stage-in=project:own", true, false},
		{"a backslash at the end", plain, `datamove:stage-in=project:a\;stage-in=project:b`, "", "#DATAMOVE stage-in=project:a\\ \n#DATAMOVE stage-in=project:b", true, false},
		{"words of a shell and of Lua", plain, "", "stage-in=\"project:$(id)'%s%d\"", "#DATAMOVE stage-in=\"project:$(id)'%s%d\"", true, true},
		{"a line that is not seen", "#!/bin/sh\n #DATAMOVE stage-in=project:a\necho\n", "", "", "", true, true},
		{"a line that is a comment", "#!/bin/sh\n# DataMove stage-in=project:a\necho\n", "", "", "", true, true},
		{"a line behind a command", "#!/bin/sh\necho\n#DATAMOVE stage-in=project:a\n", "", "", "", true, true},
		{"datamove as a command", "#!/bin/sh\n#\ndatamove ls project:\n", "", "", "", false, false},
		{"a comment in other letters", plain, "x;DataMove: stage-in=project:a", "", "#DATAMOVE  stage-in=project:a", true, false},
		{"an empty request", plain, "datamove:;; ", ";", "", false, false},
	} {
		before := len(c.calls("submit"))
		export := "--export=NONE"
		if r.variable != "" {
			export = "--export=DATAMOVE=" + r.variable
		}
		id, said, err := c.Submit(Anna, r.script, "--hold", "--comment="+r.comment, export)
		if err != nil {
			t.Errorf("%s: %v, %s", r.name, err, said)
			continue
		}
		if j, err := c.Job(id); err != nil || j.BurstBuffer != strings.ReplaceAll(r.want, " \n", "\n") { // as parseJob reads it
			t.Errorf("%s: the burst buffer is %q, %v, want %q", r.name, j.BurstBuffer, err, r.want)
		}
		if asked := c.calls("submit"); len(asked)-before != map[bool]int{true: 1}[r.asks] {
			t.Errorf("%s: datamove was asked %q", r.name, asked[before:])
		}
		if !r.asks {
			continue
		}
		got, gotErr := directive.Parse(directive.Text{Script: c.read("submitted")}, tiers)
		want, wantErr := directive.Parse(directive.Text{Script: r.script, Comment: r.comment, Environment: r.variable}, tiers)
		if (gotErr != nil) != r.wrong || (wantErr != nil) != r.wrong || !sameRequests(got, want) {
			t.Errorf("%s: the lines mean %+v, %v; want %+v, %v", r.name, got, gotErr, want, wantErr)
		}
	}

	for _, r := range []struct{ name, do, comment, want string }{
		{"a refusal", "echo ERROR over the quota of vision:; echo '100% of %s'; exit 7", "", "sbatch: error: datamove: over the quota of vision:\nsbatch: error: 100% of %s\n"},
		{"a refusal without a text", "echo ERROR; exit 1", "", "sbatch: error: datamove: refused, without a reason\n"},
		{"a refusal of a comment", "echo ERROR line 2; exit 2", "datamove:x", "sbatch: error: datamove: line 2\nsbatch: error: (lines 2 to 2 of the script, as it is read, are of --comment and DATAMOVE)\n"},
		{"a comment without a colon", "", "Datamove stage-in=project:a", "sbatch: error: datamove: --comment: behind datamove stands a colon: --comment=\"datamove: stage-in=...\"\n"},
		{"a line end in a request", "", "datamove:stage-in=project:a\nreboot", "sbatch: error: datamove: --comment: there is a line end or a control character in a request\n"},
	} {
		c.do("submit", r.do)
		id, said, err := c.Submit(Anna, ours, "--hold", "--comment="+r.comment)
		if want := r.want + "sbatch: error: Batch job submission failed: Unspecified error\n"; err == nil || said != want {
			t.Errorf("%s: job %s: %q, want %q", r.name, id, said, want)
		}
	}
	first := c.MustSubmit(Anna, plain, "--hold")
	if j, err := c.Job(c.MustSubmit(Anna, ours, "--dependency=afterok:"+first)); err != nil || j.BurstBuffer != "#DATAMOVE depends\n#DATAMOVE stage-in=project:own" {
		t.Errorf("a job that waits for another one has the burst buffer %q, %v", j.BurstBuffer, err)
	}
	for _, r := range []struct {
		name, script string
		args         []string
		refused      bool
	}{
		{"that asks for nothing", plain, []string{"-N1", ":", "-N1"}, false},
		{"that asks for data", ours, []string{"-N1", ":", "-N1"}, true},
		{"whose second component asks in its comment", plain, []string{"-N1", ":", "-N1", "--comment=datamove:stage-in=project:a"}, true},
	} {
		id, said, err := c.Submit(Anna, r.script, append([]string{"--hold"}, r.args...)...)
		if (err != nil) != r.refused || r.refused && !strings.Contains(said, "each component as a job of its own") {
			t.Errorf("a heterogeneous job %s: %q, %q, %v", r.name, id, said, err)
		}
	}
	for _, crash := range []string{"exit 0", "kill -9 $$", "echo OKAY; exit 0", "echo 'panic: x' >&2; exit 2"} {
		c.do("submit", crash)
		c.MustSubmit(Anna, ours, "--hold") // burst_buffer.lua asks again
	}
	c.do("submit", "")
	interactive(t, c)
	named := c.MustSubmit(Anna, ours, "--hold", "--array=1-2%1", "--job-name=it's \"mine\"; $(id) ü")
	if asked := c.calls("submit"); !slices.Equal(asked[len(asked)-1][5:], []string{"it's \"mine\"; $(id) ü", "1-2%1"}) {
		t.Errorf("job %s: datamove was asked %q", named, asked[len(asked)-1])
	}
	for comment, refused := range map[string]bool{"a note": false, "datamove: stage-in=project:b": true, "datamove stage-in=project:b": true} {
		out, err := c.As(Anna, Controller, "", "scontrol", "update", "jobid="+first, "comment="+comment)
		if (err != nil) != refused {
			t.Errorf("a comment that becomes %q: %s, %v", comment, out, err)
		}
	}
	if left, err := c.On(Controller, "ls", "-A", "/tmp"); err != nil || left != "" {
		t.Errorf("left in /tmp: %q, %v", left, err)
	}
}

// interactive has salloc and srun ask: by their comment, and where cli_filter.lua is, by the variable.
func interactive(t *testing.T, c *Cluster) {
	conf := "/tmp/filtered/slurm.conf"
	_, err := c.As(Anna, Controller, "", "sh", "-c", "cp -r /etc/slurm /tmp/filtered && sed -i s/^#Cli/Cli/ /tmp/filtered/slurm.conf.datamove && sed -i s,slurm.conf.datamove,/tmp/filtered/slurm.conf.datamove, "+conf)
	must.Do(t, err)
	defer func() { _, _ = c.On(Controller, "rm", "-r", "/tmp/filtered") }()
	for _, r := range []struct {
		name, variable string
		args           []string
		want           string // the lines of the script that datamove is asked about
		refused        string
	}{
		{"srun", "", []string{"srun", "--comment=datamove:stage-in=project:a"}, "#DATAMOVE stage-in=project:a", ""},
		{"salloc", "", []string{"salloc", "--comment=x|datamove:stage-in=project:a"}, "#DATAMOVE stage-in=project:a", ""},
		{"salloc that asks by --bb, too", "", []string{"salloc", "--bb=#DATAMOVE stage-in=project:b", "--comment=datamove:stage-in=project:a"}, "#DATAMOVE stage-in=project:a\n#DATAMOVE stage-in=project:b", ""},
		{"salloc for nothing", "", []string{"salloc", "--comment=x"}, "", ""},
		{"srun with the variable", "stage-in=project:a; stage-in=project:b", []string{"srun", "--comment=x"}, "#DATAMOVE  stage-in=project:a\n#DATAMOVE  stage-in=project:b", ""},
		{"salloc with the variable", "stage-in=project:a", []string{"salloc"}, "#DATAMOVE  stage-in=project:a", ""},
		{"srun with a bar in the variable", "stage-in=project:a|b", []string{"srun"}, "", "has no |"},
		{"a step that asks", "", []string{"env", "SLURM_JOB_ID=7", "srun", "--comment=datamove:stage-in=project:a"}, "", "a step of a job asks for no data"},
	} {
		before := len(c.calls("submit"))
		out, err := c.As(Anna, Controller, "", append(append([]string{"env", "SLURM_CONF=" + conf, "DATAMOVE=" + r.variable}, r.args...), "--quiet", "echo", "it ran")...)
		if r.refused != "" {
			if err == nil || !strings.Contains(err.Error(), r.refused) {
				t.Errorf("%s: %q, %v; want %s", r.name, out, err, r.refused)
			}
			continue
		}
		asked := len(c.calls("submit")) - before
		if err != nil || out != "it ran\n" || asked != map[bool]int{true: 1}[r.want != ""] || asked > 0 && c.read("submitted") != "#!/bin/bash\n"+r.want+"\n" {
			t.Errorf("%s: %q, %v; datamove was asked %d times, of %q; want %q", r.name, out, err, asked, c.read("submitted"), r.want)
		}
	}
	c.do("submit.refuse", "echo ERROR no such tier; exit 2")
	if out, err := c.As(Anna, Controller, "", "salloc", "--comment=datamove:stage-in=project:a", "--bb=#do refuse", "true"); err == nil || !strings.Contains(err.Error(), "salloc: error: datamove: no such tier") {
		t.Errorf("salloc: %q, %v", out, err)
	}
}

// TestBeside: hooks of a site beside ours, as docs/guides/slurm.md says, with its own words.
func TestBeside(t *testing.T) {
	soak(t)
	readme, err := os.ReadFile("../../docs/guides/slurm.md")
	must.Do(t, err)
	lua, err := os.ReadFile(shipped + "/burst_buffer.lua")
	must.Do(t, err)
	_, block, _ := strings.Cut(string(readme), "```lua\n")
	block, _, _ = strings.Cut(block, "```")
	block = strings.Replace(block, "-- what the site does", `if job.comment == "no" then slurm.log_user("the site says no") return slurm.ERROR end`, 1)
	const script = "#!/bin/sh\necho \"${0##*/}\" >>/project/site\n"
	c := stoodIn(t, Options{Nodes: 1}, func(files fstest.MapFS) {
		files["datamove.lua"] = files["job_submit.lua"]
		files["job_submit.lua"] = &fstest.MapFile{Data: []byte(block), Mode: 0o644}
		files["prolog.d/10-site"] = &fstest.MapFile{Data: []byte(script), Mode: 0o755}
		files["prolog.d/50-datamove"] = files["datamove/prolog"]
		files["site"] = &fstest.MapFile{Data: []byte(script + "exec /usr/local/bin/datamove hook prolog-slurmctld\n"), Mode: 0o755}
		conf := files["slurm.conf.datamove"]
		conf.Data = []byte(strings.NewReplacer("/etc/slurm/datamove/prolog\n", "/etc/slurm/prolog.d/*\n", "/etc/slurm/datamove/prolog-slurmctld", "/etc/slurm/site").Replace(string(conf.Data)))
	})
	must.Do(t, os.WriteFile(c.Path(Controller, "/project/site"), nil, 0o666))
	must.Do(t, os.Chmod(c.Path(Controller, "/project/site"), 0o666))
	id, said, err := c.Submit(Anna, "#!/bin/sh\n", "--comment=no")
	if err == nil || !strings.HasPrefix(said, "sbatch: error: the site says no\n") {
		t.Errorf("job %s: %q, %v", id, said, err)
	}
	id = c.MustSubmit(Anna, "#!/bin/sh\n#DW jobdw type=scratch capacity=1GiB\n")
	j, err := c.Job(id)
	if err != nil || j.BurstBuffer != "#DATAMOVE dw" {
		t.Errorf("%+v, %v", j, err)
	}
	c.UntilState(id, "COMPLETED")
	for _, words := range [][]string{{"hook", "prolog"}, {"hook", "prolog-slurmctld"}} {
		c.untilCalled(words...)
	}
	names := strings.Fields(c.read("site"))
	if slices.Sort(names); !slices.Equal(names, []string{"10-site", "site"}) {
		t.Errorf("of the site's there ran %q", names)
	}

	// What a Prolog says is in the log of slurmd when it has failed.
	c.do("prolog", "echo this node is broken >&2; exit 1\n")
	c.MustSubmit(Anna, "#!/bin/sh\n")
	c.Eventually("the log has the reason", func() error {
		if log := c.Log(1, "slurmd"); !strings.Contains(log, "this node is broken") || !strings.Contains(log, "prolog failed") {
			return fmt.Errorf("%s", tail(log))
		}
		return nil
	})
	// The script is read anew by itself when it changes.
	must.Do(t, os.WriteFile(c.Path(Controller, "/etc/slurm/burst_buffer.lua"), []byte(strings.Replace(string(lua), `return hook(soon, "job_process", script)`, `return slurm.ERROR, "anew"`, 1)), 0o644))
	if id, said, err := c.Submit(Anna, "#!/bin/sh\n#DATAMOVE dw\n"); err == nil || !strings.HasPrefix(said, "sbatch: error: burst_buffer/lua: anew\n") {
		t.Errorf("job %s: %q", id, said)
	}
}

func sameRequests(a, b directive.Job) bool {
	text := func(j directive.Job) (all []string) {
		for _, r := range j.Requests {
			all = append(all, r.String())
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(text(a), text(b)) && reflect.DeepEqual(a.Scratch, b.Scratch)
}

// TestDeployHangs: a datamove that does not end is a failure, also where Slurm has no time limit and waits for it with all that it does.
//
//safety:8 with TestMoverStops
func TestDeployHangs(t *testing.T) {
	soak(t)
	c := stoodIn(t, Options{Nodes: 1}, func(files fstest.MapFS) {
		conf := files["burst_buffer.conf"]
		conf.Data = []byte(strings.NewReplacer("Timeout=86400", "Timeout=10", "Timeout=300", "Timeout=10").Replace(string(conf.Data)))
	})
	const hangs = "echo 'a note' >&2; /bin/sleep 600"
	ids := map[string]string{}
	for _, l := range limited {
		c.do(l.phase+"."+l.phase, hangs)
		ids[l.phase] = c.MustSubmit(Anna, doing(l.phase), "--output=/dev/null")
	}
	for _, l := range limited {
		comment := strings.ReplaceAll(l.comment, "3000", "10000")
		c.Until(ids[l.phase], "has failed in "+l.phase, func(j Job) bool { return l.is(j) && strings.HasSuffix(j.SystemComment, comment) })
	}
	c.Eventually("what has hung is killed", func() error { return gone(c, Controller, "/bin/sleep 600") })

	c.do("paths.paths", hangs)
	paths := c.MustSubmit(Anna, doing("paths"), "--output=/dev/null")
	c.Until(paths, "held", held)
	for _, call := range c.calls(paths) {
		if call[2] == "pre_run" {
			t.Errorf("after paths there is %q", call)
		}
	}

	c.do("job_process.job_process", hangs)
	if id, said, err := c.Submit(Anna, doing("job_process")); err == nil || !strings.Contains(said, silent) {
		t.Errorf("job %s was taken: %q", id, said)
	}
	c.do("submit.submit", hangs)
	c.MustSubmit(Anna, doing("submit"), "--hold")
	c.do("get_status", hangs)
	if out, err := c.On(Controller, "scontrol", "show", "bbstat"); err != nil || out != "datamove: "+silent+"\n" {
		t.Errorf("%q, %v", out, err)
	}
	c.noDrain()
}
