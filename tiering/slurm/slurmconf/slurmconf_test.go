package slurmconf

import (
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"datamove.dev/test/must"
)

const slurm = 64030

// site is one that is as docs/guides/slurm.md says, but for what a test changes.
type site struct {
	files fstest.MapFS
	host  string
}

const base = "ClusterName=lab\nSlurmctldHost=control(10.0.0.1)\nSlurmUser=slurm\nNodeName=node[1-4] CPUs=8\nInclude slurm.conf.datamove\n"

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{files: fstest.MapFS{}, host: "control.site"}
	shipped := os.DirFS("../../../deploy/slurm")
	err := fs.WalkDir(shipped, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(shipped, name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			s.put("/etc/slurm/"+name, string(text), info.Mode().Perm()&^0o022, 0)
		}
		return err
	})
	must.Do(t, err)
	s.put("/etc/slurm/slurm.conf", base, 0o644, 0)
	s.put("/usr/local/bin/datamove", "\x7fELF", 0o755, 0)
	s.put("/var/lib/datamove", "", fs.ModeDir|0o711, 0)
	s.put("/var/lib/datamove/slurm", "", fs.ModeDir|0o700, slurm)
	return s
}

func (s *site) put(file, text string, mode fs.FileMode, uid uint32) {
	s.files[name(file)] = &fstest.MapFile{Data: []byte(text), Mode: mode, Sys: &syscall.Stat_t{Uid: uid, Gid: uid}}
}

// add adds lines to slurm.conf.
func (s *site) add(text string) { s.edit("slurm.conf", "NodeName", text+"NodeName") }

// edit exchanges a part of a file below /etc/slurm.
func (s *site) edit(base, from, to string) {
	f := s.files[name(path.Join("/etc/slurm", base))]
	if !strings.Contains(string(f.Data), from) {
		panic(base + " has no " + from)
	}
	f.Data = []byte(strings.Replace(string(f.Data), from, to, 1))
}

func (s *site) mode(file string, mode fs.FileMode, uid uint32) {
	f := s.files[name(file)]
	f.Mode, f.Sys = f.Mode&fs.ModeType|mode, &syscall.Stat_t{Uid: uid, Gid: uid}
}

func (s *site) drop(file string) { delete(s.files, name(file)) }

func (s *site) facts() Facts {
	return Read("/etc/slurm/slurm.conf", Options{Files: s.files, Host: s.host, Records: "/var/lib/datamove/slurm",
		Lookup: func(user string) (uint32, bool) { return slurm, user == "slurm" }})
}

func (s *site) judged() []Finding {
	return Judge(s.facts(), Limits{Deadline: 5 * time.Second, Ready: 4 * time.Minute})
}

// TestShipped: what lies in deploy/slurm, installed as docs/guides/slurm.md says, leaves nothing to change, on each kind of machine.
func TestShipped(t *testing.T) {
	for _, host := range []string{"control", "CONTROL.site", "node3"} {
		s := newSite(t)
		s.host = host
		for _, f := range s.judged() {
			if f.Degree != Good || f.Mend != "" || f.Detail == "" {
				t.Errorf("on %s: %+v", host, f)
			}
		}
	}
	s := newSite(t)
	for _, b := range []struct{ file, version string }{{"burst_buffer.lua", s.facts().Lua.Version}, {"job_submit.lua", s.facts().Submit.Version}} {
		if b.version != Version {
			t.Errorf("%s has version %q, want %q", b.file, b.version, Version)
		}
	}
}

