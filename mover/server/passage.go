package server

import (
	"context"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// passage leads connections that were let in to a server, which takes it for a
// listener.
type passage struct {
	name   string
	conns  chan net.Conn
	closed chan struct{}
	close  func()
}

func newPassage(name string) *passage {
	p := &passage{name: name, conns: make(chan net.Conn), closed: make(chan struct{})}
	p.close = sync.OnceFunc(func() { close(p.closed) })
	return p
}

// give hands a connection over. What the server does not take any more is closed.
func (p *passage) give(ctx context.Context, conn net.Conn) error {
	select {
	case p.conns <- conn:
		return nil
	case <-p.closed:
		_ = conn.Close()
		return net.ErrClosed
	case <-ctx.Done():
		_ = conn.Close()
		return context.Cause(ctx)
	}
}

// Accept implements net.Listener.
func (p *passage) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *passage) Close() error {
	p.close()
	return nil
}

// Addr implements net.Listener.
func (p *passage) Addr() net.Addr { return p }

// Network implements net.Addr.
func (p *passage) Network() string { return "inside" }

func (p *passage) String() string { return p.name }

// pair makes two ends of a connection that does not leave this process.
func pair() (ours, theirs net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if ours, err = connOf(fds[0]); err != nil {
		_ = unix.Close(fds[1])
		return nil, nil, err
	}
	if theirs, err = connOf(fds[1]); err != nil {
		_ = ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

func connOf(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "inside")
	defer f.Close() // FileConn has its own
	return net.FileConn(f)
}
