package multinode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
)

const (
	handshakes = 64               // at the same time; later connections wait
	shake      = 10 * time.Second // for a handshake and a hello
)

// gathering waits for nodes that join.
type gathering struct {
	want    int
	version string
	say     func(string)

	mu     sync.Mutex // guards what follows
	come   []member
	full   chan struct{} // closed when all have come
	failed error
}

// errEnded is that no node is left to join.
var errEnded = errors.New("what starts them has ended")

// gather waits until so many nodes have joined. It reports a peer that does not know the secret, and does not count it.
func gather(ctx context.Context, p *Plan) (all []member, err error) {
	config, err := p.Secret.tls()
	if err != nil {
		return nil, err
	}
	g, l := &gathering{want: p.Nodes, version: p.Version, say: p.Say, full: make(chan struct{})}, p.Listen
	var group sync.WaitGroup
	slots := make(chan struct{}, handshakes)
	group.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // it was closed
			}
			slots <- struct{}{}
			group.Go(func() {
				defer func() { <-slots }()
				g.welcome(ctx, tls.Server(conn, config))
			})
		}
	})
	select {
	case <-g.full:
	case <-ctx.Done():
	case <-p.Ended:
		err = errEnded
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	_ = l.Close() // no further node is let in
	group.Wait()
	return g.all(err)
}

// welcome lets one in.
func (g *gathering) welcome(ctx context.Context, conn *tls.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(shake))
	w := newWire(conn)
	m, err := w.receive()
	if err == nil && (m.Say != sayHello || m.Hello == nil) {
		err = errors.New("it has no name")
	}
	if err != nil {
		g.say(fmt.Sprintf("%s is not let in: %v", conn.RemoteAddr(), err))
		_ = conn.Close()
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch name := mover.Printable(m.Hello.Node.Name); {
	case len(g.come) == g.want:
		g.say(fmt.Sprintf("%s is not let in: all %d nodes are there", name, g.want))
		_ = conn.Close()
	case m.Hello.Version != g.version:
		g.failed = fmt.Errorf("%w: node %s has version %.40q, and the leader has %s", mover.ErrUsage, name, m.Hello.Version, g.version)
		_ = conn.Close()
		g.leave()
	default:
		g.come = append(g.come, newRemote(w, m.Hello.Node))
		g.say(fmt.Sprintf("%s has joined: %d of %d nodes", name, len(g.come), g.want))
		if len(g.come) == g.want {
			g.leave()
		}
	}
}

// leave ends the waiting; mu is held.
func (g *gathering) leave() {
	select {
	case <-g.full:
	default:
		close(g.full)
	}
}

// all are those that have come, by name. With too few it also returns an error with their number and names.
func (g *gathering) all(why error) ([]member, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	slices.SortStableFunc(g.come, func(a, b member) int { return strings.Compare(a.About().Name, b.About().Name) })
	if g.failed != nil {
		return g.come, g.failed
	}
	switch {
	case len(g.come) == g.want && errors.Is(why, errEnded): // which it did after the last one
		return g.come, nil
	case len(g.come) < g.want && errors.Is(why, context.DeadlineExceeded):
		return g.come, g.missing("the others did not in time")
	case errors.Is(why, errEnded):
		return g.come, g.missing("what --launch started has ended")
	}
	return g.come, why
}

// missing is the error of a run to which some nodes do not come; mu is held.
func (g *gathering) missing(why string) error {
	names := []string{"nobody"}
	if len(g.come) > 0 {
		names = nil
	}
	for _, m := range g.come {
		names = append(names, mover.Printable(m.About().Name))
	}
	return fmt.Errorf("%w: %d of %d nodes have joined (%s), and %s", mover.ErrUnreachable, len(g.come), g.want, strings.Join(names, ", "), why)
}
