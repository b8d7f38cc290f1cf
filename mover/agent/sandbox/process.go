package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"datamove.dev/mover"
)

// Process is a running program with the ids of an account. Start makes one; the caller of
// Start stops it. All methods may be called from many goroutines.
type Process struct {
	Conn     net.Conn // to the process. When it is closed or shut down, the process ends
	Enforced Enforced // what confines it

	cmd     *exec.Cmd
	crash   *os.File // nil is none
	done    chan struct{}
	err     error  // how it ended; set before done is closed, as crashed
	crashed string // see Crash
}

// reapTimeout is how long a killed process may take to end.
const reapTimeout = 5 * time.Second

// reap waits for the process, so that it never stays a zombie.
func (p *Process) reap() {
	p.err = p.cmd.Wait()
	p.crashed = readCrash(p.crash)
	close(p.done)
}

// PID returns the process id, which is another's some time after the process ended.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Done is closed when the process has ended and was reaped.
func (p *Process) Done() <-chan struct{} { return p.done }

// Alive reports whether the process has not ended yet.
func (p *Process) Alive() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Wait waits for the end of the process and returns how it ended: nil, or an
// *exec.ExitError.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endedEarly is the error of a process that has ended before it was ready: mover.ErrTransient where it was killed, as by a system that is short of memory.
func (p *Process) endedEarly(err error) error {
	ending := p.ending()
	err = fmt.Errorf("it ended before it was ready: %w", errors.Join(err, ending))
	if exit := (*exec.ExitError)(nil); errors.As(ending, &exit) && exit.Sys().(syscall.WaitStatus).Signaled() {
		err = fmt.Errorf("%w: %w", mover.ErrTransient, err)
	}
	return err
}

// ending is how a process ended that is about to.
func (p *Process) ending() error {
	if p.ended(reapTimeout) {
		return p.err
	}
	return nil
}

// ended waits for the end of the process, for so long.
func (p *Process) ended(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.done:
		return true
	case <-timer.C:
		return !p.Alive()
	}
}

// Stop asks the process to end (SIGTERM), kills it when it has not after grace, and
// closes Conn. It can be called again. It returns nil when the process has ended, however;
// and mover.ErrTimeout when even a kill does not end it within seconds, because it
// waits in the kernel for a file system that does not answer. It is reaped then
// when it ends.
//
// Signals go through a descriptor of the process (see [os.Process]), so they can not
// hit another one that got its id.
func (p *Process) Stop(grace time.Duration) error {
	defer p.Conn.Close()
	if grace > 0 {
		p.signal(syscall.SIGTERM)
	}
	if grace > 0 && p.ended(grace) {
		return nil
	}
	p.signal(syscall.SIGKILL)
	if p.ended(reapTimeout) {
		return nil
	}
	return &mover.Error{Op: "stop", Location: fmt.Sprintf("process %d", p.PID()),
		Err: fmt.Errorf("%w: it was killed %v ago and waits in the kernel: look at /proc/%d/stack", mover.ErrTimeout, reapTimeout, p.PID())}
}

// signal may come too late, which is as good.
func (p *Process) signal(sig os.Signal) { _ = p.cmd.Process.Signal(sig) }
