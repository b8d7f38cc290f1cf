package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
	"time"

	"datamove.dev/mover"
)

// Role is what an identity is to the service.
type Role string

// The roles. Only clients are agents or users.
const (
	Service Role = "service"
	Agent   Role = "agent"
	User    Role = "user"
)

// Identity is the subject that a certificate speaks for.
type Identity struct {
	Role    Role
	Name    string    // see ValidName
	Serial  string    // of the certificate, in hex; empty in one that is asked for
	Expires time.Time // when the certificate ends; zero in one that is asked for
}

func (i Identity) String() string { return string(i.Role) + " " + mover.Printable(i.Name) }

// same reports whether two identities are one, whatever their certificates.
func (i Identity) same(other Identity) bool { return i.Role == other.Role && i.Name == other.Name }

// maxName bounds a name: that of a host has at most 253 bytes.
const maxName = 253

// ValidName reports whether a name can be one of a node or of a person: letters,
// digits and . _ - @, beginning with a letter or a digit. So no name needs an
// escape in a URI, in a token or in a log, and none is a path.
func ValidName(name string) bool {
	for i := range len(name) {
		c := name[i]
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
		if !plain && (i == 0 || !strings.ContainsRune("._-@", rune(c))) {
			return false
		}
	}
	return name != "" && len(name) <= maxName
}

// check says what is wrong with an identity that is asked for.
func (i Identity) check() error {
	if i.Role != Service && i.Role != Agent && i.Role != User {
		return fmt.Errorf("%w: %s is no role", mover.ErrUsage, mover.Printable(string(i.Role)))
	}
	if !ValidName(i.Name) {
		return fmt.Errorf("%w: %q is no name of a node or a person: letters, digits and . _ - @, at most %d", mover.ErrUsage, i.Name, maxName)
	}
	return nil
}

const scheme = "datamove"

// uri is the identity as it stands in a certificate.
func (i Identity) uri() *url.URL {
	return &url.URL{Scheme: scheme, Host: string(i.Role), Path: "/" + i.Name}
}

// identityOf reads the identity in a certificate. It has to be written in the one way
// in which we write it.
func identityOf(cert *x509.Certificate) (Identity, error) {
	if len(cert.URIs) != 1 {
		return Identity{}, fmt.Errorf("%w: the certificate has %d identities, not one", mover.ErrPermission, len(cert.URIs))
	}
	u := cert.URIs[0]
	id := Identity{Role: Role(u.Host), Name: strings.TrimPrefix(u.Path, "/"), Serial: serialOf(cert), Expires: cert.NotAfter}
	if id.check() != nil || u.String() != id.uri().String() {
		return Identity{}, fmt.Errorf("%w: the certificate speaks for %s, which is nobody here", mover.ErrPermission, mover.Printable(u.String()))
	}
	return id, nil
}

func serialOf(cert *x509.Certificate) string { return cert.SerialNumber.Text(16) }

// ErrAnonymous is what Peer says of a connection without a client certificate.
var ErrAnonymous = fmt.Errorf("%w: no client certificate", mover.ErrPermission)

// Peer returns the identity on the other side of a connection to a server made with
// [ServerTLS].
func Peer(state tls.ConnectionState) (Identity, error) {
	if len(state.PeerCertificates) == 0 {
		return Identity{}, ErrAnonymous
	}
	if len(state.VerifiedChains) == 0 {
		return Identity{}, fmt.Errorf("%w: the client certificate was not verified", mover.ErrPermission)
	}
	return identityOf(state.PeerCertificates[0])
}
