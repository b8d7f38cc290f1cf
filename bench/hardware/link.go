package hardware

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// A conversation begins with its direction. Either the client sends bytes, and at their end the server answers their number. Or the server sends bytes until the client closes.
const (
	comes = 'w'
	goes  = 'r'
)

const (
	streams = 4         // of a link, where nothing else is said
	message = 256 << 10 // bytes of one write
	dial    = 10 * time.Second
	stuck   = 30 * time.Second // without a byte
)

// Serve answers those that measure the link to this host, until ctx ends.
func Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	var group sync.WaitGroup
	defer group.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		group.Go(func() {
			end := context.AfterFunc(ctx, func() { _ = c.Close() })
			defer end()
			defer c.Close()
			_ = answer(c) // the client sees the error
		})
	}
}

func answer(c net.Conn) error {
	b := make([]byte, message)
	_ = c.SetDeadline(time.Now().Add(stuck))
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return err
	}
	switch b[0] {
	case goes:
		noise(b, 1)
		for {
			_ = c.SetDeadline(time.Now().Add(stuck))
			if _, err := c.Write(b); err != nil {
				return err
			}
		}
	case comes:
		total := uint64(0)
		for {
			_ = c.SetDeadline(time.Now().Add(stuck))
			n, err := c.Read(b)
			total += uint64(n)
			if errors.Is(err, io.EOF) {
				_, err := c.Write(binary.BigEndian.AppendUint64(nil, total))
				return err
			}
			if err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("%w: what is to happen?", mover.ErrUsage)
}

// Link measures how fast bytes go to a host on which Serve answers, and come from there.
func Link(ctx context.Context, name, address string, o Options) ([]Ceiling, error) {
	if o.Workers == 0 {
		o.Workers = streams
	}
	var all []Ceiling
	for what, mode := range map[string]byte{".send": comes, ".receive": goes} {
		rates, err := o.repeat(ctx, func() (int64, time.Duration, error) { return o.stream(ctx, address, mode) })
		if err != nil {
			return nil, fmt.Errorf("%w: the link to %s: %w", mover.ErrUnreachable, address, err)
		}
		all = append(all, of(name+what, bytesPerSecond, fmt.Sprintf("%d streams of TCP with %s", o.Workers, address), rates))
	}
	return all, nil
}

// Loopback measures the link of this host to itself: what its processors and memory can do for TCP at most.
func Loopback(ctx context.Context, o Options) ([]Ceiling, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, l) }()
	all, err := Link(ctx, "loopback", l.Addr().String(), o)
	stop()
	return all, errors.Join(err, <-ended)
}

// stream has all streams work for the time of a run. What is counted has arrived.
func (o Options) stream(ctx context.Context, address string, mode byte) (done int64, took time.Duration, err error) {
	conns := make([]net.Conn, o.Workers)
	defer func() {
		for _, c := range conns {
			if c != nil {
				_ = c.Close() // it is over
			}
		}
	}()
	d := net.Dialer{Timeout: dial}
	for i := range conns {
		if conns[i], err = d.DialContext(ctx, "tcp", address); err != nil {
			return 0, 0, err
		}
	}
	stop := context.AfterFunc(ctx, func() {
		for _, c := range conns {
			_ = c.SetDeadline(time.Now())
		}
	})
	defer stop()
	var all atomic.Int64
	errs := make([]error, len(conns))
	var group sync.WaitGroup
	begun := time.Now()
	end := begun.Add(o.time())
	for i, c := range conns {
		group.Go(func() {
			n, err := o.speak(c, mode, end)
			all.Add(n)
			errs[i] = err
		})
	}
	group.Wait()
	return all.Load(), time.Since(begun), errors.Join(errs...)
}

func (o Options) speak(c net.Conn, mode byte, end time.Time) (total int64, err error) {
	b := make([]byte, message)
	noise(b, 2)
	_ = c.SetDeadline(end.Add(stuck))
	if _, err := c.Write([]byte{mode}); err != nil {
		return 0, err
	}
	if mode == goes {
		for {
			n, err := c.Read(b)
			total += int64(n)
			if err != nil || !time.Now().Before(end) { // once at least, on a machine that is busy
				return total, err
			}
		}
	}
	for more := true; more; more = time.Now().Before(end) { // once at least, on a machine that is busy
		if _, err := c.Write(b); err != nil {
			return 0, err
		}
	}
	if half, ok := c.(*net.TCPConn); ok {
		if err := half.CloseWrite(); err != nil {
			return 0, err
		}
	}
	var count [8]byte
	if _, err := io.ReadFull(c, count[:]); err != nil {
		return 0, err
	}
	return int64(binary.BigEndian.Uint64(count[:])), nil
}
