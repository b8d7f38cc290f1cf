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
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
	"datamove.dev/test/patience"
)

// Program is datamove, or another command of ours, with a state directory of its own.
type Program struct {
	Command string   // the folder below cmd; "" is datamove
	State   string   // XDG_STATE_HOME
	Env     []string // added to the environment
	Wrapper []string // runs the program: its path and arguments are appended; nil runs it directly
	Cred    *syscall.Credential
}

// New returns datamove.
func New(t testing.TB) *Program { return NewCommand(t, "datamove") }

// NewCommand returns another command, as New does.
func NewCommand(t testing.TB, name string) *Program {
	t.Helper()
	if _, err := Executable(name); err != nil {
		t.Fatal(err)
	}
	return &Program{Command: name, State: t.TempDir()}
}

// Commands are main functions of commands by their names; each takes the version, and returns the exit code.
type Commands map[string]func(release string) int

var handed struct {
	commands Commands // set by Be, before anything runs

	sync.Mutex
	dir string // has a link to the test binary for each command; "" is none yet; guarded by Mutex
}

// Main runs the tests of a package, which may start the commands.
func Main(m *testing.M, commands Commands) {
	Be(commands)
	End(m.Run())
}

// Be lets the test binary be the commands: a process of it that was started under the name of one is that command, and ends here. So what go test builds is
// what is tested, for its cache and for the race detector, too. TestMain calls it before anything else.
func Be(commands Commands) {
	handed.commands = commands
	self, _ := os.Readlink("/proc/self/exe") // for processes that a command starts of itself; without /proc there are none
	for _, path := range []string{os.Args[0], self} {
		if main := commands[filepath.Base(path)]; main != nil {
			os.Exit(main(""))
		}
	}
}

// Binaries names a folder where the commands are, for a machine without the test binary.
const Binaries = "DATAMOVE_BIN"

// Executable is a file that is the command, for every user.
func Executable(name string) (path string, err error) {
	if dir := os.Getenv(Binaries); dir != "" {
		return filepath.Join(dir, name), nil
	}
	if handed.commands[name] == nil {
		return "", fmt.Errorf("TestMain has handed no command %s to rig.Be or rig.Main", name)
	}
	handed.Lock()
	defer handed.Unlock()
	if handed.dir == "" {
		if handed.dir, err = os.MkdirTemp("", "datamove-rig-"); err != nil {
			return "", err
		}
		if err := os.Chmod(handed.dir, 0o755); err != nil {
			return "", err
		}
	}
	path = filepath.Join(handed.dir, name)
	if _, err := os.Lstat(path); err == nil {
		return path, nil
	}
	return path, Install(path)
}

// Install makes a file of the test binary, which is the command that it is named after, for every user: a link where it can be one.
func Install(path string) error {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	if os.Link(self, path) == nil {
		return os.Chmod(path, 0o755)
	}
	in, err := os.Open(self)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close(), os.Chmod(path, 0o755))
}

// End removes the files of the commands and ends the process.
func End(code int) {
	handed.Lock()
	if handed.dir != "" {
		_ = os.RemoveAll(handed.dir)
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
	must.Do(t, r.start())
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill() // most have ended
		r.Wait()
	})
	return r
}

// command is a run that has not begun.
func (p *Program) command(t testing.TB, args []string) *Run {
	t.Helper()
	bin := must.Get(Executable(cmp.Or(p.Command, "datamove")))(t)
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

// Kill kills the process with SIGKILL, and reports whether it was still running.
func (r *Run) Kill() bool {
	_ = r.cmd.Process.Kill() // it may have ended
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

// Until waits until something that another process does has happened. It ends the
// test when r ends before, or when the wait is in vain.
func (r *Run) Until(what string, happened func() bool) {
	r.t.Helper()
	var over bool
	patience.Until(r.t, what, r.Complained, func() bool {
		select {
		case <-r.ended:
			over = !happened()
			return true
		default:
			return happened()
		}
	})
	if over {
		r.t.Fatalf("the run ended before %s; stderr: %s", what, tail(r.stderr.String()))
	}
}
