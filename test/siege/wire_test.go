package siege

import (
	"net"
	"sync"
	"testing"
)

// wire is the network between a node and the coordinator. While it is cut nothing
// passes and nobody is told, as when a switch is gone; what was on its way arrives when
// it is mended.
type wire struct {
	listener net.Listener
	running  sync.WaitGroup
	over     chan struct{}

	mu    sync.Mutex
	to    string                // guarded by mu, as all below
	whole chan struct{}         // closed while the wire is whole
	conns map[net.Conn]struct{} // both ends
}

// newWire makes a wire that leads nowhere yet.
func newWire(t *testing.T) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	w := &wire{listener: l, over: make(chan struct{}), whole: make(chan struct{}), conns: map[net.Conn]struct{}{}}
	close(w.whole)
	w.running.Go(w.accept)
	t.Cleanup(func() {
		close(w.over)
		_ = l.Close()
		w.sever()
		w.running.Wait()
	})
	return w
}

func (w *wire) address() string { return w.listener.Addr().String() }

// lead says where the wire leads from now on.
func (w *wire) lead(to string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.to = to
}

// cut lets nothing pass until mend.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whole = make(chan struct{})
}

func (w *wire) mend() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.whole)
}

// sever ends all connections.
func (w *wire) sever() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

// passes waits until the wire is whole. It reports false at the end of the test.
func (w *wire) passes() bool {
	w.mu.Lock()
	whole := w.whole
	w.mu.Unlock()
	select {
	case <-whole:
		return true
	case <-w.over:
		return false
	}
}

func (w *wire) accept() {
	for {
		here, err := w.listener.Accept()
		if err != nil {
			return
		}
		w.running.Go(func() { w.connect(here) })
	}
}

func (w *wire) connect(here net.Conn) {
	defer w.forget(w.note(here))
	if !w.passes() {
		return
	}
	w.mu.Lock()
	to := w.to
	w.mu.Unlock()
	there, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer w.forget(w.note(there))
	var both sync.WaitGroup
	both.Go(func() { w.pump(here, there) })
	both.Go(func() { w.pump(there, here) })
	both.Wait()
}

func (w *wire) note(c net.Conn) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns[c] = struct{}{}
	return c
}

func (w *wire) forget(c net.Conn) {
	_ = c.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.conns, c)
}

// pump passes on what comes from one end, and its end.
func (w *wire) pump(from, to net.Conn) {
	defer to.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if !w.passes() {
			return
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				_ = from.Close()
				return
			}
		}
		if err != nil {
			return
		}
	}
}
