package rig

import (
	"context"
	"fmt"
	"net"
)

// address is where the requests of a worker come from.
func (g *goroutine) address() string { return fmt.Sprint(g.agent, "/", g.pid) }

// dial connects a worker to a store, or to another agent. It is worker.Options.Dial.
func (g *goroutine) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if err := g.life.pass(); err != nil {
		return nil, err
	}
	c := g.workers.cluster
	line, err := c.Stores.Dial(ctx, address, g.address())
	if err != nil {
		return nil, err
	}
	if line == nil && c.Peers == nil {
		return nil, fmt.Errorf("nothing is at %s", address)
	}
	if line == nil {
		return c.Peers.dial(ctx, network, address)
	}
	return g.life.keeps(storeConn{line, g.life})
}

// storeConn is the connection of a worker to a store.
type storeConn struct {
	net.Conn
	life *life
}

func (c storeConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if passErr := c.life.pass(); passErr != nil { // it came while it slept, or died
		return 0, passErr
	}
	return n, err
}

func (c storeConn) Write(p []byte) (int, error) {
	if err := c.life.pass(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// Died reports whether a worker, by the RemoteAddr of its requests, was killed while it worked.
func (c *Cluster) Died(from string) bool {
	_, died := c.workers.died.Load(from)
	return died
}

// keeps notes a connection, which ends with the worker: what it has written is on its way then.
func (l *life) keeps(c net.Conn) (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		_ = c.Close()
		return nil, errKilled
	}
	l.lines = append(l.lines, c)
	return c, nil
}

// hangUp ends the connections to stores of a worker that has ended.
func (l *life) hangUp() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.hangUpLocked()
}

// hangUpLocked is hangUp with mu held.
func (l *life) hangUpLocked() {
	for _, c := range l.lines {
		_ = c.Close()
	}
	l.lines = nil
}
