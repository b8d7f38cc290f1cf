package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"datamove.dev/mover"
)

// ServerOptions are the certificate of a server, and the clients that it lets in.
type ServerOptions struct {
	Certificate func() (*tls.Certificate, error) // that it shows now, as of [Authority.Server]
	Authorities func() *x509.CertPool            // of clients' certificates, now
	// Admit is asked in each handshake about a client with a good certificate; an
	// error, as for one that is revoked, ends it. nil lets all of them in.
	Admit func(Identity) error
}

// ServerTLS returns the configuration of a server. A client may come without a
// certificate: [Peer] says so, and only a node that joins has business without one.
func ServerTLS(o ServerOptions) *tls.Config {
	config := &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"h2", "http/1.1"},
		ClientAuth:             tls.VerifyClientCertIfGiven,
		ClientCAs:              x509.NewCertPool(), // replaced in each handshake
		SessionTicketsDisabled: true,               // so that each connection is judged
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return o.Certificate() },
		VerifyConnection:       o.judge,
	}
	// The trusted authorities may change while the server runs.
	current := config.Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		c := current.Clone()
		c.ClientCAs = o.Authorities()
		return c, nil
	}
	return config
}

// judge decides on a client after its chain and time are verified.
func (o ServerOptions) judge(state tls.ConnectionState) error {
	if len(state.PeerCertificates) == 0 {
		return nil
	}
	if len(state.VerifiedChains) == 0 {
		return fmt.Errorf("%w: the client certificate was not verified", mover.ErrPermission)
	}
	id, err := judge(state.PeerCertificates[0], x509.ExtKeyUsageClientAuth)
	if err == nil && o.Admit != nil {
		err = o.Admit(id)
	}
	return err
}

// ClientOptions are the servers that a client calls, and the certificate that it shows.
type ClientOptions struct {
	// ServerName is a host name or address that the server's certificate must have.
	// "" is any: it must be of the service all the same, and the service is one.
	ServerName  string
	Authorities func() *x509.CertPool            // of the server's certificate, now
	Certificate func() (*tls.Certificate, error) // that the client shows now; nil shows none
}

// ClientTLS returns the configuration of a client of the service.
func ClientTLS(o ClientOptions) *tls.Config {
	return clientTLS(o, func([]*x509.Certificate) *x509.CertPool { return o.Authorities() })
}

// JoinTLS returns the configuration of a node that has but a token. It talks only to the
// service with an authority that has the pin of the token.
func JoinTLS(pin Pin, serverName string) *tls.Config {
	return clientTLS(ClientOptions{ServerName: serverName}, func(chain []*x509.Certificate) *x509.CertPool {
		pool := x509.NewCertPool()
		for _, c := range chain {
			if c.IsCA && pinOf(c) == pin {
				pool.AddCert(c)
			}
		}
		return pool
	})
}

// clientTLS verifies by itself, because the pool that counts is the one of the
// moment, and crypto/tls takes one for ever.
func clientTLS(o ClientOptions, roots func(chain []*x509.Certificate) *x509.CertPool) *tls.Config {
	config := &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"h2", "http/1.1"},
		ServerName:         o.ServerName,
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, below
		VerifyConnection: func(state tls.ConnectionState) error {
			chain := state.PeerCertificates
			if _, err := verify(chain, roots(chain), x509.ExtKeyUsageServerAuth, o.ServerName); err != nil {
				return fmt.Errorf("this is not the service that we know: %w", err)
			}
			return nil
		},
	}
	if o.Certificate != nil {
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return o.Certificate() }
	}
	return config
}

// PeerServerTLS returns the configuration of an agent that serves other nodes. It shows the certificate that it has
// as an agent. A request proves its right by what it carries, and not by a certificate.
func PeerServerTLS(certificate func() (*tls.Certificate, error)) *tls.Config {
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		NextProtos:             []string{"http/1.1"},
		SessionTicketsDisabled: true,
		GetCertificate:         func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
}

// PeerClientTLS returns the configuration of a client of the agent of that name.
func PeerClientTLS(authorities *x509.CertPool, name string) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		NextProtos:         []string{"http/1.1"},
		InsecureSkipVerify: true, //nolint:gosec // VerifyConnection does it, below
		VerifyConnection: func(state tls.ConnectionState) error {
			id, err := verify(state.PeerCertificates, authorities, x509.ExtKeyUsageClientAuth, "")
			if err == nil && (id.Role != Agent || id.Name != name) {
				err = fmt.Errorf("%w: it is %s", mover.ErrPermission, id)
			}
			if err != nil {
				return fmt.Errorf("this is not the agent of %s: %w", mover.Printable(name), err)
			}
			return nil
		},
	}
}
