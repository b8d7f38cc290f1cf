package sandbox

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

const (
	socketFD = 3
	umask    = 0o022
	oomScore = 500 // of 1000: it goes before the service
	orphaned = 130 // exit code of a process after its service has ended
)

// Child is the first thing that the main of a program does which is started with
// Start. When it returns, the process is confined, and the connection is the one that
// Start returned. From then on the process ends as soon as the service ends or
// closes its side, in the middle of whatever it does. An error was told to the service,
// too; there is nothing to do then but to end.
func Child() (net.Conn, error) {
	conn, err := enter()
	if err != nil {
		return nil, &mover.Error{Op: "enter", Location: "process " + strconv.Itoa(os.Getpid()), Err: err}
	}
	return conn, nil
}

func enter() (net.Conn, error) {
	conn, err := inherited()
	if err != nil {
		return nil, err
	}
	var who Account
	if err := receive(conn, &who, maxTerms); err != nil {
		return nil, fmt.Errorf("the service is gone: %w", err)
	}
	if err := who.become(); err != nil {
		return nil, err
	}
	if err := seclude(); err != nil { // it may wait long for its terms
		return nil, err
	}
	var t terms
	if err := receive(conn, &t, maxTerms); err != nil {
		return nil, fmt.Errorf("the service is gone: %w", err)
	}
	var r reply
	var at step
	quiet := at.tell(conn)
	r.Enforced, err = submit(t, &at)
	quiet()
	if err != nil {
		r.set(err)
	}
	if e := send(conn, r, maxReply); err == nil {
		err = e
	}
	if err != nil {
		return nil, err
	}
	go watch(socketFD)
	return conn, nil
}

// inherited returns the connection to the service, after everything else that came
// with it was closed.
func inherited() (net.Conn, error) {
	if kind, err := unix.GetsockoptInt(socketFD, unix.SOL_SOCKET, unix.SO_DOMAIN); err != nil || kind != unix.AF_UNIX {
		return nil, fmt.Errorf("%w: this program is started by the service, not by hand", mover.ErrUsage)
	}
	unix.CloseOnExec(socketFD)
	tellCrash()
	if err := closeForeign(); err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(dup(socketFD)), "socket of the service")
	defer f.Close() // FileConn has its own
	return net.FileConn(f)
}

// dup keeps socketFD itself for watch; -1 makes FileConn fail.
func dup(fd int) int {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, socketFD+1)
	if err != nil {
		return -1
	}
	return fd
}

// closeForeign closes every file that came through exec, but for the first four.
// What this program itself has open by now closes on exec, and so did not.
func closeForeign() error {
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name.Name())
		if err != nil || fd <= socketFD {
			continue
		}
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			_ = unix.Close(fd)
		}
	}
	return nil
}

// submit makes this process what the terms say, and nothing more.
func submit(t terms, at *step) (Enforced, error) {
	if err := t.Account.verify(); err != nil {
		return Enforced{}, err
	}
	return confine(t.Roots, at)
}

// step is the path that a process asks a file system for.
type step struct{ path atomic.Pointer[string] }

// goes notes the next one; "" is several, or none.
func (s *step) goes(path string) { s.path.Store(&path) }

// unansweredAfter is how long a file system has for an answer before that is told.
const unansweredAfter = 2 * time.Second

// tell tells the service of a path on a file system that does not answer, until quiet is called.
func (s *step) tell(conn net.Conn) (quiet func()) {
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticks := time.NewTicker(unansweredAfter)
		defer ticks.Stop()
		var before *string
		for {
			select {
			case <-stop:
				return
			case <-ticks.C:
			}
			now := s.path.Load()
			if now != nil && now == before && *now != "" {
				if send(conn, reply{Waits: *now}, maxReply) != nil {
					return // the service is gone
				}
			}
			before = now
		}
	}()
	return func() {
		close(stop)
		<-ended
	}
}

// become makes a process that root started that of an account, in all its threads. Only root can read its memory, before and after.
// For that PR_SET_DUMPABLE is set on both sides: the kernel resets it at a change of uid (fs.suid_dumpable).
func (a Account) become() error {
	if os.Geteuid() != 0 {
		return nil // it was started with these ids
	}
	groups, uids := make([]int, len(a.Groups)), a.uids()
	for i, g := range a.Groups {
		groups[i] = int(g)
	}
	for _, step := range []struct {
		call string
		do   func() error
	}{
		{"prctl(PR_SET_DUMPABLE)", undumpable},
		{"setgroups", func() error { return syscall.Setgroups(groups) }},
		{"setresgid", func() error { return syscall.Setresgid(int(a.GID), int(a.GID), int(a.GID)) }},
		{"setresuid", func() error { return syscall.Setresuid(uids[0], uids[1], uids[2]) }},
		{"prctl(PR_SET_DUMPABLE)", undumpable},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.call, err)
		}
	}
	return nil
}

// undumpable lets only root trace this process, read its memory, or take its descriptors.
func undumpable() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }

// seclude gives up what no worker needs, whatever its terms are.
func seclude() error {
	unix.Umask(umask)
	yieldMemory()
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("setrlimit: %w", err)
	}
	if err := undumpable(); err != nil {
		return fmt.Errorf("prctl(PR_SET_DUMPABLE): %w", err)
	}
	if err := ll.AllThreadsPrctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("prctl(PR_SET_NO_NEW_PRIVS): %w", err)
	}
	return nil
}

// yieldMemory makes this process one to kill before others when memory ends. It is
// no more than a wish.
func yieldMemory() {
	const file = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(file)
	if now, e := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && e == nil && now < oomScore {
		_ = os.WriteFile(file, []byte(strconv.Itoa(oomScore)), 0)
	}
}

// watch ends the process when the other side of the socket is closed or shut down:
// by the service, or by the kernel when the service was killed.
func watch(fd int32) {
	for {
		fds := []unix.PollFd{{Fd: fd, Events: unix.POLLRDHUP}}
		if _, err := unix.Poll(fds, -1); err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		os.Exit(orphaned)
	}
}
