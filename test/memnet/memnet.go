// Package memnet has HTTP servers that are reached over connections in memory, for tests in virtual time: a goroutine that waits for bytes of such a
// connection waits in the bubble of testing/synctest. As with TCP a connection has room for bytes that are on their way, and what was
// written arrives though its writer has gone.
package memnet

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"
)

// Network is some servers, by their addresses. Methods may be called at any time.
type Network struct {
	t testing.TB

	mu        sync.Mutex
	listeners map[string]*listener // by address; guarded by mu
}

// New makes a network.
func New(t testing.TB) *Network {
	return &Network{t: t, listeners: map[string]*listener{}}
}

// Serve has a handler answer at an address, until the test ends. The RemoteAddr of a request is what Dial says.
func (s *Network) Serve(address string, h http.Handler) {
	l := &listener{dialled: make(chan net.Conn), closed: make(chan struct{})}
	s.mu.Lock()
	s.listeners[address] = l
	s.mu.Unlock()
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = server.Serve(l)
	}()
	s.t.Cleanup(func() { _ = server.Close(); <-ended })
}

// Dial connects to an address from another one; nil is that nothing is there.
func (s *Network) Dial(ctx context.Context, address, from string) (net.Conn, error) {
	if s == nil {
		return nil, nil
	}
	s.mu.Lock()
	l := s.listeners[address]
	s.mu.Unlock()
	if l == nil {
		return nil, nil
	}
	up, down := newStream(), newStream()
	here := &conn{in: down, out: up, local: addr(from), remote: addr(address), reads: newAlarm(), writes: newAlarm()}
	there := &conn{in: up, out: down, local: addr(address), remote: addr(from), reads: newAlarm(), writes: newAlarm()}
	select {
	case l.dialled <- there:
		return here, nil
	case <-l.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

type listener struct {
	dialled chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.dialled:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *listener) Addr() net.Addr { return addr("memory") }

type addr string

func (addr) Network() string  { return "memory" }
func (a addr) String() string { return string(a) }

// conn is an end of a connection with room for bytes that are on their way, as a TCP connection has it: what was written
// arrives though its writer has gone.
type conn struct {
	in, out       *stream
	local, remote addr
	reads, writes *alarm
}

func (c *conn) Read(p []byte) (int, error)  { return c.in.read(p, c.reads) }
func (c *conn) Write(p []byte) (int, error) { return c.out.write(p, c.writes) }
func (c *conn) LocalAddr() net.Addr         { return c.local }
func (c *conn) RemoteAddr() net.Addr        { return c.remote }

func (c *conn) Close() error {
	c.out.end(false)
	c.in.end(true)
	return nil
}

func (c *conn) SetDeadline(t time.Time) error {
	c.reads.set(t)
	c.writes.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.reads.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writes.set(t)
	return nil
}

// streamBytes are on their way at most.
const streamBytes = 512 << 10

// stream is one direction of a connection.
type stream struct {
	mu      sync.Mutex // guards all below; nothing waits while it is held
	bytes   []byte
	ended   bool          // nothing more comes
	broken  bool          // nothing more is read
	changed chan struct{} // is closed with the next change
}

func newStream() *stream { return &stream{changed: make(chan struct{})} }

// tell tells of a change. mu is held.
func (s *stream) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stream) read(p []byte, until *alarm) (int, error) {
	for {
		passed := until.passed()
		s.mu.Lock()
		changed := s.changed
		switch {
		case s.broken:
			s.mu.Unlock()
			return 0, net.ErrClosed
		case rung(passed):
			s.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(s.bytes) > 0 || len(p) == 0:
			n := copy(p, s.bytes)
			if s.bytes = s.bytes[n:]; len(s.bytes) == 0 {
				s.bytes = nil
			}
			s.tell()
			s.mu.Unlock()
			return n, nil
		case s.ended:
			s.mu.Unlock()
			return 0, io.EOF
		}
		s.mu.Unlock()
		select {
		case <-changed:
		case <-passed:
		}
	}
}

func (s *stream) write(p []byte, until *alarm) (n int, err error) {
	for {
		passed := until.passed()
		s.mu.Lock()
		changed := s.changed
		switch {
		case s.ended || s.broken:
			err = io.ErrClosedPipe
		case rung(passed):
			err = os.ErrDeadlineExceeded
		case len(s.bytes) < streamBytes:
			more := min(len(p), streamBytes-len(s.bytes))
			s.bytes = append(s.bytes, p[:more]...)
			n, p = n+more, p[more:]
			s.tell()
		}
		s.mu.Unlock()
		if err != nil || len(p) == 0 {
			return n, err
		}
		select {
		case <-changed:
		case <-passed:
		}
	}
}

// end ends a stream: for its reader, or with what is in it.
func (s *stream) end(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if broken {
		s.broken, s.bytes = true, nil
	}
	s.tell()
}

// alarm is a deadline. One that is taken back does not pass.
type alarm struct {
	mu    sync.Mutex
	timer *time.Timer   // guarded by mu, as all below
	times uint64        // how often it was set
	at    chan struct{} // is closed when it passes
}

func newAlarm() *alarm { return &alarm{at: make(chan struct{})} }

func (a *alarm) passed() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.at
}

func rung(passed <-chan struct{}) bool {
	select {
	case <-passed:
		return true
	default:
		return false
	}
}

func (a *alarm) set(t time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times++
	if a.timer != nil {
		a.timer.Stop()
		a.timer = nil
	}
	if rung(a.at) {
		a.at = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	if !t.After(time.Now()) {
		close(a.at)
		return
	}
	this := a.times
	a.timer = time.AfterFunc(time.Until(t), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if this == a.times {
			close(a.at)
		}
	})
}
