package burstbuffer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Slurm kills a phase when its job is cancelled, and with it, for a job with nodes that are just made ready, the teardown that it starts
// (test/slurm TestCancelled). What was asked for would be held then, and go on. So such a phase is done by a second process, in a session that
// Slurm does not know, which hears of the end of the first one. The first one ends, too, when slurmctld does: then the job goes on, and the next
// slurmctld begins the phase anew (test/slurm TestRestarts).

// detachedKey is in the environment of the second process: how many processes of slurmctld its descriptors from 4 on are, and the run of the job. 3 is a
// pipe that ends with the first one. It is the first one that knows them: that may be gone, with its parent, and the job may have begun anew, before
// the second one can look.
const detachedKey = "DATAMOVE_OUTLIVES"

// ErrNotDetached says that there is no second process: the phase is to be done in this one.
var ErrNotDetached = errors.New("there is no second process")

// Detach has a second process do this command for a run of a job, with the same arguments and descriptors, and returns how that ended. The first process
// learns the exit code of the second one from an *exec.ExitError.
func Detach(ctx context.Context, run string) error {
	ends, end, err := os.Pipe()
	if err != nil {
		return ErrNotDetached
	}
	defer end.Close() // as late as this process ends
	second := exec.Command("/proc/self/exe")
	second.Args = os.Args
	slurm := controllers(os.Getppid())
	second.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", detachedKey, len(slurm), run))
	second.Stdout, second.Stderr = os.Stdout, os.Stderr
	second.ExtraFiles = append([]*os.File{ends}, slurm...)
	second.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = second.Start()
	for _, f := range second.ExtraFiles {
		_ = f.Close() // it is the other's
	}
	if err != nil {
		return ErrNotDetached // without /proc, or out of processes
	}
	over := make(chan error, 1)
	go func() { over <- second.Wait() }()
	select {
	case err = <-over:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Detached reports whether this process is the second one.
func Detached(env func(string) string) bool { return env(detachedKey) != "" }

// firstProcess is the first process, as the second one sees it. It is a First.
type firstProcess struct {
	pipe  *os.File
	ended chan struct{} // closed when it is gone
	slurm []int         // descriptors of the processes of slurmctld that live on when it is killed alone
	run   string        // of the job; "" is none
}

// FirstOf is what the second process knows of the first one, by what that has put into its environment.
func FirstOf(env func(string) string) First {
	signal.Ignore(syscall.SIGPIPE) // the reader of our output may be gone
	f := &firstProcess{pipe: os.NewFile(3, "the first process"), ended: make(chan struct{})}
	controllers, run, _ := strings.Cut(env(detachedKey), " ")
	f.run = run
	n, _ := strconv.Atoi(controllers)
	for i := range n {
		f.slurm = append(f.slurm, 4+i)
	}
	go func() {
		_, _ = f.pipe.Read(make([]byte, 1)) // nothing is written there: it ends with the other side
		close(f.ended)
	}()
	return f
}

// Run implements First.
func (f *firstProcess) Run() string { return f.run }

// Ended implements First.
func (f *firstProcess) Ended() <-chan struct{} { return f.ended }

// Gone implements First. It asks the kernel, which knows at once.
func (f *firstProcess) Gone() bool {
	end := []unix.PollFd{{Fd: int32(f.pipe.Fd())}}
	n, err := unix.Poll(end, 0)
	return n > 0 && err == nil && end[0].Revents&unix.POLLHUP != 0
}

// leaving is how long slurmctld may take to end when it has killed what it runs.
const leaving = 10 * time.Second

// Deserted implements First.
func (f *firstProcess) Deserted() bool {
	var ends []unix.PollFd
	for _, fd := range f.slurm {
		ends = append(ends, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
	}
	for until := time.Now().Add(leaving); len(ends) > 0; {
		n, err := unix.Poll(ends, max(int(time.Until(until).Milliseconds()), 0))
		if !errors.Is(err, unix.EINTR) {
			return n > 0 && err == nil
		}
	}
	return false
}

// controllers are the processes of slurmctld that one comes from. The nearest one runs its phase, and is killed with it; behind that are those
// that tell it to.
func controllers(pid int) (all []*os.File) {
	for depth := 0; pid > 1 && depth < 64; depth++ {
		name, parent, err := parentOf(pid)
		if err != nil {
			break
		}
		if strings.HasPrefix(name, "slurm") { // slurmctld, slurmscriptd
			if fd, err := unix.PidfdOpen(pid, 0); err == nil { // closed on exec, where it is not given on
				all = append(all, os.NewFile(uintptr(fd), name))
			}
		}
		pid = parent
	}
	if len(all) > 1 {
		_ = all[0].Close()
		all = all[1:]
	}
	return all
}

// parentOf reads the name of a process, and of its parent: see proc_pid_stat(5).
func parentOf(pid int) (name string, parent int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0, err
	}
	_, rest, _ := strings.Cut(string(text), "(")
	at := strings.LastIndex(rest, ")")
	fields := strings.Fields(rest[at+1:])
	if at < 0 || len(fields) < 2 {
		return "", 0, fmt.Errorf("/proc/%d/stat is %q", pid, text)
	}
	parent, err = strconv.Atoi(fields[1])
	return rest[:at], parent, err
}