// faults has one thing that is wrong in each row, and what is said of it.
var faults = []struct {
	name   string
	change func(*site)
	degree Degree
	check  string
	detail string // a part
	mend   string // a part
}{
	{"an include that is missing", func(s *site) { s.add("Include site.conf\n") }, Fault, "file", "slurm.conf:4 includes it", "Include"},
	{"includes without end", func(s *site) { s.add("Include slurm.conf\n") }, Fault, "file", "without end", "Include"},
	{"no slurm.conf", func(s *site) { s.drop("/etc/slurm/slurm.conf") }, Fault, "file", "is not there", "readable"},
	{"slurm.conf is a directory", func(s *site) { s.put("/etc/slurm/slurm.conf", "", fs.ModeDir|0o755, 0) }, Fault, "file", "no regular file", "readable"},
	{"a slurm.conf that everybody may write to", func(s *site) { s.mode("/etc/slurm/slurm.conf", 0o666, 0) }, Fault, "file", "every user may write to /etc/slurm/slurm.conf", "0644"},
	{"an included file of a user", func(s *site) { s.mode("/etc/slurm/slurm.conf.datamove", 0o644, 5001) }, Fault, "file", "slurm.conf.datamove belongs to uid 5001", "give it to root"},
	{"a burst_buffer.conf of a user", func(s *site) { s.mode("/etc/slurm/burst_buffer.conf", 0o644, 5001) }, Fault, "file", "burst_buffer.conf belongs to uid 5001", "give it to root"},
	{"a machine that is not of the cluster", func(s *site) { s.host = "login1" }, Advice, "machine", "neither a controller", "on the controller, and on a node"},
	{"SlurmUser of another name service", func(s *site) { s.edit("slurm.conf", "=slurm", "=hpc") }, Advice, "SlurmUser", "hpc is not in /etc/passwd", "in mind"},

	{"arguments of a hook", func(s *site) {
		s.edit("slurm.conf.datamove", "/etc/slurm/datamove/prolog\n", "/usr/local/bin/datamove hook prolog\n")
	}, Fault, "Prolog", "behind the value comes hook prolog", "without arguments"},
	{"no value", func(s *site) { s.add("TaskProlog=\n") }, Fault, "TaskProlog", "there is no value", "remove the line"},
	{"a hook that is set twice", func(s *site) { s.add("Prolog=/etc/slurm/site-prolog\n") }, Advice, "Prolog", "slurm.conf:4, too", "docs/guides/slurm.md"},

	{"no PrologFlags", func(s *site) { s.edit("slurm.conf.datamove", "PrologFlags=Alloc,Contain\n", "") }, Fault, "PrologFlags", "first step", "Alloc,Contain"},
	{"Alloc is in a comment", func(s *site) {
		s.edit("slurm.conf.datamove", "PrologFlags=Alloc,Contain", "PrologFlags=Serial #,Alloc")
	}, Fault, "PrologFlags", "first step", "Alloc,Contain"},
	{"no Contain", func(s *site) { s.edit("slurm.conf.datamove", "Alloc,Contain", "alloc,DeferBatch") }, Advice, "PrologFlags", "without a step", "Alloc,Contain"},

	{"no Prolog", without("Prolog"), Fault, "Prolog", "no directory", "/etc/slurm/datamove/prolog"},
	{"no Epilog", without("Epilog"), Fault, "Epilog", "stays there", "/etc/slurm/datamove/epilog"},
	{"no TaskProlog", without("TaskProlog"), Fault, "TaskProlog", "no DATAMOVE_ variables", "/etc/slurm/datamove/task-prolog"},
	{"no PrologSlurmctld", without("PrologSlurmctld"), Fault, "PrologSlurmctld", "its results stay there", "prolog-slurmctld"},
	{"no EpilogSlurmctld", without("EpilogSlurmctld"), Fault, "EpilogSlurmctld", "when=success", "epilog-slurmctld"},
	{"a Prolog that is not there", onNode(func(s *site) { s.drop("/etc/slurm/datamove/prolog") }), Fault, "Prolog", "it is not there; the node is drained", "deploy/slurm/datamove"},
	{"quoted arguments of a Prolog", onNode(func(s *site) {
		s.edit("slurm.conf.datamove", "Prolog=/etc/slurm/datamove/prolog", `Prolog="/usr/local/bin/datamove hook prolog"`)
	}), Fault, "Prolog", "/usr/local/bin/datamove hook prolog: it is not there", "without arguments"},
	{"a pattern of which nothing is there", onNode(func(s *site) { s.edit("slurm.conf.datamove", "datamove/prolog", "prolog.d/*") }), Fault, "Prolog", "/etc/slurm/prolog.d/*: it is not there", "deploy/slurm"},
	{"a pattern where Slurm takes none", func(s *site) { s.edit("slurm.conf.datamove", "prolog-slurmctld", "prolog-slurm*") }, Fault, "PrologSlurmctld", "Slurm runs nothing", "one program"},
	{"a Prolog of somebody else", onNode(func(s *site) {
		s.put("/etc/slurm/datamove/prolog", "#!/bin/sh\n# exec /usr/local/bin/datamove hook prolog\n", 0o755, 0)
	}), Fault, "Prolog", "not seen to run datamove hook prolog", "at its end"},
	{"a Prolog that runs another hook", onNode(func(s *site) { s.edit("datamove/prolog", "hook prolog", "hook prolog-slurmctld") }), Fault, "Prolog", "not seen to run", "hook prolog"},
	{"a relative path", onNode(func(s *site) { s.edit("slurm.conf.datamove", "=/etc/slurm/datamove/epilog\n", "=datamove/epilog\n") }), Fault, "Epilog", "no absolute path", "deploy/slurm"},
	{"an Epilog that is not executable", onNode(func(s *site) { s.mode("/etc/slurm/datamove/epilog", 0o644, 0) }), Fault, "Epilog", "mode 0644", "chmod 755"},
	{"a TaskProlog that only root may run", onNode(func(s *site) { s.mode("/etc/slurm/datamove/task-prolog", 0o700, 0) }), Fault, "TaskProlog", "mode 0700", "chmod 755"},
	{"a Prolog that everybody may write to", onNode(func(s *site) { s.mode("/etc/slurm/datamove/prolog", 0o777, 0) }), Fault, "Prolog", "every user may write to /etc/slurm/datamove/prolog", "give it to root"},
	{"a directory that a group may write to", onNode(func(s *site) {
		s.put("/etc/slurm/datamove", "", fs.ModeDir|0o775, 0)
		s.files["etc/slurm/datamove"].Sys = &syscall.Stat_t{Gid: 50}
	}), Fault, "Prolog", "the group 50 may write to /etc/slurm/datamove", "give it to root"},
	{"a Prolog of a user", onNode(func(s *site) { s.mode("/etc/slurm/datamove/prolog", 0o755, 5001) }), Fault, "Prolog", "belongs to uid 5001", "give it to root"},
	{"a link that leads to a user's", onNode(func(s *site) {
		s.edit("slurm.conf.datamove", "Prolog=/etc/slurm/datamove/prolog", "Prolog=/etc/slurm/prolog.d/*")
		s.put("/home/anna/prolog", "exec /usr/local/bin/datamove hook prolog\n", 0o755, 5001)
		s.put("/etc/slurm/prolog.d/9-datamove", "../../../home/anna/prolog", fs.ModeSymlink|0o777, 0)
	}), Fault, "Prolog", "/home/anna/prolog belongs to uid 5001", "give it to root"},
	{"no datamove on a node", onNode(func(s *site) { s.drop("/usr/local/bin/datamove") }), Fault, "Epilog", "/usr/local/bin/datamove: it is not there", "install it"},
	{"a datamove of a user", onNode(func(s *site) { s.mode("/usr/local/bin/datamove", 0o755, 5001) }), Fault, "Prolog", "/usr/local/bin/datamove belongs to uid 5001", "give it to root"},
	{"a hook of the controller that SlurmUser can not run", func(s *site) { s.mode("/etc/slurm/datamove/epilog-slurmctld", 0o700, 0) }, Fault, "EpilogSlurmctld", "can not be run by slurm", "chmod 755"},

	{"BatchStartTimeout is short", func(s *site) { s.add("BatchStartTimeout=5\n") }, Fault, "BatchStartTimeout", "5s is not more than slurm.deadline, 5s", "=10"},
	{"BatchStartTimeout is none", func(s *site) { s.add("BatchStartTimeout=soon\n") }, Fault, "BatchStartTimeout", "soon is no number", "=60"},
	{"PrologEpilogTimeout is short", func(s *site) { s.add("prologepilogtimeout = 3 # s\n") }, Fault, "PrologEpilogTimeout", "node drained", "=10"},

	{"no burst buffers", without("BurstBufferType"), Fault, "BurstBufferType", "comments", "burst_buffer/lua"},
	{"burst buffers of another plugin", func(s *site) { s.edit("slurm.conf.datamove", "burst_buffer/lua", "burst_buffer/datawarp") }, Fault, "BurstBufferType", "datawarp", "burst_buffer/lua"},
	{"no burst_buffer.conf", func(s *site) { s.drop("/etc/slurm/burst_buffer.conf") }, Fault, "file", "not there", "deploy/slurm"},
	{"another directive", func(s *site) { s.edit("burst_buffer.conf", "DATAMOVE", "DW") }, Fault, "Directive", `"DW" is not DATAMOVE`, "Directive=DATAMOVE"},
	{"no directive", func(s *site) { s.edit("burst_buffer.conf", "Directive=DATAMOVE", "") }, Fault, "Directive", "not seen", "Directive=DATAMOVE"},
	{"no TeardownFailure", func(s *site) { s.edit("burst_buffer.conf", "=TeardownFailure", "=PrivateData") }, Fault, "Flags", "STAGE_OUT for ever", "TeardownFailure"},
	{"OtherTimeout is short", func(s *site) { s.edit("burst_buffer.conf", "OtherTimeout=300", "OtherTimeout=240") }, Fault, "OtherTimeout", "slurm.ready, 4m0s", "OtherTimeout=300"},
	{"StageInTimeout is short", func(s *site) { s.edit("burst_buffer.conf", "StageInTimeout=86400", "StageInTimeout=60") }, Advice, "StageInTimeout", "1m0s is short", "86400"},
	{"StageOutTimeout is short", func(s *site) { s.edit("burst_buffer.conf", "StageOutTimeout=86400", "StageOutTimeout=60") }, Advice, "StageOutTimeout", "left behind", "86400"},
	{"StageOutTimeout is none", func(s *site) { s.edit("burst_buffer.conf", "StageOutTimeout=86400", "StageOutTimeout=-1") }, Fault, "StageOutTimeout", "-1 is no number", "86400"},

	{"no burst_buffer.lua", func(s *site) { s.drop("/etc/slurm/burst_buffer.lua") }, Fault, "script", "not there", "deploy/slurm"},
	{"a burst_buffer.lua of others", func(s *site) { s.put("/etc/slurm/burst_buffer.lua", "function slurm_bb_pools() end", 0o644, 0) }, Fault, "script", "not datamove's", "deploy/slurm"},
	{"an old burst_buffer.lua", func(s *site) { s.edit("burst_buffer.lua", "version "+Version, "version 0") }, Fault, "script", "of version 0", "this version"},
	{"a burst_buffer.lua that a user can change", func(s *site) { s.mode("/etc/slurm/burst_buffer.lua", 0o644, 5001) }, Fault, "script", "belongs to uid 5001", "0644"},
	{"a burst_buffer.lua that does not say what it runs", func(s *site) { s.edit("burst_buffer.lua", "local datamove =", "datamove =") }, Fault, "script", "where datamove is", "local datamove"},
	{"a datamove elsewhere", func(s *site) { s.edit("burst_buffer.lua", "/usr/local/bin", "/opt/bin") }, Fault, "script", "/opt/bin/datamove: it is not there", "install it"},

	{"job_submit.lua is not loaded", without("JobSubmitPlugins"), Fault, "JobSubmitPlugins", "not loaded", "JobSubmitPlugins=lua"},
	{"job_submit.lua is missing", func(s *site) { s.drop("/etc/slurm/job_submit.lua") }, Fault, "script", "no job is taken", "deploy/slurm"},
	{"an old job_submit.lua", func(s *site) { s.edit("job_submit.lua", "version "+Version, "version 0") }, Fault, "script", "of version 0", "this version"},

	{"no directory of records", func(s *site) { s.drop("/var/lib/datamove/slurm") }, Fault, "records", "not there", "install -d -o slurm -m 0700 /var/lib/datamove/slurm"},
	{"a file in the place of records", func(s *site) { s.put("/var/lib/datamove/slurm", "", 0o600, slurm) }, Fault, "records", "no directory", "install -d"},
	{"records of root", func(s *site) { s.mode("/var/lib/datamove/slurm", 0o700, 0) }, Fault, "records", "belongs to uid 0", "chown slurm"},
	{"records that others can read", func(s *site) { s.mode("/var/lib/datamove/slurm", 0o755, slurm) }, Fault, "records", "mode 0755", "chmod 700"},
	{"records that their owner can not write", func(s *site) { s.mode("/var/lib/datamove/slurm", 0o500, slurm) }, Fault, "records", "mode 0500", "chmod 700"},
	{"records that are shut away", func(s *site) { s.mode("/var/lib/datamove", 0o700, 0) }, Fault, "records", "slurm does not get through /var/lib/datamove", "chmod o+x"},
}

