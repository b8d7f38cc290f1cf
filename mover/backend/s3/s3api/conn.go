package s3api

import (
	"context"
	"io"
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// wideConn moves much with each call. It sends bodies that are in memory from there,
// where net/http would copy them through a buffer of 32 KiB. And it is patient: on a
// slow link each packet would wake the reader, so it lets the kernel wait until
// there is more (SO_RCVLOWAT, see socket(7)).
type wideConn struct {
	*net.TCPConn
	eager bool      // its reader is woken by every byte
	mark  int       // of the socket: fewer bytes wake no reader; 0 is as it was made
	rate  float64   // bytes per second; 0 is not known
	begun time.Time // of what is counted
	bytes int64
}

const wideBytes = 1 << 20 // of one write: each is a sign of life

func (c *wideConn) ReadFrom(r io.Reader) (sent int64, err error) {
	limited, ok := r.(*io.LimitedReader)
	if !ok {
		return c.TCPConn.ReadFrom(r)
	}
	if rest, ok := limited.R.(io.WriterTo); ok { // what did not fit beside its header
		sent, err = rest.WriteTo(c.TCPConn)
		limited.N -= sent
		return sent, err
	}
	body, ok := limited.R.(*sentBody)
	if !ok || body.data == nil {
		return c.TCPConn.ReadFrom(r)
	}
	body.passes()
	for len(body.data) > 0 && limited.N > 0 && err == nil {
		chunk := body.data[:min(wideBytes, int64(len(body.data)), limited.N)]
		if len(chunk) == len(body.data) { // before the server can have it all
			body.watch.givenAll()
		}
		var n int
		n, err = c.Write(chunk)
		body.data = body.data[n:]
		limited.N -= int64(n)
		sent += int64(n)
		body.passes()
		body.watch.timer.Reset(body.watch.limit)
	}
	return sent, err
}

const (
	patience  = 50 * time.Millisecond // for which the reader is not woken, about
	leastMark = 48 << 10              // less is not worth a call
	mostMark  = 256 << 10             // that the socket's buffer can have
)

// Read asks for no more than the answer has: net/http never reads a body, or a
// chunk of one, beyond its end, and everything else in small pieces. TLS reads as much as
// its buffer has room for: it would wait for more than there will be.
func (c *wideConn) Read(p []byte) (int, error) {
	if c.eager {
		return c.TCPConn.Read(p)
	}
	if mark := c.wanted(len(p)); mark != c.mark {
		c.setMark(mark)
	}
	n, err := c.TCPConn.Read(p)
	c.count(n, len(p))
	return n, err
}

// wanted is the mark for a read of n bytes: what comes in a short while. One that is
// good enough stays.
func (c *wideConn) wanted(n int) int {
	mark := min(n, mostMark, int(c.rate*patience.Seconds()))
	switch {
	case mark < leastMark:
		return min(c.mark, 1) // 1 is what the kernel begins with
	case c.mark <= n && c.mark > mark/2 && c.mark <= 2*mark:
		return c.mark
	}
	return mark
}

func (c *wideConn) setMark(mark int) {
	raw, err := c.SyscallConn()
	if err != nil {
		return // it is closed, as the read will say
	}
	_ = raw.Control(func(fd uintptr) {
		if err := unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVLOWAT, mark); err == nil {
			c.mark = mark
		}
	})
}

// count measures the rate while much is read.
func (c *wideConn) count(n, of int) {
	now := time.Now()
	if of < leastMark { // what the server thinks about is not the link's time
		c.begun, c.bytes = now, 0
		return
	}
	c.bytes += int64(n)
	if past := now.Sub(c.begun); past > patience {
		c.rate = float64(c.bytes) / past.Seconds()
		c.begun, c.bytes = now, 0
	}
}

// dialWide connects for HTTP, and dialEager for HTTP over TLS.
func dialWide(ctx context.Context, network, addr string) (net.Conn, error) {
	return dial(ctx, network, addr, false)
}

func dialEager(ctx context.Context, network, addr string) (net.Conn, error) {
	return dial(ctx, network, addr, true)
}

// keepAlive finds out in half a minute that the other end has forgotten a connection on which we only
// read. A path that fails over to another one sends no notice.
var keepAlive = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 4}

func dial(ctx context.Context, network, addr string, eager bool) (net.Conn, error) {
	dialer := net.Dialer{Timeout: 10 * time.Second, KeepAliveConfig: keepAlive}
	c, err := dialer.DialContext(ctx, network, addr)
	if tcp, ok := c.(*net.TCPConn); ok && err == nil {
		return &wideConn{TCPConn: tcp, eager: eager}, nil
	}
	return c, err
}
