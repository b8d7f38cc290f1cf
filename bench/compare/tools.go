package compare

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// Ours is the name of the tool that the others are compared with.
const Ours = "datamove"

// job is what one run has to do, in words that every tool understands in its own way.
type job struct {
	source, target string // paths, or s3://bucket/prefix
	folder         string // where the target is on this machine, to count it and to remove it
	file           bool   // source is one file
	store          *store // of the S3 end, if there is one
	scratch        string // for what a tool keeps beside its target
}

func (j job) toStore() bool { return strings.HasPrefix(j.target, "s3://") }

// tool is a program and how it is told to do a job.
type tool struct {
	name    string
	program string   // looked up in PATH
	version []string // arguments that print it
	command func(program string, j job) command
}

// tools are datamove and its peers, each called as its manual recommends for
// speed on one machine with metadata kept.
var tools = []tool{
	{Ours, Ours, []string{"version"}, datamove},
	{"cp", "cp", []string{"--version"}, func(program string, j job) command {
		return command{args: []string{program, "-a", j.source, j.target}}
	}},
	{"cp --reflink", "cp", []string{"--version"}, func(program string, j job) command {
		return command{args: []string{program, "-a", "--reflink=always", j.source, j.target}}
	}},
	{"rsync", "rsync", []string{"--version"}, func(program string, j job) command {
		return command{args: []string{program, "-a", contents(j), j.target}}
	}},
	{"fpsync", "fpsync", nil, func(program string, j job) command {
		return command{args: []string{program, "-n", strconv.Itoa(runtime.NumCPU()), "-f", "2000",
			"-t", filepath.Join(j.scratch, "fpsync"), contents(j), j.target + "/"}}
	}},
	{"rclone", "rclone", []string{"version"}, rclone},
	{"s5cmd", "s5cmd", []string{"version"}, s5cmd},
	// Two bare walks: what a comparison of two trees costs at the least.
	{"find", "find", []string{"--version"}, func(_ string, j job) command {
		walk := `find "$0" -printf '%P %y %m %U %G %s %T@\n' >/dev/null && find "$1" -printf '%P %y %m %U %G %s %T@\n' >/dev/null`
		return command{args: []string{"/bin/sh", "-c", walk, j.source, j.target}}
	}},
}

// contents names a folder so that its contents are meant.
func contents(j job) string {
	if j.file {
		return j.source
	}
	return j.source + "/"
}

func datamove(program string, j job) command {
	env := []string{"XDG_STATE_HOME=" + filepath.Join(j.scratch, "state")}
	if j.store != nil {
		env = append(env, j.store.environment()...)
	}
	return command{args: []string{program, "copy", "-q", j.source, j.target}, env: env}
}

func rclone(program string, j job) command {
	args, env := []string{program, "copy"}, []string{"RCLONE_CONFIG=/dev/null"}
	if j.file {
		args[1] = "copyto"
	}
	if j.store == nil {
		return command{args: append(args, j.source, j.target), env: env}
	}
	remote := func(location string) string {
		if path, ok := strings.CutPrefix(location, "s3://"); ok {
			return "store:" + path
		}
		return location
	}
	env = append(env, j.store.environment()...)
	env = append(env, "RCLONE_CONFIG_STORE_TYPE=s3", "RCLONE_CONFIG_STORE_PROVIDER=Other", "RCLONE_CONFIG_STORE_ENV_AUTH=true",
		"RCLONE_CONFIG_STORE_ENDPOINT="+j.store.endpoint)
	args = append(args, "--transfers", "32", "--checkers", "32", "--s3-no-check-bucket")
	return command{args: append(args, remote(j.source), remote(j.target)), env: env}
}

func s5cmd(program string, j job) command {
	args := []string{program, "--endpoint-url", j.store.endpoint, "--log", "error", "cp"}
	switch {
	case j.file:
		args = append(args, j.source, j.target)
	case j.toStore():
		args = append(args, j.source+"/", j.target+"/")
	default:
		args = append(args, j.source+"/*", j.target+"/")
	}
	return command{args: args, env: j.store.environment()}
}

// find returns the path of a tool's program: datamove as given, or beside this one.
func (t tool) find(datamovePath string) (string, error) {
	if t.name != Ours {
		return exec.LookPath(t.program)
	}
	if datamovePath != "" {
		return exec.LookPath(datamovePath)
	}
	if self, err := os.Executable(); err == nil {
		if sibling, err := exec.LookPath(filepath.Join(filepath.Dir(self), t.program)); err == nil {
			return sibling, nil
		}
	}
	return exec.LookPath(t.program)
}

// versionOf returns a program's version: of the module that a peer in Go was built
// from, or the first word with a number in what a program says of itself.
func (t tool) versionOf(path string) string {
	if v := moduleVersion(path); v != "" && t.name != Ours {
		return v
	}
	if t.version == nil {
		return ""
	}
	out, err := exec.Command(path, t.version...).Output()
	if err != nil {
		return ""
	}
	for word := range strings.FieldsSeq(string(out)) {
		if word = strings.Trim(word, "(),"); strings.ContainsAny(word, "0123456789") && !strings.Contains(word, "/") && !strings.HasPrefix(word, "s3") {
			return strings.TrimPrefix(word, "v")
		}
	}
	return ""
}

func moduleVersion(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	for _, m := range append(info.Deps, &info.Main) {
		if m.Version != "(devel)" && m.Path != "" && strings.HasPrefix(info.Path+"/", m.Path+"/") {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return ""
}

// shown is a call as the report shows it: without what is only true of this run.
func (c command) shown(j job) string {
	names := strings.NewReplacer(j.source, "SRC", j.target, "DST", j.scratch, "TMP")
	if j.store != nil {
		names = strings.NewReplacer(j.source, "SRC", j.target, "DST", j.scratch, "TMP", j.store.endpoint, "URL",
			strings.TrimPrefix(j.source, "s3://"), "SRC", strings.TrimPrefix(j.target, "s3://"), "DST")
	}
	args := append([]string{filepath.Base(c.args[0])}, c.args[1:]...)
	for i := range args {
		args[i] = names.Replace(args[i])
	}
	return strings.Join(args, " ")
}

func toolNamed(name string) (tool, error) {
	for _, t := range tools {
		if t.name == name {
			return t, nil
		}
	}
	return tool{}, fmt.Errorf("%q is no tool that can be compared", name)
}
