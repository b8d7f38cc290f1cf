package peer

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// reads are the pieces that were read from a disk, and that are being sent. They are bounded in all, and for each host, so that
// slow hosts leave room for others.
type reads struct {
	all chan struct{}

	mu    sync.Mutex
	hosts map[string]*host // those that have some, or wait; guarded by mu
}

type host struct {
	slots chan struct{}
	users int // guarded by reads.mu
}

const (
	readsMost  = 64
	readsOfOne = 4
)

func (r *reads) open() { r.all, r.hosts = make(chan struct{}, readsMost), map[string]*host{} }

// enter waits for room for one more, until leave is called.
func (r *reads) enter(q *http.Request) (leave func(), err error) {
	name, _, _ := net.SplitHostPort(q.RemoteAddr) // an address of a connection has a port
	r.mu.Lock()
	h := r.hosts[name]
	if h == nil {
		h = &host{slots: make(chan struct{}, readsOfOne)}
		r.hosts[name] = h
	}
	h.users++
	r.mu.Unlock()
	forget := func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if h.users--; h.users == 0 {
			delete(r.hosts, name)
		}
	}
	for i, c := range []chan struct{}{h.slots, r.all} {
		if err := acquire(q.Context(), c); err != nil {
			if i > 0 {
				<-h.slots
			}
			forget()
			return nil, err
		}
	}
	return func() { <-r.all; <-h.slots; forget() }, nil
}

func acquire(ctx context.Context, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
