package gpfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Commands runs the mm commands of Storage Scale, most of which need root.
type Commands struct {
	dir     string
	timeout time.Duration
	dying   time.Duration // how long a killed command is waited for
	start   func(ctx context.Context, path string, arguments []string) ended
}

// NewCommands returns the commands of o.CommandsDir; fs.ErrNotExist when they are not
// installed. As they run with our rights, only root and our own user may be able to replace them.
func NewCommands(o Options) (*Commands, error) {
	dir := o.CommandsDir
	if dir == "" {
		dir = defaultCommandsDir
	}
	if err := checkPath("the directory of the mm commands", dir); err != nil {
		return nil, err
	}
	for _, path := range []string{dir, filepath.Join(dir, "mmlsfs")} {
		var st unix.Stat_t
		if err := unix.Stat(path, &st); err != nil {
			return nil, &fs.PathError{Op: "mm commands", Path: path, Err: err}
		}
		if st.Mode&0o022 != 0 || st.Uid != 0 && int(st.Uid) != os.Geteuid() {
			return nil, fmt.Errorf("mm commands: %q can be changed by others than root and the caller: %w", path, fs.ErrPermission)
		}
	}
	return &Commands{dir: dir, timeout: callTimeout, dying: dyingDelay, start: start}, nil
}

const (
	// pipesDelay is how long the output of a killed command is waited for: another process
	// may still hold its pipes.
	pipesDelay = 5 * time.Second
	// dyingDelay is how long a killed command is waited for.
	dyingDelay = 2 * pipesDelay
)

// Limits of what a command may print, in bytes.
const (
	maxOutput = 64 << 20
	maxSaid   = 16 << 10
)

// run runs a command with arguments, never through a shell, and returns what it printed.
func (c *Commands) run(ctx context.Context, name string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.runLong(ctx, name, arguments...)
}

// runLong is run with no deadline but that of ctx. When that ends, the command and all that
// it has started are killed: the mm commands are scripts. One that hangs in a call of the
// file system, or runs with more rights than we have (a wrapper around sudo), may not die
// by that: it is not waited for.
func (c *Commands) runLong(ctx context.Context, name string, arguments ...string) (string, error) {
	for _, a := range arguments {
		if strings.IndexByte(a, 0) >= 0 {
			return "", fmt.Errorf("%s: %w: an argument with a NUL", name, ErrName)
		}
	}
	path := filepath.Join(c.dir, name)
	end := make(chan ended, 1)
	go func() { end <- c.start(ctx, path, arguments) }()
	e, alive := awaitEnd(ctx, end, c.dying)
	switch {
	case alive:
		return "", &Error{Op: name, Where: path, Err: fmt.Errorf("%w; it was killed and does not end: is the file system hanging?", context.Cause(ctx))}
	case ctx.Err() != nil:
		return "", &Error{Op: name, Where: path, Err: context.Cause(ctx)}
	case e.output.isFull():
		return "", &Error{Op: name, Where: path, Err: fmt.Errorf("%w: it printed more than %d bytes", ErrReply, maxOutput)}
	case e.err != nil: // it could not be started, or was killed
		return "", &Error{Op: name, Where: path, Text: e.said.text(), Err: e.err}
	case e.exit != 0:
		return "", commandError(name, path, e.said.text(), e.exit)
	}
	return e.output.text(), nil
}

// awaitEnd returns how a command ended, or that it lives on when ctx is over, and the time
// after it in which killed processes end.
func awaitEnd(ctx context.Context, end <-chan ended, dying time.Duration) (e ended, alive bool) {
	select {
	case e = <-end:
		return e, false
	case <-ctx.Done():
	}
	timer := time.NewTimer(dying)
	defer timer.Stop()
	select {
	case e = <-end:
		return e, false
	case <-timer.C:
		return e, true
	}
}

// ended is a command that is over.
type ended struct {
	output, said *limited
	exit         int   // its status
	err          error // why there is none
}

func start(ctx context.Context, path string, arguments []string) ended {
	e := ended{output: &limited{most: maxOutput}, said: &limited{most: maxSaid, forget: true}}
	command := exec.CommandContext(ctx, path, arguments...)
	command.Env = []string{"LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin:" + defaultCommandsDir}
	command.Dir = "/"
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return unix.Kill(-command.Process.Pid, unix.SIGKILL) }
	command.WaitDelay = pipesDelay
	command.Stdout, command.Stderr = e.output, e.said
	e.err = command.Run()
	var exit *exec.ExitError
	if errors.As(e.err, &exit) && exit.Exited() {
		e.exit, e.err = exit.ExitCode(), nil
	}
	return e
}

// commandError says why a command failed, as far as its words tell.
func commandError(name, path, said string, exit int) error {
	failed := &Error{Op: name, Where: path, Status: exit, Text: said}
	failed.Code, failed.Err = meaning(said, ErrRefused)
	if failed.Err != ErrRefused {
		return failed
	}
	lower := strings.ToLower(said)
	switch {
	case strings.Contains(lower, "permission denied"), strings.Contains(lower, "not permitted"), strings.Contains(lower, "root authority"):
		failed.Err = fs.ErrPermission
	case strings.Contains(lower, "already exists"):
		failed.Err = fs.ErrExist
	case strings.Contains(lower, "no such"), strings.Contains(lower, "not found"), strings.Contains(lower, "does not exist"), strings.Contains(lower, "is not known to the gpfs cluster"):
		failed.Err = fs.ErrNotExist
	}
	return failed
}

// limited keeps what is written to it, up to a limit. What is beyond is an error for the
// writer, or is taken and forgotten.
type limited struct {
	most   int
	forget bool

	mu   sync.Mutex // guards all below: after WaitDelay another process may still write
	kept bytes.Buffer
	full bool
}

func (l *limited) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.most - l.kept.Len()
	if len(b) <= room {
		return l.kept.Write(b)
	}
	l.full = true
	l.kept.Write(b[:room])
	if l.forget {
		return len(b), nil
	}
	return room, errors.New("too much output")
}

func (l *limited) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept.String()
}

func (l *limited) isFull() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.full
}
