package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A system call on a mount that hangs may be one that not even SIGKILL ends: a FUSE
// process that has taken a question and does not answer it (a ceph-fuse without its
// servers), a daemon of a vendor. A process with such a call does not end, and a shell waits
// for all of it. So what asks file systems is done apart, by a second process that tells the
// first how it ended; when it can not go, it is left behind.

// secondKey is in the environment of the second process: the descriptor of a pipe for its
// exit code, one byte.
const secondKey = "DATAMOVE_APART"

// partTime is how long the second process has to go when it was told to.
const partTime = time.Second

// ErrNoSecondProcess says that there can be no second process: it is done in this one.
var ErrNoSecondProcess = errors.New("there is no second process")

// SecondProcess has a second process do this command. The error is ErrNoSecondProcess where this one is to do it.
func (a *App) SecondProcess(ctx context.Context) error {
	if a.second == nil {
		return ErrNoSecondProcess
	}
	return a.second(ctx)
}

// HasSecondProcess reports whether this process may begin a second one.
func (a *App) HasSecondProcess() bool { return a.second != nil }

// runSecond does this command by a second process, with the same arguments and descriptors.
func runSecond(ctx context.Context) error {
	said, end, err := os.Pipe()
	if err != nil {
		return ErrNoSecondProcess
	}
	defer said.Close()
	second := exec.Command("/proc/self/exe")
	second.Args = os.Args
	second.Env = append(os.Environ(), secondKey+"=3") // the first of ExtraFiles
	second.Stdin, second.Stdout, second.Stderr = os.Stdin, os.Stdout, os.Stderr
	second.ExtraFiles = []*os.File{end}
	err = second.Start()
	_ = end.Close() // it is the other's
	if err != nil {
		return ErrNoSecondProcess // without /proc, or out of processes
	}
	over := make(chan error, 1)
	go func() {
		code := make([]byte, 1)
		if n, _ := said.Read(code); n == 0 {
			over <- killed(second.Wait())
			return
		}
		over <- ExitOf(int(code[0]))
	}()
	select {
	case err := <-over:
		return err
	case <-ctx.Done():
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) { // the other has had its time, and must not go on when what it hangs in comes back
		_ = second.Process.Kill() // it may be gone
		return ctx.Err()
	}
	// ^C has reached both, and the other says how it ended. A signal for us alone has not.
	for _, next := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		select {
		case err := <-over:
			if end := (*EndedError)(nil); err == nil || errors.As(err, &end) {
				return err
			}
			return ErrInterrupted // it was killed
		case <-time.After(partTime):
			_ = second.Process.Signal(next) // it may be gone
		}
	}
	return ErrInterrupted
}

// killed is the error of a process that has not said how it ended.
func killed(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() && status.Signal() == unix.SIGPIPE {
			return ExitOf(128 + int(unix.SIGPIPE)) // as in a shell: there is no reader of the output
		}
	}
	return fmt.Errorf("its process ended: %w", err)
}

// ExitOf is the error of a process that ended so, and has told what is wrong.
func ExitOf(code int) error {
	if code == 0 {
		return nil
	}
	return &EndedError{Code: code}
}

// toFirst returns the pipe to the first process, in the second one; nil in others.
func toFirst() *os.File {
	fd, err := strconv.Atoi(os.Getenv(secondKey))
	if err != nil || fd < 3 {
		return nil
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFIFO {
		return nil
	}
	unix.CloseOnExec(fd)
	return os.NewFile(uintptr(fd), "the first process")
}

// part ends the second process. The reader of its output sees the end, also when it
// stays.
func part(first *os.File, code int) {
	if null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
		for fd := range 3 {
			_ = unix.Dup3(null, fd, 0) // one of them may be closed
		}
	}
	_, _ = first.Write([]byte{byte(code)}) // a killed process does not read it
	os.Exit(code)
}
