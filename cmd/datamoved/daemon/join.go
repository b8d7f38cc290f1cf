package daemon

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server"
	"datamove.dev/mover/server/pki"
	"datamove.dev/mover/telemetry"
)

// serveAgent runs the agent of a node with its coordinator elsewhere.
func (a *app) serveAgent(ctx context.Context, h *host) error {
	target, err := joinTarget(a.flags.join)
	if err != nil {
		return err
	}
	h.manager.status("joining %s", target)
	keeper, err := a.identity(ctx, h, target)
	if err != nil {
		return err
	}
	secure := pki.ClientTLS(pki.ClientOptions{Authorities: keeper.Authorities, Certificate: keeper.Certificate})
	conn, err := newLink(target, secure, toward(target))
	if err != nil {
		return err
	}
	defer conn.Close()
	h.metrics.Sample(func(s *telemetry.Sample) {
		if c, err := keeper.Certificate(); err == nil {
			s.Certificate(telemetry.CertAgent, c.Leaf.NotBefore, c.Leaf.NotAfter)
		}
	})
	o := h.doorOptions()
	o.Rules = func() server.Rules { return server.Passing{} }
	o.Forward = conn
	o.Health = func(context.Context) error { return nil } // it lives, also while its coordinator is away
	d, err := server.Open(o)
	if err != nil {
		return err
	}
	enroll := agentv1.NewEnrollServiceClient(conn)
	keeping := until("certificate", func(ctx context.Context) error { return a.keeps(ctx, h, keeper, target, renew(enroll)) })
	again := func(ctx context.Context) error { return a.joinAgain(ctx, h, keeper, target) }
	standing := until("standing", func(ctx context.Context) error { return h.standing(ctx, conn, target, secure, again) })
	peers, err := h.peers(keeper, target)
	if err != nil {
		return err
	}
	helpers, err := h.agentParts(conn, peers)
	if err != nil {
		return err
	}
	parts := append(helpers, serving(d), keeping, standing)
	return h.run(ctx, "agent of "+target, func(context.Context) error { return nil }, d, parts...)
}

// joinTarget is host:port of a coordinator.
func joinTarget(address string) (string, error) {
	target := strings.TrimPrefix(address, "tcp://")
	if host, port, err := net.SplitHostPort(target); err != nil || host == "" || port == "" {
		return "", mover.Misusef("--join %s: want tcp://host:port", address)
	}
	return target, nil
}

