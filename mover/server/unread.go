package server

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"

	"datamove.dev/mover/server/authz"
)

// A call ends for its handler when its answer is handed to gRPC, which keeps it until the client reads: one that never does, on many connections, would have
// the service keep gigabytes. So answers are counted until they have left, or their connection is gone.

// leastUnread is counted of an answer; gRPC tells of no smaller one when it has left.
const leastUnread = 1<<10 + 1

// unread are the answers on a connection that have not left.
type unread struct {
	mu     sync.Mutex // guards all below
	closed bool
	all    map[*reply]int64 // their bytes
}

// reply is what a handler has answered, until it has left.
type reply struct {
	message any
	on      *unread
	callers *callers
	caller  string
}

// counts says whether answers to a request are counted: root can do worse, and agents and our own HTTP side read what they ask for.
func (d *Server) counts(o *peerIdentity, v *request) bool {
	return o.unread != nil && !o.inside && v.caller.Via != authz.Agent && !d.privileged(v.caller)
}

// reads says why a caller that does not read gets no more answers.
func (d *Server) reads(ctx context.Context, v *request) error {
	if bytes := d.callers.unread(v.key()); d.counts(originOf(ctx), v) && bytes >= d.limits.Unread {
		return later("answers", time.Second, "%s has not read %d bytes of answers, and gets no more until it has", v.key(), bytes)
	}
	return nil
}

// answered is the message that is counted for an answer to a request.
func (d *Server) answered(ctx context.Context, v *request, message any) any {
	o := originOf(ctx)
	if message == nil || !d.counts(o, v) {
		return message
	}
	return &reply{message: message, on: o.unread, callers: d.callers, caller: v.key()}
}

// begins counts an answer.
func (a *reply) begins(bytes int64) {
	a.on.mu.Lock()
	defer a.on.mu.Unlock()
	if a.on.closed {
		return
	}
	if a.on.all == nil {
		a.on.all = map[*reply]int64{}
	}
	a.on.all[a] = bytes
	a.callers.owe(a.caller, bytes)
}

// left counts it no more.
func (a *reply) left() {
	a.on.mu.Lock()
	defer a.on.mu.Unlock()
	a.callers.owe(a.caller, -a.on.all[a])
	delete(a.on.all, a)
}

// close ends all, with the connection: gRPC does not tell of them.
func (u *unread) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	for a, bytes := range u.all {
		a.callers.owe(a.caller, -bytes)
	}
	u.all = nil
}

// counting is a codec that counts answers.
type counting struct{ encoding.CodecV2 }

// Marshal implements encoding.CodecV2.
func (c counting) Marshal(v any) (mem.BufferSlice, error) {
	a, counted := v.(*reply)
	if !counted {
		return c.CodecV2.Marshal(v)
	}
	data, err := c.CodecV2.Marshal(a.message)
	if err != nil || data.Len() < leastUnread {
		return data, err
	}
	text := data.Materialize()
	data.Free()
	a.begins(int64(len(text)))
	return mem.BufferSlice{mem.NewBuffer(&text, told(a.left))}, nil
}

// told is a pool that is told when a buffer is free, and has none.
type told func()

// Get implements mem.BufferPool.
func (told) Get(n int) *[]byte { b := make([]byte, n); return &b }

// Put implements mem.BufferPool.
func (f told) Put(*[]byte) { f() }
