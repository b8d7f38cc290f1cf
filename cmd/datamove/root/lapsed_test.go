package root

import (
	"bytes"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// span is from when until when a certificate is good, from now.
type span struct{ from, until time.Duration }

// issuer signs certificates of any dates.
type issuer struct {
	key  ed25519.PrivateKey
	cert *x509.Certificate
}

func certificate(t *testing.T, by *issuer, number byte, dates span, change func(*x509.Certificate)) issuer {
	t.Helper()
	key := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{number}, ed25519.SeedSize))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(int64(number)), BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature,
		NotBefore: time.Now().Add(dates.from), NotAfter: time.Now().Add(dates.until),
	}
	change(template)
	if by == nil {
		by = &issuer{key, template}
	}
	der := must.Get(x509.CreateCertificate(nil, template, by.cert, key.Public(), by.key))(t)
	return issuer{key, must.Get(x509.ParseCertificate(der))(t)}
}

// speaksFor makes a certificate that of an identity.
func speaksFor(role, name string, usage x509.ExtKeyUsage) func(*x509.Certificate) {
	return func(c *x509.Certificate) {
		c.Subject.CommonName, c.URIs, c.ExtKeyUsage = name, []*url.URL{{Scheme: "datamove", Host: role, Path: "/" + name}}, []x509.ExtKeyUsage{usage}
	}
}

// hearsOut reads what a refused client still sends, as the door of the service does: the alert is lost otherwise.
type hearsOut struct {
	credentials.TransportCredentials
	secure *tls.Config
}

func (h hearsOut) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn := tls.Server(raw, h.secure)
	err := conn.Handshake()
	if half, is := raw.(interface{ CloseWrite() error }); err != nil && is {
		_ = half.CloseWrite()
		_, _ = io.Copy(io.Discard, raw)
	}
	return conn, credentials.TLSInfo{State: conn.ConnectionState()}, err
}

// TestLapsedCertificates: certificates that have ended or not begun, and clocks that differ, end with 4, and with the file, its dates and the clock of this machine.
func TestLapsedCertificates(t *testing.T) {
	const day = 24 * time.Hour
	good, ended, early := span{-day, day}, span{-2 * day, -day}, span{day, 2 * day}
	for _, row := range []struct {
		name                      string
		authority, person, server span
		ahead                     time.Duration // the clock of the service
		says, try                 []string
	}{
		{name: "all are good", authority: good, person: good, server: good},
		{"the person's has ended", good, ended, good, 0, []string{"use your certificate FILE: permission denied: it ended at ", ", was good from "}, []string{"timedatectl", "datamove service identity NAME"}},
		{"the person's has not begun", good, early, good, 0, []string{"use your certificate FILE: permission denied: it begins at ", " and ends at "}, []string{"timedatectl"}},
		{"the authority's has ended", ended, good, good, 0, []string{"use your certificate FILE: permission denied: the authority in it ended at "}, []string{"timedatectl", "datamove service identity NAME"}},
		{"the service's has ended", good, good, ended, 0, []string{"reach tcp://", "the certificate of n1 ended at ", ", was good from "}, []string{"the right time on this machine and on the other one: timedatectl"}},
		{"the service's has not begun", good, good, early, 0, []string{"reach tcp://", "the certificate of n1 begins at "}, []string{"the right time on this machine and on the other one: timedatectl"}},
		{"the clock of the service is ahead", good, good, good, 3 * day, []string{"reach tcp://", "the certificate has ended, or is not yet good; FILE is good from "}, []string{"a new certificate", " in FILE, or the right time here and on the service: timedatectl"}},
		{"the clock of the service is behind", good, good, good, -3 * day, []string{"reach tcp://", "the certificate has ended, or is not yet good; FILE is good from "}, []string{"or the right time here and on the service: timedatectl"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			authority := certificate(t, nil, 1, row.authority, func(c *x509.Certificate) {
				c.IsCA, c.KeyUsage, c.Subject = true, x509.KeyUsageCertSign, pkix.Name{CommonName: "authority"}
			})
			person := certificate(t, &authority, 2, row.person, speaksFor("user", "alice", x509.ExtKeyUsageClientAuth))
			server := certificate(t, &authority, 3, row.server, speaksFor("service", "n1", x509.ExtKeyUsageServerAuth))
			pool := x509.NewCertPool()
			pool.AddCert(authority.cert)
			secure := pki.ServerTLS(pki.ServerOptions{
				Certificate: func() (*tls.Certificate, error) {
					return &tls.Certificate{Certificate: [][]byte{server.cert.Raw}, PrivateKey: server.key, Leaf: server.cert}, nil
				},
				Authorities: func() *x509.CertPool { return pool },
			})
			current := secure.GetConfigForClient
			secure.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
				c, err := current(h)
				c.Time = func() time.Time { return time.Now().Add(row.ahead) }
				return c, err
			}
			s := newFake(t)
			on := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			unix := s.kill
			s.serveOn(on, grpc.Creds(hearsOut{credentials.NewTLS(secure), secure}))
			tcp := s.kill
			s.kill = func() { unix(); tcp() }
			s.answers["GetInfo"] = &pb.Info{Version: "1.2"}

			var text bytes.Buffer
			must.Do(t, pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: must.Get(x509.MarshalPKCS8PrivateKey(person.key))(t)}))
			for _, c := range []*x509.Certificate{person.cert, authority.cert} {
				must.Do(t, pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
			}
			file := filepath.Join(t.TempDir(), "identity.pem")
			must.Do(t, os.WriteFile(file, text.Bytes(), 0o600))
			u := newSession(t, nil)
			u.env["DATAMOVE_SERVICE"], u.env["DATAMOVE_IDENTITY"] = "tcp://"+on.Addr().String(), file
			if row.says == nil {
				out, _ := u.wants(0, "service", "info")
				has(t, row.name, out, "datamoved 1.2")
				return
			}
			_, said := u.wants(cli.ExitPermission, "service", "info")
			for _, want := range append(append(row.says, row.try...), "the clock of this machine says ", "\ntry: ") {
				has(t, row.name, said, string(bytes.ReplaceAll([]byte(want), []byte("FILE"), []byte(file))))
			}
		})
	}
}
