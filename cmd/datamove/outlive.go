package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// Slurm kills a phase when its job is cancelled, and with it, for a job whose nodes are just made ready, the teardown that it starts
// (test/slurm TestCancelled). What was asked for would be held then, and go on. So such a phase is done by a second process, in a session that
// Slurm does not know, which hears of the end of the first one.

// outlivesKey is in the environment of the second process: its descriptor 3 is a pipe that ends with the first one.
const outlivesKey = "DATAMOVE_OUTLIVES"

// outlived has a second process do this command, with the same arguments and descriptors, and returns how that ended.
func outlived(ctx context.Context) error {
	ends, end, err := os.Pipe()
	if err != nil {
		return errNotApart
	}
	defer end.Close() // as late as this process ends
	second := exec.Command("/proc/self/exe")
	second.Args = os.Args
	second.Env = append(os.Environ(), outlivesKey+"=3") // the first of ExtraFiles
	second.Stdout, second.Stderr = os.Stdout, os.Stderr
	second.ExtraFiles = []*os.File{ends}
	second.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = second.Start()
	_ = ends.Close() // it is the other's
	if err != nil {
		return errNotApart // without /proc, or out of processes
	}
	over := make(chan error, 1)
	go func() { over <- second.Wait() }()
	select {
	case err = <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exitOf(exit.ExitCode())
	}
	return err
}

// outlives is a context of the second process that ends with the first one; alone says whether it has.
func outlives(ctx context.Context) (with context.Context, alone func() bool) {
	signal.Ignore(syscall.SIGPIPE) // nobody may read what we say
	with, cancel := context.WithCancel(ctx)
	first := os.NewFile(3, "the first process")
	go func() {
		_, _ = first.Read(make([]byte, 1)) // nobody writes there
		cancel()
	}()
	return with, func() bool { // is asked of the kernel: who has just gone is gone
		end := []unix.PollFd{{Fd: int32(first.Fd())}}
		n, err := unix.Poll(end, 0)
		return n > 0 && err == nil && end[0].Revents&unix.POLLHUP != 0
	}
}