func without(key string) func(*site) {
	return func(s *site) {
		f := s.files["etc/slurm/slurm.conf.datamove"]
		before, after, _ := strings.Cut(string(f.Data), "\n"+key+"=")
		_, after, _ = strings.Cut(after, "\n")
		f.Data = []byte(before + "\n" + after)
	}
}

func onNode(change func(*site)) func(*site) {
	return func(s *site) { s.host = "node2"; change(s) }
}

// TestFaults: each is found with what to do, and a site without it does not hear of it.
//
//safety:7 accounts that could exchange what Slurm runs
func TestFaults(t *testing.T) {
	for _, row := range faults {
		t.Run(row.name, func(t *testing.T) {
			s := newSite(t)
			row.change(s)
			host := s.host
			s2 := newSite(t)
			s2.host = host
			for _, f := range s2.judged() {
				if f.Degree == row.degree && f.Check == row.check && strings.Contains(f.Detail, row.detail) && host != "login1" {
					t.Errorf("without it: %+v", f)
				}
			}
			for _, f := range s.judged() {
				if f.Degree == row.degree && f.Check == row.check && strings.Contains(f.Detail, row.detail) && strings.Contains(f.Mend, row.mend) {
					return
				}
			}
			for _, f := range s.judged() {
				t.Logf("%+v", f)
			}
			t.Error("it is not found")
		})
	}
}

