package pki

import (
	"context"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T) *Authority {
	t.Helper()
	a := must.Get(OpenAuthority(filepath.Join(t.TempDir(), "authority")))(t)
	return a
}

func keeper(t *testing.T, id Identity) *Store {
	t.Helper()
	k := must.Get(OpenStore(filepath.Join(t.TempDir(), "identity"), id, StoreOptions{}))(t)
	return k
}

// issuer is the service's answer to whoever may renew.
func issuer(a *Authority, id Identity, life time.Duration) Renew {
	return func(_ context.Context, request []byte) ([]byte, []byte, error) {
		issued, err := a.Issue(request, id, life)
		return issued.Certificate, issued.Authority, err
	}
}

func server(t *testing.T, a *Authority, addresses ...string) *Server {
	t.Helper()
	s := must.Get(a.Server("head-01", addresses...))(t)
	return s
}

func serverOf(t *testing.T, a *Authority) *tls.Config {
	return ServerTLS(ServerOptions{Certificate: server(t, a).Certificate, Authorities: a.Authorities})
}

// met is how a connection went, on both sides.
type met struct {
	client, server error
	state          tls.ConnectionState // as the server sees it
	heard          string              // what the server got before it spoke
}

// meet connects the two, really: the client says a word, the server answers. Only
// then does a client know that its certificate was taken.
func meet(server, client *tls.Config) met {
	near, far := net.Pipe()
	var m met
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn := tls.Server(far, server)
		defer far.Close()
		if m.server = conn.Handshake(); m.server != nil {
			return
		}
		m.state = conn.ConnectionState()
		word := make([]byte, 5)
		n, err := io.ReadFull(conn, word)
		m.heard = string(word[:n])
		if m.server = err; err == nil {
			_, m.server = conn.Write(word)
		}
	}()
	conn := tls.Client(near, client)
	if m.client = conn.Handshake(); m.client == nil {
		m.client = talk(conn)
	}
	_ = near.Close()
	<-done
	return m
}

// talk reads beside its writing: over a pipe a server that refuses waits for both.
func talk(conn net.Conn) error {
	wrote := make(chan error, 1)
	go func() {
		_, err := io.WriteString(conn, "hello")
		wrote <- err
	}()
	_, err := io.ReadFull(conn, make([]byte, 5))
	if err != nil {
		_ = conn.Close()
	}
	return errors.Join(err, <-wrote)
}

// forged is a client certificate that says what change makes it say, signed by a.
func forged(t *testing.T, a *Authority, change func(*x509.Certificate)) *tls.Certificate {
	t.Helper()
	template := leaf(Identity{Role: Agent, Name: "gpu-07"}, AgentLife, x509.ExtKeyUsageClientAuth)
	change(template)
	key := must.Get(newKey())(t)
	cert := must.Get(sign(template, a.cert, key.Public(), a.key))(t)
	return pairOf(cert, key)
}

func pairOf(cert *x509.Certificate, key *ecdsa.PrivateKey) *tls.Certificate {
	return &tls.Certificate{Certificate: [][]byte{cert.Raw}, PrivateKey: key, Leaf: cert}
}

func showing(cert *tls.Certificate) func() (*tls.Certificate, error) {
	return func() (*tls.Certificate, error) { return cert, nil }
}

// twin is another authority that has taken the name of a.
func twin(t *testing.T, a *Authority) *Authority {
	t.Helper()
	other := open(t)
	template := *other.cert
	template.Subject, template.SerialNumber = a.cert.Subject, a.cert.SerialNumber
	cert := must.Get(sign(&template, &template, other.key.Public(), other.key))(t)
	other.cert = cert
	return other
}

// refused checks that neither side takes the connection for good.
func (m met) refused(t *testing.T, who string) {
	t.Helper()
	if m.client == nil || m.server == nil {
		t.Errorf("%s: client: %v, server: %v; want both to fail", who, m.client, m.server)
	}
	if m.heard != "" {
		t.Errorf("%s: the server heard %q", who, m.heard)
	}
}

func says(t *testing.T, err error, kind error, words ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("got %v, want kind %v", err, kind)
		return
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
}

func bubble(t *testing.T, f func(t *testing.T)) { t.Helper(); synctest.Test(t, f) }

func TestValidName(t *testing.T) {
	for _, name := range []string{"a", "gpu-node-07.site.example", "alice@EXAMPLE.ORG", "x_1", strings.Repeat("n", maxName)} {
		if !ValidName(name) {
			t.Errorf("%q is refused", name)
		}
	}
	for _, name := range []string{"", ".", "..", "-rf", "a/b", "a b", "a\n", "ä", "a%2fb", "a\x00", "@", "_", strings.Repeat("n", maxName+1)} {
		if ValidName(name) {
			t.Errorf("%q is taken", name)
		}
	}
}

func TestPeerNeedsAVerifiedChain(t *testing.T) {
	a := open(t)
	cert := forged(t, a, func(*x509.Certificate) {})
	_, err := Peer(tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert.Leaf}})
	says(t, err, mover.ErrPermission, "not verified")
	_, err = Peer(tls.ConnectionState{})
	says(t, err, ErrAnonymous)
}
