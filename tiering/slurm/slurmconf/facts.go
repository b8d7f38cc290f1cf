package slurmconf

import (
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/tiering/slurm/hostlist"
)

// Version is that of the scripts in deploy/slurm that this datamove goes with. It changes when they, or what they call, do.
const Version = "1"

// Hooks are the settings that name programs, and the hook of datamove that each has to run.
var Hooks = []struct {
	Key, Hook  string
	Controller bool // it runs there, as SlurmUser; else on nodes
	Pattern    bool // the value may be a pattern, for several programs
}{
	{Key: "Prolog", Hook: "prolog", Pattern: true},
	{Key: "Epilog", Hook: "epilog", Pattern: true},
	{Key: "TaskProlog", Hook: "task-prolog"},
	{Key: "PrologSlurmctld", Hook: "prolog-slurmctld", Controller: true},
	{Key: "EpilogSlurmctld", Hook: "epilog-slurmctld", Controller: true},
}

// Facts are what a site has configured.
type Facts struct {
	File      string // slurm.conf
	Conf      Conf
	BurstFile string // burst_buffer.conf; "" is not there
	Burst     Conf
	Unread    []Finding // what could not be read of them, or should not be as it is

	Controller, Node bool // whether this machine is one
	User             string
	UserID           uint32
	UserKnown        bool

	Programs    map[string][]Program // that are named, by the key
	Lua, Submit Script               // burst_buffer.lua, job_submit.lua
	Records     Dir
}

// Program is one that Slurm runs.
type Program struct {
	Path   string
	Err    error // it can not be looked at
	Mode   fs.FileMode
	Loose  string   // which users may exchange it that should not; "" is none
	Called *Program // the datamove that it runs for its hook; nil is none
}

// Script is a file of Lua beside slurm.conf.
type Script struct {
	File     string
	Err      error
	Version  string   // of datamove's; "" is another one
	Mentions bool     // that it has to do with datamove
	Loose    string   // as that of a program
	Called   *Program // datamove
}

// Dir is the directory of the controller's records.
type Dir struct {
	Path  string
	Err   error
	Mode  fs.FileMode
	Owner uint32
	Shut  string // a directory above it that SlurmUser does not get through
}

// Options say where to look.
type Options struct {
	Files   fs.FS                                    // the root of all files
	Host    string                                   // the name of this machine
	Records string                                   // of the controller
	Lookup  func(name string) (uid uint32, has bool) // finds an account
}

var (
	versionLine  = regexp.MustCompile(`(?m)^-- datamove hooks of Slurm, version (\S{1,20})$`)
	datamoveLine = regexp.MustCompile(`(?m)^local datamove = "([^"\n]+)"$`)
)

// files are where slurm.conf may be; the last one is that of slurmd without one of its own.
var files = []string{"/etc/slurm/slurm.conf", "/etc/slurm-llnl/slurm.conf", "/run/slurm/conf/slurm.conf"}

// Find is the file that SLURM_CONF names, or that there is; "" is none.
func Find(root fs.FS, getenv func(string) string) string {
	if file := getenv("SLURM_CONF"); file != "" {
		return file
	}
	for _, file := range files {
		if _, err := fs.Stat(root, name(file)); err == nil {
			return file
		}
	}
	return ""
}

// ClusterName is what Slurm calls the cluster: in small letters, as Slurm takes it. "" is not known.
func ClusterName(root fs.FS, file string) string {
	conf, _, _ := load(root, path.Clean(file))
	return strings.ToLower(conf.value("ClusterName", ""))
}

// Read looks at what the configuration in a file says.
func Read(file string, o Options) Facts {
	f := Facts{File: path.Clean(file), Programs: map[string][]Program{}}
	var read []string
	f.Conf, read, f.Unread = load(o.Files, f.File)
	f.User = f.Conf.value("SlurmUser", "root")
	f.UserID, f.UserKnown = account(f.User, o.Lookup)
	f.place(o.Host)

	dir := path.Dir(f.File)
	for _, base := range []string{"burst_buffer.conf", "burst_buffer_lua.conf"} { // as Slurm looks for it
		if _, err := fs.Stat(o.Files, name(path.Join(dir, base))); err == nil {
			f.BurstFile = path.Join(dir, base)
			break
		}
	}
	if f.BurstFile != "" {
		conf, more, wrong := load(o.Files, f.BurstFile)
		f.Burst, read, f.Unread = conf, append(read, more...), append(f.Unread, wrong...)
	}

	l := looker{o.Files, func(uid uint32) bool { return uid == 0 || f.UserKnown && uid == f.UserID }}
	for _, file := range read {
		if who := l.loose(file); who != "" {
			f.Unread = append(f.Unread, fault(file, "file", who+", and so could have anything run by root", "give it to root, with mode 0644"))
		}
	}
	for _, h := range Hooks {
		for _, at := range l.named(f.Conf.value(h.Key, ""), h.Pattern) {
			f.Programs[h.Key] = append(f.Programs[h.Key], l.hook(at, h.Hook))
		}
	}
	f.Lua, f.Submit = l.script(path.Join(dir, "burst_buffer.lua")), l.script(path.Join(dir, "job_submit.lua"))
	f.Records = l.records(o.Records, f.UserID)
	return f
}

// account finds the user that a setting means: a name, or a number.
func account(user string, lookup func(string) (uint32, bool)) (uint32, bool) {
	if n, err := strconv.ParseUint(user, 10, 32); err == nil {
		return uint32(n), true
	}
	if user == "root" {
		return 0, true
	}
	if lookup == nil {
		return 0, false
	}
	return lookup(user)
}

// place finds out what this machine is to Slurm.
func (f *Facts) place(host string) {
	is := func(name string) bool { return short(name) != "" && strings.EqualFold(short(name), short(host)) }
	for _, key := range []string{"SlurmctldHost", "ControlMachine", "BackupController"} {
		for _, s := range f.Conf.all(key) {
			name, _, _ := strings.Cut(s.Value, "(") // NAME(ADDRESS)
			f.Controller = f.Controller || is(name)
		}
	}
	for _, s := range f.Conf.all("NodeName") {
		expressions := []string{s.Value}
		for rest := s.Rest; rest != ""; {
			more, ok := setting(rest)
			if !ok {
				break
			}
			if strings.EqualFold(more.Key, "NodeHostname") {
				expressions = append(expressions, more.Value)
			}
			rest = more.Rest
		}
		for _, e := range expressions {
			names, err := hostlist.Nodes(e)
			f.Node = f.Node || err == nil && slices.ContainsFunc(names, is)
		}
	}
}

// short is a host's name without its domain.
func short(host string) string {
	host, _, _ = strings.Cut(host, ".")
	return host
}
