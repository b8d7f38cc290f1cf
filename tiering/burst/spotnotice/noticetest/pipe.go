package noticetest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Pipe serves within this process, through no socket, so that the time of a test can be virtual. done ends it.
func Pipe(h http.Handler) (through *http.Transport, done func()) {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.Serve(l) }) // it ends with http.ErrServerClosed
	through = &http.Transport{DialContext: l.dial}
	return through, func() {
		through.CloseIdleConnections()
		_ = server.Close()
		wg.Wait()
	}
}

// pipes is a listener of connections within a process.
type pipes struct {
	conns  chan net.Conn
	once   sync.Once
	closed chan struct{}
}

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	here, there := net.Pipe()
	select {
	case p.conns <- there:
		return here, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener.
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
