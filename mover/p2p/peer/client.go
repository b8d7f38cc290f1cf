package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"datamove.dev/mover"
	"datamove.dev/mover/p2p"
	"datamove.dev/mover/server/pki"
)

// Client asks agents for pieces of one tree.
type Client struct {
	// Dial connects to an address; nil uses the network. It is set before the first Get.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	authorities *x509.CertPool

	mu     sync.Mutex
	ticket string                  // guarded by mu
	calls  map[string]*http.Client // by agent, address and what is asked; guarded by mu
}

// NewClient returns a client that trusts agents with certificates of those authorities, in DER. Close ends its connections.
func NewClient(authorities [][]byte) (*Client, error) {
	pool := x509.NewCertPool()
	for _, der := range authorities {
		c, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, fmt.Errorf("%w: an authority: %w", mover.ErrUsage, err)
		}
		pool.AddCert(c)
	}
	return &Client{authorities: pool, calls: map[string]*http.Client{}}, nil
}

// Present has the client show a ticket from now on.
func (c *Client) Present(ticket string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ticket = ticket
}

const (
	dialTime = 10 * time.Second
	// silence is how long an agent may send nothing: it may have to read what it sends from a slow source before.
	silence    = 30 * time.Second
	connsMost  = p2p.AsksMost // to one agent, of each kind
	errorBytes = 1 << 10
)

// Get asks an agent for a piece: see p2p.Peers.
func (c *Client) Get(ctx context.Context, m p2p.Member, p *p2p.Piece, home bool, into []byte) error {
	body, err := proto.Marshal(Encode(p))
	if err != nil {
		return err
	}
	url := "https://" + m.Address + path
	if home {
		url += "?" + atHome
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	call, ticket := c.to(m, home)
	r.Header.Set("Authorization", scheme+ticket)
	answer, err := call.Do(r)
	if err != nil {
		return kinded(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refused(answer)
	}
	return kinded(ctx, read(answer.Body, into))
}

// refused is the error for an answer without a piece.
func refused(answer *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(answer.Body, errorBytes))
	kind := mover.ErrTransient
	switch answer.StatusCode {
	case http.StatusNotFound:
		return mover.ErrNotExist
	case http.StatusConflict:
		kind = mover.ErrHeld
	case http.StatusUnauthorized:
		kind = mover.ErrPermission
	case http.StatusBadRequest:
		kind = mover.ErrUsage
	}
	return fmt.Errorf("%w: %s: %s", kind, answer.Status, mover.Printable(strings.TrimSpace(string(text))))
}

func kinded(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case err == nil, mover.KindName(err) != "OTHER":
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w", mover.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
}

// to returns the connections to an agent, and the ticket of now. A question to a home may wait until that home has asked others. Those questions, which are
// answered at once, have connections of their own, or two members that ask each other would wait for ever.
func (c *Client) to(m p2p.Member, home bool) (*http.Client, string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := fmt.Sprint(m.Name, " ", m.Address, " ", home)
	call := c.calls[key]
	if call == nil {
		secure := pki.PeerClientTLS(c.authorities, m.Name)
		call = &http.Client{
			Transport: &http.Transport{
				DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
					return c.dial(ctx, network, address, secure)
				},
				MaxConnsPerHost: connsMost, MaxIdleConnsPerHost: connsMost, IdleConnTimeout: time.Minute, DisableCompression: true,
				ReadBufferSize: 64 << 10,
			},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}
		c.calls[key] = call
	}
	return call, c.ticket
}

func (c *Client) dial(ctx context.Context, network, address string, secure *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	connect := c.Dial
	if connect == nil {
		connect = new(net.Dialer).DialContext
	}
	raw, err := connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(&watched{raw, silence}, secure)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	return conn, nil
}

// watched is a connection on which each read and write has to get on.
type watched struct {
	net.Conn
	most time.Duration
}

func (w *watched) Read(p []byte) (int, error) {
	if err := w.SetReadDeadline(time.Now().Add(w.most)); err != nil {
		return 0, err
	}
	return w.Conn.Read(p)
}

func (w *watched) Write(p []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(w.most)); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// Close ends the idle connections.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, call := range c.calls {
		call.CloseIdleConnections()
	}
}
