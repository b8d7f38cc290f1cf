package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// command is one call of a tool.
type command struct {
	args   []string
	env    []string // beside what every tool gets
	folder bool     // the target has to be a folder that is there
	said   string   // the file that gets what it prints; "" is nowhere
	// took is how long the work was by what the tool says of it, where its start is not what is asked for; nil is the clock.
	took func() (time.Duration, error)
	// timed works for a time and not for bytes, and removes what it has written: its CPU is that of other work, and its
	// target is not counted.
	timed bool
}

func call(args ...string) command { return command{args: args} }

// sampleEvery is how often memory is looked at. A peak that is shorter is missed.
const sampleEvery = 10 * time.Millisecond

// measure runs c, then "sync -f" on syncDir if it is not empty, and returns what both cost.
func measure(ctx context.Context, c command, syncDir string, group cgroup) (Sample, error) {
	start := time.Now()
	s, err := spend(ctx, c, group)
	s.Wall = time.Since(start)
	if err == nil && c.took != nil {
		s.Wall, err = c.took()
	}
	if c.timed {
		s.CPU = 0
	}
	if err != nil || syncDir == "" {
		return s, err
	}
	start = time.Now()
	flush, err := spend(ctx, call("sync", "-f", syncDir), "")
	s.Wall += time.Since(start)
	s.CPU += flush.CPU
	return s, err
}

// spend runs one command to its end.
func spend(ctx context.Context, c command, group cgroup) (Sample, error) {
	args := group.wrap(c.args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(cleanEnv(), c.env...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	if c.said != "" {
		said, err := os.Create(c.said)
		if err != nil {
			return Sample{}, err
		}
		defer said.Close()
		cmd.Stdout = said
	}
	// A tool of several processes is stopped as a whole.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Start(); err != nil {
		return Sample{}, err
	}
	done, peak := make(chan struct{}), make(chan int64)
	go func() { peak <- group.watch(cmd.Process.Pid, done) }()
	err := cmd.Wait()
	close(done)
	s := Sample{Anon: <-peak}
	if p := cmd.ProcessState; p != nil {
		s.CPU, s.MaxRSS = p.UserTime()+p.SystemTime(), maxRSS(p)
	}
	if ctx.Err() != nil {
		return s, context.Cause(ctx)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w: %s", filepath.Base(c.args[0]), err, lastLine(complaint.String()))
	}
	return s, nil
}

// maxRSS is the largest process of those that p was and has waited for. A new process starts with the maximum of its parent. So
// what is not above our own is not known, and 0. The kernel counts both a little inexactly.
func maxRSS(p *os.ProcessState) int64 {
	usage, ok := p.SysUsage().(*syscall.Rusage)
	status, err := os.ReadFile("/proc/self/status")
	if !ok || err != nil {
		return 0
	}
	ours, err := field(string(status), "VmHWM:")
	if err != nil || usage.Maxrss <= ours+1024 {
		return 0
	}
	return usage.Maxrss << 10
}

// pointers begin the names of variables that would point a tool at another store, or have it work in another way.
var pointers = []string{"AWS_", "RCLONE_", "DATAMOVE_", "MINIO_", "WARP_"}

// cleanEnv is our environment without pointers.
func cleanEnv() []string {
	var env []string
	for _, e := range os.Environ() {
		if !slices.ContainsFunc(pointers, func(p string) bool { return strings.HasPrefix(e, p) }) {
			env = append(env, e)
		}
	}
	return env
}

func lastLine(s string) string {
	s = strings.TrimSpace(s)
	if i := strings.LastIndexByte(s, '\n'); i >= 0 {
		s = s[i+1:]
	}
	return s[:min(len(s), 300)]
}

// cgroup is the directory of a control group that counts memory; "" is none.
type cgroup string

// newCgroup makes a group for what is measured, in the memory hierarchy of version
// 1 or in version 2; none when we may not.
func newCgroup() cgroup {
	for _, root := range []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, "datamove-bench-"+strconv.Itoa(os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		if _, err := cgroup(dir).anon(); err == nil {
			return cgroup(dir)
		}
		_ = os.Remove(dir)
	}
	return ""
}

func (g cgroup) remove() {
	if g != "" {
		_ = os.Remove(string(g))
	}
}

// wrap starts args inside the group, through a shell that enters it first.
func (g cgroup) wrap(args []string) []string {
	if g == "" {
		return args
	}
	return append([]string{"/bin/sh", "-c", `echo $$ >"$0" && exec "$@"`, filepath.Join(string(g), "cgroup.procs")}, args...)
}

// anon reads the group's anonymous memory: "rss" in version 1, "anon" in version
// 2 of memory.stat (Documentation/admin-guide/cgroup-v1/memory.rst, cgroup-v2.rst).
func (g cgroup) anon() (int64, error) {
	b, err := os.ReadFile(filepath.Join(string(g), "memory.stat"))
	if err != nil {
		return 0, err
	}
	return field(string(b), "rss ", "anon ")
}

// field returns the number after the first of prefixes that begins a line of s.
func field(s string, prefixes ...string) (int64, error) {
	for line := range strings.Lines(s) {
		for _, p := range prefixes {
			if rest, ok := strings.CutPrefix(line, p); ok {
				number, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
				return strconv.ParseInt(number, 10, 64)
			}
		}
	}
	return 0, errors.New("no such field")
}

// watch returns the highest anonymous memory seen until done: of the group, or of
// the process alone where there is none.
func (g cgroup) watch(pid int, done <-chan struct{}) (peak int64) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		var now int64
		var err error
		if g != "" {
			now, err = g.anon()
		} else {
			now, err = anonOf(pid)
		}
		if err == nil {
			peak = max(peak, now)
		}
		select {
		case <-done:
			return peak
		case <-tick.C:
		}
	}
}

// anonOf reads RssAnon of a process; see proc(5).
func anonOf(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	kib, err := field(string(b), "RssAnon:")
	return kib << 10, err
}