// keeps renews the certificate of this node. One that has ended, as after a long sleep of the node, is replaced where the node may join again by itself.
func (a *app) keeps(ctx context.Context, h *host, keeper *pki.Store, target string, renew pki.Renew) error {
	for {
		err := keeper.Run(ctx, renew)
		if err == nil {
			return nil
		}
		ticket, noTicket := a.ticketFor(h.at.node, target)
		if noTicket != nil || !ticket.again {
			return &advised{err, rightTime + newToken(h.at.node)}
		}
		h.log.Warn("the certificate of this node is over, and it joins again", "err", err)
		if err := joining(ctx, h, keeper, ticket, target); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

// renew asks for the next certificate with the present one.
func renew(enroll agentv1.EnrollServiceClient) pki.Renew {
	return func(ctx context.Context, csr []byte) ([]byte, []byte, error) {
		c, err := enroll.Renew(ctx, &agentv1.RenewRequest{Csr: csr})
		return c.GetCertificate(), c.GetAuthority(), api.FromStatus(err)
	}
}

// identity is the certificate of this node, for which it joins if it has none that
// is good.
func (a *app) identity(ctx context.Context, h *host, target string) (*pki.Store, error) {
	dir, id := filepath.Join(h.at.data, "identity"), pki.Identity{Role: pki.Agent, Name: h.at.node}
	ticket, noTicket := a.ticketFor(h.at.node, target)
	keeper, err := pki.OpenStore(dir, id, pki.StoreOptions{Logger: h.log, Replace: noTicket == nil})
	if err != nil {
		return nil, &advised{err, newToken(h.at.node) + "; it replaces what is here"}
	}
	good, lapsed := time.Now().Before(keeper.Expires()), keeper.Lapsed()
	if lapsed != nil {
		h.log.Warn("the certificate of this node is not good now, by the clock of this machine", "err", lapsed)
	}
	joinedWith := filepath.Join(dir, "joined-with")
	switch {
	case good && (noTicket != nil || sameTicket(joinedWith, ticket)):
		return keeper, nil // a token is not needed, and its file may be gone
	case noTicket != nil && lapsed != nil:
		return nil, &advised{lapsed, rightTime + newToken(h.at.node)}
	case noTicket != nil:
		return nil, noTicket
	case good:
		h.log.Info("the token is a new one: the identity that is here is replaced", "until", keeper.Expires())
	}
	if !ticket.again && a.openToken() {
		h.log.Warn("others may read the token with which this node joins, and be this node before it is", "file", a.flags.tokenFile, "mend", "chmod 600")
	}
	err = joining(ctx, h, keeper, ticket, target)
	switch {
	case ctx.Err() != nil: // it may not have come to that
	case err == nil:
		err = atomicfile.Write(joinedWith, []byte(ticket.id), atomicfile.Options{})
	case good:
		h.log.Warn("this token does not let the node join again; it goes on with the certificate that it has", "err", err)
		err = nil
	case errors.Is(err, mover.ErrPermission):
		err = &advised{err, ticket.advice}
	}
	return keeper, err
}

// rightTime is what to look at before a certificate is replaced.
const rightTime = "timedatectl, which shows whether the clock here is right; then "

// newToken is what lets a node join.
func newToken(node string) string {
	return "datamove agent token " + node + ", on the coordinator, and here --token-file"
}

// maxToken is more than a token has, also one of Kubernetes.
const maxToken = 16 << 10

// joinToken is the token as it was given; "" is none.
func (a *app) joinToken() (string, error) {
	switch {
	case a.flags.token != "" && a.flags.tokenFile != "":
		return "", mover.Misusef("--token and --token-file exclude each other")
	case a.flags.tokenFile == "":
		return a.flags.token, nil
	case a.flags.tokenFile == "-":
		text, err := io.ReadAll(io.LimitReader(os.Stdin, maxToken))
		return strings.TrimSpace(string(text)), err
	}
	f, err := os.Open(a.flags.tokenFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxToken))
	return strings.TrimSpace(string(text)), err
}

// openToken reports whether others may read the file of the token. What Kubernetes writes there is not for us to close.
func (a *app) openToken() bool {
	info, err := os.Stat(a.flags.tokenFile)
	return err == nil && info.Mode().IsRegular() && config.OthersMayRead(info, os.Geteuid())
}

// joinPause is between two tries to reach the coordinator.
const joinPause = 2 * time.Second

// joining gets the first certificate. A coordinator that is not there is waited for;
// one that is not the one of the token is an error.
func joining(ctx context.Context, h *host, keeper *pki.Store, ticket ticket, target string) error {
	for {
		err := join(ctx, h, keeper, ticket, target)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, mover.ErrTransient) {
			return err
		}
		h.log.Warn("the coordinator can not be reached, will try again", "coordinator", target, "err", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(joinPause):
		}
	}
}

// join asks once.
func join(ctx context.Context, h *host, keeper *pki.Store, ticket ticket, target string) error {
	err := keeper.Obtain(ctx, func(ctx context.Context, csr []byte) ([]byte, []byte, error) {
		text, err := ticket.text()
		if err != nil {
			return nil, nil, err
		}
		conn, err := api.Dial(ctx, "tcp://"+target, api.Options{TLS: pki.JoinTLS(ticket.pin, "")})
		if err != nil {
			return nil, nil, err
		}
		defer conn.Close()
		c, err := agentv1.NewEnrollServiceClient(conn.Conn()).Join(ctx, &agentv1.JoinRequest{Name: h.at.node, Token: text, Csr: csr})
		return c.GetCertificate(), c.GetAuthority(), err
	})
	if err == nil {
		h.log.Info("joined", "coordinator", target, "until", keeper.Expires())
	}
	return err
}
