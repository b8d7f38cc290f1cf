// Package rig is what the tests of whole commands stand on: the real binaries as
// children that can be killed, trees to copy and to compare, file systems that are
// mounted for one test, and a proxy that makes an S3 server misbehave.
//
// A Program is the binary with a state directory of its own, a Run one process
// of it. A Tree is what lies below a directory, looked at without any code of
// ours. Whatever a function here starts or mounts ends with the test that asked for
// it. What the machine can not do (no root, no loop device) skips the test with
// the reason.
package rig

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Program is datamove, or another command of ours, with a state directory of its own.
type Program struct {
	Command string   // the folder below cmd; "" is datamove
	State   string   // XDG_STATE_HOME
	Env     []string // added to the environment
	Wrapper []string // runs the program: its path and arguments are appended; nil runs it directly
	Cred    *syscall.Credential
}

// New returns the program, built from the sources as they are now.
func New(t testing.TB) *Program { return NewCommand(t, "datamove") }

// NewCommand returns another command, as New does.
func NewCommand(t testing.TB, name string) *Program {
	t.Helper()
	if _, err := executable(name); err != nil {
		t.Fatal(err)
	}
	return &Program{Command: name, State: t.TempDir()}
}

var built struct {
	sync.Mutex
	dir  string            // guarded by Mutex, as all below; "" is none yet
	bins map[string]string // by command
}

// Binaries names a folder where the commands are, for a machine that can not build them.
const Binaries = "DATAMOVE_BIN"

// executable builds a command once.
func executable(name string) (bin string, err error) {
	if dir := os.Getenv(Binaries); dir != "" {
		return filepath.Join(dir, name), nil
	}
	built.Lock()
	defer built.Unlock()
	if bin, done := built.bins[name]; done {
		return bin, nil
	}
	if built.dir == "" {
		if built.dir, err = os.MkdirTemp("", "datamove-rig-"); err != nil {
			return "", err
		}
		if err := os.Chmod(built.dir, 0o755); err != nil { // other users run it, too
			return "", err
		}
		built.bins = map[string]string{}
	}
	bin = filepath.Join(built.dir, name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "datamove.dev/cmd/"+name) // as make build does, which fills the cache
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", name, err, out)
	}
	built.bins[name] = bin
	return bin, nil
}

// Main runs the tests of a package and removes the binaries.
func Main(m *testing.M) { End(m.Run()) }

// End removes the binaries and ends the process.
func End(code int) {
	built.Lock()
	if built.dir != "" {
		_ = os.RemoveAll(built.dir)
	}
	os.Exit(code)
}

// text collects what a process says while others read it.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer // guarded by mu
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) String() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.String()
}

// Run is one process.
type Run struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdout text
	stderr text
	ended  chan struct{} // closed when the process is reaped

	Read int64 // bytes that the process read by system calls; known when it ended
	Exit int   // its exit code, -1 when it was killed; known when it ended
}

// Start starts the program. The end of the test kills what still runs.
func (p *Program) Start(t testing.TB, args ...string) *Run {
	t.Helper()
	r := p.command(t, args)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // most have ended
		r.Wait()
	})
	return r
}

// command is a run that has not begun.
func (p *Program) command(t testing.TB, args []string) *Run {
	t.Helper()
	bin, err := executable(cmp.Or(p.Command, "datamove"))
	if err != nil {
		t.Fatal(err)
	}
	line := append(append(append([]string(nil), p.Wrapper...), bin), args...)
	r := &Run{t: t, cmd: exec.Command(line[0], line[1:]...), ended: make(chan struct{})}
	r.cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+p.State, "XDG_CONFIG_HOME="+p.State, "NO_COLOR=1", "DATAMOVE_CONFIG=", "AWS_EC2_METADATA_DISABLED=true"), p.Env...)
	r.cmd.Stdout, r.cmd.Stderr = &r.stdout, &r.stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Credential: p.Cred}
	return r
}

// start starts the process from a thread that stays, because its death would be
// the signal for the child to die.
func (r *Run) start() error {
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := r.cmd.Start()
		begun <- err
		if err == nil {
			r.watch()
		}
	}()
	return <-begun
}

// watch waits for the end of the process, and looks at it before it is reaped.
func (r *Run) watch() {
	defer close(r.ended)
	for {
		err := unix.Waitid(unix.P_PID, r.cmd.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			break
		}
	}
	r.Read = readChars(r.cmd.Process.Pid)
	_ = r.cmd.Wait() // the state tells how it ended
	r.Exit = r.cmd.ProcessState.ExitCode()
}

// readChars returns how many bytes a process read; see proc_pid_io(5).
func readChars(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0
	}
	rest, ok := strings.CutPrefix(string(text), "rchar: ")
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// PID is the number of the process.
func (r *Run) PID() int { return r.cmd.Process.Pid }

// Ended is closed when the process has ended.
func (r *Run) Ended() <-chan struct{} { return r.ended }

// Wait returns when the process has ended.
func (r *Run) Wait() *Run {
	<-r.ended
	return r
}

// KillAfter kills the process with SIGKILL after d, and reports whether it was
// still running then.
func (r *Run) KillAfter(d time.Duration) bool {
	timer := time.NewTimer(d) // a random instant is what these tests are about
	defer timer.Stop()
	select {
	case <-r.ended:
		return false
	case <-timer.C:
	}
	_ = r.cmd.Process.Kill()
	<-r.ended
	return r.Exit == -1
}

// Signal sends a signal.
func (r *Run) Signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		r.t.Fatal(err)
	}
}

// Said is what the process has printed so far.
func (r *Run) Said() string { return r.stdout.String() }

// Complained is what it has written to standard error so far.
func (r *Run) Complained() string { return r.stderr.String() }

// Stdout is what the ended process printed.
func (r *Run) Stdout() string { return r.Wait().stdout.String() }

// Stderr is what the ended process said.
func (r *Run) Stderr() string { return r.Wait().stderr.String() }

// Want waits and fails the test when the exit code is another one.
func (r *Run) Want(exit int) *Run {
	r.t.Helper()
	r.Wait()
	if r.Exit != exit {
		r.t.Fatalf("%s: exit code %d, want %d\nstdout: %s\nstderr: %s",
			strings.Join(r.cmd.Args[1:], " "), r.Exit, exit, tail(r.stdout.String()), tail(r.stderr.String()))
	}
	return r
}

func tail(s string) string {
	const most = 4000
	if len(s) > most {
		return "..." + s[len(s)-most:]
	}
	return s
}

// Do runs the program to its end, which must have the given exit code.
func (p *Program) Do(t testing.TB, exit int, args ...string) *Run {
	t.Helper()
	return p.Start(t, args...).Want(exit)
}

// Patience is how long a test waits for what has to happen, on a machine that is
// busy with other things.
const Patience = 2 * time.Minute

// Until waits until something that another process does has happened. It ends the
// test when r ends before, or when it takes too long.
func (r *Run) Until(what string, happened func() bool) {
	r.t.Helper()
	if !await(r.t, what, r.ended, happened) {
		r.t.Fatalf("the run ended before %s; stderr: %s", what, tail(r.stderr.String()))
	}
}

// await waits until something has happened, and reports whether it has when it is over
// before; nil is never over. It ends the test when it takes too long.
func await(t testing.TB, what string, over <-chan struct{}, happened func() bool) bool {
	t.Helper()
	late := time.NewTimer(Patience)
	defer late.Stop()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for !happened() {
		select {
		case <-tick.C:
		case <-over:
			return happened()
		case <-late.C:
			t.Fatalf("waited in vain until %s", what)
		}
	}
	return true
}
