package daemon

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover/agent"
	"datamove.dev/mover/config"
	"datamove.dev/mover/p2p/peer"
	"datamove.dev/mover/server/pki"
)

// peers is where this node gives others what they stage, too. A nil one gives nothing.
type peers struct {
	server   *peer.Server
	listener net.Listener
	keeper   *pki.Store
	host     string
	keeping  *part // renews the certificate; nil where another part does that
}

// peers opens the port, with the certificate that this node has. Where nothing else is said, it is open on the address alone from which the
// coordinator at target is reached: there the other nodes are told to ask.
func (h *host) peers(keeper *pki.Store, target string) (*peers, error) {
	c := h.live.config.Load().Peers
	if c.Listen == config.PeersOff {
		return nil, nil
	}
	host, port, err := net.SplitHostPort(config.DefaultPeers)
	if err != nil {
		return nil, err
	}
	if c.Host == "" {
		host = cmp.Or(addressTo(target), host)
	}
	listener, err := net.Listen("tcp", cmp.Or(c.Listen, net.JoinHostPort(host, port)))
	if errors.Is(err, unix.EADDRINUSE) && c.Listen == "" { // there are several agents on this host
		listener, err = net.Listen("tcp", net.JoinHostPort(host, "0"))
	}
	if err != nil {
		return nil, &advised{err, "peers: {listen: 0.0.0.0:PORT}, or off, in the configuration"}
	}
	h.log.Info("other nodes are given what they stage, too", "address", listener.Addr().String())
	return &peers{server: peer.NewServer(peer.Options{Logger: h.log}), listener: tls.NewListener(listener, pki.PeerServerTLS(keeper.Certificate)), keeper: keeper, host: c.Host}, nil
}

// addressTo is the address of this host from which another one is reached; "" is not known. Nothing is sent.
func addressTo(target string) string {
	if target == "" {
		return ""
	}
	conn, err := net.Dial("udp", target)
	if err != nil {
		return ""
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// peersOf is peers of the node of the coordinator, which has no certificate as an agent: its authority gives it one. Others can reach
// it where the configuration says by which name; the coordinator itself can not see that.
func (h *host) peersOf(ctx context.Context, authority *pki.Authority) (*peers, error) {
	if authority == nil || h.live.config.Load().Peers.Host == "" {
		return nil, nil
	}
	id := pki.Identity{Role: pki.Agent, Name: h.at.node}
	keeper, err := pki.OpenStore(filepath.Join(h.at.data, "identity"), id, pki.StoreOptions{Logger: h.log, Replace: true})
	if err != nil {
		return nil, err
	}
	issue := func(_ context.Context, request []byte) (certificate, authorities []byte, err error) {
		i, err := authority.Issue(request, id, 0)
		return i.Certificate, i.Authority, err
	}
	if err := keeper.Obtain(ctx, issue); err != nil { // each start has a new one: the authority may be another one
		return nil, err
	}
	p, err := h.peers(keeper, "")
	if p != nil {
		p.keeping = until("certificate", func(ctx context.Context) error { return keeper.Run(ctx, issue) })
	}
	return p, err
}

// agent is what the agent has of it.
func (p *peers) agent() *agent.Peers {
	if p == nil {
		return nil
	}
	return &agent.Peers{Server: p.server, Port: p.listener.Addr().(*net.TCPAddr).Port, Host: p.host, Authorities: p.keeper.AuthorityCertificates}
}

// parts serve.
func (p *peers) parts() []*part {
	if p == nil {
		return nil
	}
	serve := begin("peers", func() error {
		if err := p.server.Serve(p.listener); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	}, func() { _ = p.listener.Close() })
	if p.keeping == nil {
		return []*part{serve}
	}
	return []*part{serve, p.keeping}
}
