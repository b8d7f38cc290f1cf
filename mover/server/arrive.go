package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// entrance is a listener.
type entrance struct {
	net.Listener
	remote bool // others come from other machines: TLS
	page   bool // on loopback, without TLS
	scrape bool // metrics and health, without TLS, for the network
}

// acceptPause is after an Accept that failed, as when files run out.
const acceptPause = 50 * time.Millisecond

// accept lets connections in until the entrance is closed.
func (d *Server) accept(e entrance) {
	for {
		conn, err := e.Accept()
		switch {
		case d.ctx.Err() != nil:
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			d.log.Error("no client can connect", "address", addressOf(e), "err", err)
			select {
			case <-d.ctx.Done():
			case <-time.After(acceptPause):
			}
			continue
		}
		leave, err := d.count(e, conn)
		if err != nil {
			_ = conn.Close()
			d.log.Warn("connection refused", "address", addressOf(e), "err", err)
			continue
		}
		d.arriving.Go(func() { d.receive(e, conn, leave) })
	}
}

// count counts a connection before anything is read from it.
func (d *Server) count(e entrance, conn net.Conn) (leave func(), err error) {
	switch {
	case e.page:
		return d.onPage.enter(hostOf(conn), false)
	case e.scrape:
		return d.scrapers.enter(hostOf(conn), false)
	case e.remote:
		return d.arrivals.enter(hostOf(conn), false)
	}
	u, is := conn.(*net.UnixConn)
	if !is {
		return nil, fmt.Errorf("%w: %T is no connection of ours", mover.ErrUnsupported, conn)
	}
	uid, err := uidOf(u)
	if err != nil {
		return nil, err
	}
	return d.locals.enter(fmt.Sprintf("uid %d", uid), uid == 0 || uid == d.self)
}

func hostOf(conn net.Conn) string {
	text := conn.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(text); err == nil {
		return host
	}
	return text
}

// receive identifies the peer and its protocol, and leads the connection to its server.
func (d *Server) receive(e entrance, conn net.Conn, leave func()) {
	ctx, cancel := context.WithTimeoutCause(d.ctx, d.limits.Patience, errors.New("it did not say in time what it wants"))
	defer cancel()
	hurry := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	g := &guest{Conn: conn, leave: leave}
	to, err := d.meet(ctx, e, g)
	if !hurry() && err == nil {
		err = context.Cause(ctx)
	}
	if err == nil {
		err = g.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = g.Close()
		d.log.Debug("connection ended before it began", "peer", conn.RemoteAddr().String(), "err", err)
		return
	}
	g.stay()
	_ = to.give(d.ctx, g) // else we are stopping
}

// meet makes a guest of a connection.
func (d *Server) meet(ctx context.Context, e entrance, g *guest) (*passage, error) {
	switch {
	case e.page, e.scrape:
		g.origin = &peerIdentity{page: e.page, scrape: e.scrape, peer: g.RemoteAddr().String()}
		return d.toWeb, nil
	case e.remote:
		return d.meetRemote(ctx, g)
	}
	grpc, err := g.speaksHTTP2()
	if err != nil {
		return nil, err
	}
	g.origin = d.local(ctx, g.Conn.(*net.UnixConn)) //nolint:forcetypeassert // count has seen that it is one
	if err := g.origin.trouble; err != nil {
		d.log.Warn("the caller is not known", "peer", "unix", "err", err)
	}
	return d.passageOf(g, grpc), nil
}

func (d *Server) meetRemote(ctx context.Context, g *guest) (*passage, error) {
	raw := g.Conn
	secure := tls.Server(raw, d.o.TLS)
	if err := secure.HandshakeContext(ctx); err != nil {
		if refused(err) {
			d.turnedAway(raw, err)
			hearOut(raw)
		}
		return nil, err
	}
	g.Conn = secure
	grpc, err := g.speaksHTTP2()
	if err != nil {
		return nil, err
	}
	g.origin = d.certified(ctx, secure.ConnectionState(), raw.RemoteAddr().String())
	known, name := d.remotes, keyOf(g.origin.caller, "")
	if g.origin.caller.Via == "" {
		known, name = d.strangers, hostOf(raw)
	}
	leave, err := known.enter(name, false)
	if err != nil {
		d.log.Warn("connection refused", "peer", g.origin.peer, "err", err)
		return nil, err
	}
	g.leave() // it no longer counts as arriving
	g.leave = leave
	return d.passageOf(g, grpc), nil
}

// hearOut reads what a client sends that has not heard yet why it is refused: a connection that ends with something unread takes the alert
// along. It lasts until the client ends it, or its time is over.
func hearOut(conn net.Conn) {
	if half, is := conn.(interface{ CloseWrite() error }); is && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, conn, maxUnheard)
	}
}

// maxUnheard is more than a client says before it listens.
const maxUnheard = 64 << 10

// passageOf is where a guest goes.
func (d *Server) passageOf(g *guest, grpc bool) *passage {
	switch {
	case !grpc:
		return d.toWeb
	case g.origin.caller.Via == authz.Agent:
		return d.toAgents
	}
	return d.toPeople
}

// connect is the method that a record names when a certificate was not taken.
const connect = "connect"

// turnedAway records a peer with a certificate that was not taken. So many of them can
// come that a bucket decides whether there is a record.
func (d *Server) turnedAway(conn net.Conn, err error) {
	peer := conn.RemoteAddr().String()
	d.o.Metrics.Denied(connect, telemetry.DeniedCertificate)
	d.log.Warn("certificate not taken", "peer", peer, "err", err)
	if d.callers.take("address "+hostOf(conn), d.paceOf(authz.Caller{})) != nil {
		return
	}
	r := auditlog.Record{Peer: peer, Method: connect, Code: mover.KindName(mover.ErrPermission), Reason: err.Error()}
	if noted := d.note(d.ctx, r); noted != nil {
		d.log.Error("a denial is not in the audit log", "peer", peer, "method", connect, "err", noted)
	}
}

// AgentDialer returns what connects the agent of this very process.
func (d *Server) AgentDialer(name string) func(context.Context) (net.Conn, error) {
	return d.dialer(d.toAgents, &peerIdentity{caller: authz.Caller{Via: authz.Agent, Agent: name}, peer: "inside"})
}

// dialer connects to a server of ours without leaving the process.
func (d *Server) dialer(to *passage, o *peerIdentity) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		ours, theirs, err := d.o.pair()
		if err != nil {
			return nil, err
		}
		if err := to.give(ctx, &guest{Conn: theirs, origin: o}); err != nil {
			_ = ours.Close()
			return nil, err
		}
		return ours, nil
	}
}
