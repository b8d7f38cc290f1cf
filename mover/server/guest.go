package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"google.golang.org/grpc/credentials"

	"datamove.dev/mover"
)

// guest is a connection that was let in.
type guest struct {
	net.Conn
	origin *peerIdentity
	first  []byte // was read to see what it speaks, and is to be read again
	leave  func() // the limit of connections; nil for one of our own
	ending *time.Timer
	unread unread
}

// Read implements net.Conn.
func (g *guest) Read(p []byte) (int, error) {
	if len(g.first) > 0 {
		n := copy(p, g.first)
		g.first = g.first[n:]
		return n, nil
	}
	return g.Conn.Read(p)
}

// Close implements net.Conn.
func (g *guest) Close() error {
	if g.ending != nil {
		g.ending.Stop()
	}
	err := g.Conn.Close()
	g.unread.close()
	if g.leave != nil {
		g.leave()
	}
	return err
}

// stay ends the connection when its time is over.
func (g *guest) stay() {
	if !g.origin.until.IsZero() {
		conn := g.Conn
		g.ending = time.AfterFunc(time.Until(g.origin.until), func() { _ = conn.Close() })
	}
}

// preface is how HTTP/2 begins, and no request of HTTP/1 does.
const preface = "PRI"

// speaksHTTP2 looks at the first bytes.
func (g *guest) speaksHTTP2() (bool, error) {
	first := make([]byte, len(preface))
	if _, err := io.ReadFull(g.Conn, first); err != nil {
		return false, err
	}
	g.first = first
	return string(first) == preface, nil
}

// handshakes are the credentials of a gRPC server behind a Server: the peer has been
// identified already.
type handshakes struct{}

var errNoGuest = errors.New("the server has not accepted this connection")

// ServerHandshake implements credentials.TransportCredentials.
func (handshakes) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	g, is := conn.(*guest)
	if !is {
		return nil, nil, errNoGuest
	}
	o := *g.origin
	o.unread = &g.unread
	return g, &o, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (handshakes) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, mover.ErrUnsupported
}

// Info implements credentials.TransportCredentials.
func (handshakes) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "datamove"}
}

// Clone implements credentials.TransportCredentials.
func (h handshakes) Clone() credentials.TransportCredentials { return h }

// OverrideServerName implements credentials.TransportCredentials.
func (handshakes) OverrideServerName(string) error { return mover.ErrUnsupported }

// refused reports whether a handshake failed because of the certificate of the client,
// and not because the client broke off or speaks something else.
func refused(err error) bool {
	var bad *tls.CertificateVerificationError
	return errors.As(err, &bad) || errors.Is(err, mover.ErrPermission)
}
