package fsworker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// child is one hand, as its Pool sees it.
type child struct {
	cmd  *exec.Cmd // nil is this process
	conn net.Conn
	gone chan struct{} // closed when the process is

	writing sync.Mutex // one call is written after the other

	mu      sync.Mutex
	next    uint64                   // guarded by mu
	waiting map[uint64]chan answered // guarded by mu; nil when no answer comes any more
}

// start makes a hand.
func (c *Pool) start() (*child, error) {
	if c.Here != nil {
		return here(c.Here), nil
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	h := &child{conn: ours, gone: make(chan struct{}), waiting: map[uint64]chan answered{}}
	program, args := c.Program, c.Args
	if program == "" {
		program = "/proc/self/exe"
	}
	if args == nil {
		args = []string{"hand"}
	}
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = []*os.File{theirs}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}
	h.cmd = cmd
	if err := h.live(); err != nil {
		ours.Close()
		return nil, err
	}
	go h.read()
	return h, nil
}

// here answers in this process. It is gone when the last call has ended.
func here(methods map[string]Method) *child {
	ours, theirs := net.Pipe()
	h := &child{conn: ours, gone: make(chan struct{}), waiting: map[uint64]chan answered{}}
	go func() {
		defer close(h.gone)
		var calls sync.WaitGroup
		_ = serve(context.Background(), theirs, methods, &calls) // the caller sees its connection end
		calls.Wait()
	}()
	go h.read()
	return h
}

// live starts the process from a thread that stays until it is gone: its death signal is for the end of
// that thread, and not of the program.
func (h *child) live() error {
	begun := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := h.cmd.Start()
		begun <- err
		if err == nil {
			_ = h.cmd.Wait() // how it ended is of no use: waiting callers hear that it did
			close(h.gone)
		}
	}()
	return <-begun
}

// pair makes a socket with two ends.
func pair() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket"), os.NewFile(uintptr(fds[1]), "socket")
	conn, err := net.FileConn(ours)
	if err := errors.Join(err, ours.Close()); err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// ask sends a call and waits for its answer.
func (h *child) ask(ctx context.Context, method string, args any) (answered, error) {
	b, err := json.Marshal(args)
	if err != nil {
		return answered{}, err
	}
	n, reply, err := h.enlist()
	if err != nil {
		return answered{}, err
	}
	defer h.leave(n)
	if err := h.send(ctx, asked{n, method, b}); err != nil {
		return answered{}, err
	}
	select {
	case a, ok := <-reply:
		if !ok {
			return answered{}, h.died()
		}
		return a, nil
	case <-ctx.Done():
		return answered{}, ctx.Err()
	}
}

// send writes a call; a hand that takes none any more does not keep anybody longer than ctx.
func (h *child) send(ctx context.Context, q asked) error {
	h.writing.Lock()
	defer h.writing.Unlock()
	deadline, _ := ctx.Deadline()
	if err := h.conn.SetWriteDeadline(deadline); err != nil {
		return h.died()
	}
	switch err := json.NewEncoder(h.conn).Encode(q); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return context.DeadlineExceeded
	case err != nil:
		return h.died()
	}
	return nil
}

// died is what happened to the calls of a hand that is gone.
func (h *child) died() error {
	return fmt.Errorf("%w: the process that did it has ended; it can be asked again", mover.ErrTransient)
}

// enlist gives a call its number, and where its answer comes.
func (h *child) enlist() (uint64, chan answered, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.waiting == nil {
		return 0, nil, h.died()
	}
	h.next++
	reply := make(chan answered, 1)
	h.waiting[h.next] = reply
	return h.next, reply, nil
}

func (h *child) leave(n uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.waiting, n)
}

// read hands answers to waiting callers, until none come any more.
func (h *child) read() {
	in := json.NewDecoder(h.conn)
	for {
		var a answered
		if in.Decode(&a) != nil {
			break
		}
		h.mu.Lock()
		reply := h.waiting[a.Number]
		delete(h.waiting, a.Number)
		h.mu.Unlock()
		if reply != nil {
			reply <- a
		}
	}
	h.kill() // an answer that can not be read is a hand that can not be used
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, reply := range h.waiting {
		close(reply)
	}
	h.waiting = nil
}

// over reports whether no answer comes any more.
func (h *child) over() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.waiting == nil
}

func (h *child) pid() int {
	if h.cmd == nil {
		return os.Getpid()
	}
	return h.cmd.Process.Pid
}

// kill ends the process, and the calls that wait for it.
func (h *child) kill() {
	if h.cmd != nil {
		_ = h.cmd.Process.Kill() // it may be gone already
	}
	_ = h.conn.Close()
}