// TestGood: what sites do otherwise, and may.
func TestGood(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*site)
	}{
		{"Contain alone means Alloc, too", func(s *site) { s.edit("slurm.conf.datamove", "Alloc,Contain", "contain") }},
		{"hooks of others beside ours", onNode(func(s *site) {
			s.edit("slurm.conf.datamove", "Prolog=/etc/slurm/datamove/prolog", "Prolog=/etc/slurm/prolog.d/*")
			s.put("/etc/slurm/prolog.d/1-site", "#!/bin/sh\n", 0o755, 0)
			s.put("/etc/slurm/prolog.d/5-datamove", "../datamove/prolog", fs.ModeSymlink|0o777, 0)
		})},
		{"a hook of others that runs ours", func(s *site) {
			s.put("/etc/slurm/datamove/prolog-slurmctld", "#!/bin/sh\nsite_things || exit 1\n'/usr/local/bin/datamove' hook prolog-slurmctld || true\n", 0o755, slurm)
		}},
		{"files of SlurmUser", func(s *site) { s.mode("/etc/slurm/burst_buffer.lua", 0o644, slurm) }},
		{"SlurmUser by number", func(s *site) { s.edit("slurm.conf", "=slurm", "=64030") }},
		{"everything is SlurmUser's below a directory like /tmp", func(s *site) { s.put("/etc", "", fs.ModeDir|fs.ModeSticky|0o777, 0) }},
		{"the configuration of the plugin under its other name", func(s *site) {
			s.files["etc/slurm/burst_buffer_lua.conf"] = s.files["etc/slurm/burst_buffer.conf"]
			s.drop("/etc/slurm/burst_buffer.conf")
		}},
		{"no job_submit.lua, and none is loaded", func(s *site) { s.drop("/etc/slurm/job_submit.lua"); without("JobSubmitPlugins")(s) }},
		{"a site's own job_submit.lua", func(s *site) { s.put("/etc/slurm/job_submit.lua", "function slurm_job_submit() end", 0o644, 0) }},
		{"no limit", func(s *site) { s.add("BatchStartTimeout=65534\nPrologEpilogTimeout=INFINITE\n") }},
		{"a node has no burst_buffer.conf", onNode(func(s *site) { s.drop("/etc/slurm/burst_buffer.conf") })},
		{"a node has no scripts of the controller", onNode(func(s *site) {
			s.drop("/etc/slurm/burst_buffer.lua")
			s.drop("/etc/slurm/job_submit.lua")
			s.drop("/etc/slurm/datamove/prolog-slurmctld")
			s.drop("/var/lib/datamove/slurm")
		})},
		{"a node by its host name", func(s *site) {
			s.host = "gpu7.site"
			s.add("NodeName=n[1-9] Sockets=2 NodeHostname=gpu[1-9] State=UNKNOWN\n")
		}},
	} {
		s := newSite(t)
		row.change(s)
		for _, f := range s.judged() {
			if f.Degree != Good {
				t.Errorf("%s: %+v", row.name, f)
			}
		}
	}
}
