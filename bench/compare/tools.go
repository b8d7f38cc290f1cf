package compare

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Ours is the name of the tool that the others are compared with.
const Ours = "datamove"

// OurLoad is our load generator, with which others are compared.
const OurLoad = "datamove-bench"

// isOurs says that a tool is the first of a scenario, and not beside it.
func isOurs(name string) bool { return name == Ours || name == OurLoad }

// job is what one run has to do, in words that every tool understands in its own way.
type job struct {
	source, target string  // paths, or s3://bucket/prefix
	folder         string  // where the target is on this machine, to count it and to remove it
	file           bool    // source is one file
	data           dataset // what source holds
	cold           bool    // each byte has to be read: source is not in the page cache, and its blocks are not shared
	store          *store  // of the S3 end, if there is one
	scratch        string  // for what a tool keeps beside its target
}

func (j job) toStore() bool { return strings.HasPrefix(j.target, "s3://") }

// tool is a program and how it is told to do a job.
type tool struct {
	name    string
	program string   // looked up in PATH
	version []string // arguments that print it
	command func(program string, j job) command
}

// tools are datamove, its peers, and the load generators that say what a storage can do; each called as its manual
// recommends for speed on one machine, the peers with metadata kept.
var tools = []tool{
	{Ours, Ours, []string{"version"}, datamove},
	{"cp", "cp", []string{"--version"}, cp},
	{"cp --reflink", "cp", []string{"--version"}, reflink},
	{"rsync", "rsync", []string{"--version"}, rsync},
	{"rsync -aHAX", "rsync", []string{"--version"}, rsyncAll},
	{"fpsync", "fpsync", nil, fpsync},
	{"dcp", "dcp", nil, dcp},
	{"rclone", "rclone", []string{"version"}, rclone},
	{"s5cmd", "s5cmd", []string{"version"}, s5cmd},
	{"juicefs", "juicefs", []string{"--version"}, juicefs},
	{"find", "find", []string{"--version"}, find},
	{"elbencho", "elbencho", []string{"--version"}, elbencho},
	{"fio", "fio", []string{"--version"}, fio},
	{"ior", "ior", nil, ior},
	{"dd", "dd", []string{"--version"}, dd},
	{"warp", "warp", []string{"--version"}, warp},
	{OurLoad, OurLoad, []string{"version"}, ourLoad},
}

// Peers are the names of what can be asked for beside datamove.
func Peers() (names []string) {
	for _, t := range tools {
		if !isOurs(t.name) && t.name == t.program {
			names = append(names, t.name)
		}
	}
	return names
}

// find returns the path of a tool's program: datamove as given, or beside this one; our load generator beside it.
func (t tool) find(datamovePath string) (string, error) {
	switch {
	case !isOurs(t.name):
		return exec.LookPath(t.program)
	case datamovePath != "" && t.name == Ours:
		return exec.LookPath(datamovePath)
	case datamovePath != "":
		return exec.LookPath(filepath.Join(filepath.Dir(datamovePath), t.program))
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
	if v := moduleVersion(path); v != "" && !isOurs(t.name) {
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
			return strings.TrimPrefix(strings.TrimPrefix(word, t.program+"-"), "v") // fio-3.33
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

// shown is a call of a program as the report shows it: without what is only true of this run, or of this machine.
func (c command) shown(program string, j job) string {
	pairs := []string{j.source, "SRC", j.target, "DST", j.scratch, "TMP", program, filepath.Base(program)}
	if j.store != nil {
		pairs = append(pairs, j.store.endpoint, "URL", j.store.host(), "HOST",
			strings.TrimPrefix(j.source, "s3://"), "SRC", strings.TrimPrefix(j.target, "s3://"), "DST")
	}
	names := strings.NewReplacer(pairs...)
	words := []string{filepath.Base(c.args[0])}
	for _, a := range c.args[1:] {
		words = append(words, names.Replace(a))
	}
	return strings.Join(words, " ")
}

func toolNamed(name string) (tool, error) {
	for _, t := range tools {
		if t.name == name {
			return t, nil
		}
	}
	return tool{}, fmt.Errorf("%q is no tool that can be compared", name)
}
