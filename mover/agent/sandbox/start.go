package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Options are a program, its account and its confinement.
type Options struct {
	Path    string      // of the program; "" is this very one, even if its file was replaced
	Args    []string    // after its name. Everybody on the node can read them
	Account Account     // of the process
	Root    bool        // the account may be root; without it that is refused
	Roots   Confinement // zero reaches nothing but what every program needs
	Env     []string    // all of its environment, KEY=VALUE; nothing is inherited
	Dir     string      // where it starts; "" is /
	Stderr  io.Writer   // nil is nowhere. The process may write without end
}

// startTimeout is how long a process may take until it is confined. It is that long
// for a node without memory.
const startTimeout = 30 * time.Second

// Start starts a program that calls [Enter], and returns when it is confined. The
// end of ctx ends the starting; to end the process there is Stop, which has to be called.
// Everything that this process has open is set to close on exec.
func Start(ctx context.Context, o Options) (*Process, error) {
	if ctx.Err() != nil {
		return nil, o.failed(context.Cause(ctx))
	}
	w, err := Prestart(o)
	if err != nil {
		return nil, err
	}
	return w.Confine(ctx, o.Roots, nil)
}

// Prestarted is a program that was started and waits in [Enter] to hear what it may reach.
type Prestarted struct {
	p *Process
	o Options
}

// Prestart starts a program like Start, up to where it waits for its roots; those of o mean
// nothing. It takes most of the time of a start. Confine or Stop has to be called.
func Prestart(o Options) (*Prestarted, error) {
	p, err := o.begin()
	if err != nil {
		return nil, o.failed(err)
	}
	return &Prestarted{p, o}, nil
}

// Confine has the process begin, and returns when it is confined. After an error there is
// no process any more. waits is called with a path on a file system that does not answer; nil is no call.
func (w *Prestarted) Confine(ctx context.Context, roots Confinement, waits func(path string)) (*Process, error) {
	if err := w.p.admit(ctx, terms{w.o.Account, roots}, waits); err != nil {
		return nil, w.o.failed(errors.Join(err, w.p.Stop(0)))
	}
	return w.p, nil
}

// Stop ends the process.
func (w *Prestarted) Stop() error { return w.p.Stop(0) }

func (o Options) failed(err error) error {
	return &mover.Error{Op: "act as", Location: "uid " + strconv.FormatUint(uint64(o.Account.UID), 10), Err: err}
}

// begin starts the process.
func (o Options) begin() (*Process, error) {
	me, err := self()
	if err == nil {
		err = o.Account.check(o.Root, me)
	}
	if err != nil {
		return nil, err
	}
	ours, theirs, err := connect()
	if err != nil {
		return nil, err
	}
	crash := newCrashFile()
	cmd := o.command(me.UID == 0, theirs, crash)
	sealFiles()
	err = cmd.Start()
	_ = theirs.Close()
	if err != nil {
		_ = errors.Join(ours.Close(), crash.Close())
		return nil, fmt.Errorf("%w (in the directory %s)", err, mover.Printable(cmd.Dir))
	}
	p := &Process{Conn: ours, cmd: cmd, crash: crash, done: make(chan struct{})}
	go p.reap()
	if err := p.identify(o.Account); err != nil {
		return nil, errors.Join(err, p.Stop(0))
	}
	return p, nil
}

// identify sends the process its account.
func (p *Process) identify(who Account) error {
	if err := p.Conn.SetWriteDeadline(time.Now().Add(startTimeout)); err != nil {
		return err
	}
	err := send(p.Conn, who, maxTerms)
	if isClosed(err) {
		err = p.endedEarly(err)
	}
	return errors.Join(err, p.Conn.SetWriteDeadline(time.Time{}))
}

// connect makes the two ends of a socket: ours, and the one that the process inherits.
func connect() (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("socketpair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "socket of a process"), os.NewFile(uintptr(fds[1]), "socket of the service")
	defer ours.Close() // FileConn has its own
	conn, err := net.FileConn(ours)
	if err != nil {
		_ = theirs.Close()
		return nil, nil, err
	}
	return conn, theirs, nil
}

func (o Options) command(asRoot bool, socket, crash *os.File) *exec.Cmd {
	cmd := &exec.Cmd{
		Path:       o.Path,
		Env:        append([]string{}, o.Env...), // not nil, which would be ours
		Dir:        o.Dir,
		Stderr:     o.Stderr,
		ExtraFiles: []*os.File{socket},
		WaitDelay:  time.Second, // for what it left behind that holds Stderr
		// A session of its own: no terminal, and no signal that is meant for us.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if crash != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, crash)
	}
	name := cmd.Path
	if cmd.Path == "" {
		cmd.Path, name = "/proc/self/exe", filepath.Base(os.Args[0])
	}
	if cmd.Dir == "" {
		cmd.Dir = "/"
	}
	cmd.Args = append([]string{name}, o.Args...)
	if asRoot && o.Path != "" && !o.Account.Apart { // this very program takes its ids by itself (Enter), as one apart has to, and no other process can look into it before
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: o.Account.UID, Gid: o.Account.GID, Groups: o.Account.Groups}
	}
	return cmd
}

// sealFiles keeps from the process what this one has open. Go closes its files on
// exec by itself; what our own starter left open, or C code opened, it does not know.
// Kernels before 5.11 can not; there Enter closes what came through.
func sealFiles() { _ = unix.CloseRange(3, ^uint(0)>>32, unix.CLOSE_RANGE_CLOEXEC) }

// Unanswered is the error of a process that was not ready in time, because a file system did not answer it.
type Unanswered struct{ Path string }

func (u *Unanswered) Error() string {
	return fmt.Sprintf("open %s: no answer for %ds; is its server there?", mover.Printable(u.Path), int(startTimeout.Seconds()))
}

func (u *Unanswered) Unwrap() error { return mover.ErrTimeout }

// admit tells the process its terms, and hears whether it took them.
func (p *Process) admit(ctx context.Context, t terms, waits func(path string)) error {
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, startTimeout, fmt.Errorf("%w: it was not ready within %v", mover.ErrTimeout, startTimeout))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = p.Conn.SetDeadline(time.Unix(1, 0)) })
	var r reply
	at := "" // which path it waits for
	err := send(p.Conn, t, maxTerms)
	for err == nil {
		r = reply{}
		if err = receive(p.Conn, &r, maxReply); err != nil || r.Waits == "" {
			break
		}
		if waits != nil && r.Waits != at {
			waits(r.Waits)
		}
		at = r.Waits
	}
	switch late := !stop(); {
	case late && at != "" && outer.Err() == nil:
		return &Unanswered{at}
	case late:
		return context.Cause(ctx)
	case isClosed(err):
		return p.endedEarly(err)
	case err != nil:
		return err
	}
	p.Enforced = r.Enforced
	return r.err()
}

// isClosed reports whether the other side of a socket is gone.
func isClosed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET)
}
