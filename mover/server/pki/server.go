package pki

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
)

// serverLife is short, because a new one costs half a millisecond.
const serverLife = 7 * 24 * time.Hour

// Server is the service's own certificate. It lives in memory: each process makes
// its own.
type Server struct {
	authority *Authority
	id        Identity
	names     []string
	addresses []net.IP

	mu   sync.Mutex // guards all below
	root *x509.Certificate
	cert *tls.Certificate
}

// Server returns the certificate of a server on a node that is reached under the
// given names and IP addresses, and under the node's own name.
func (a *Authority) Server(node string, addresses ...string) (*Server, error) {
	s := &Server{authority: a, id: Identity{Role: Service, Name: node}}
	if err := s.id.check(); err != nil {
		return nil, err
	}
	for _, addr := range append([]string{node}, addresses...) {
		if ip := net.ParseIP(strings.Trim(addr, "[]")); ip != nil {
			s.addresses = append(s.addresses, ip)
		} else if ValidName(addr) {
			s.names = append(s.names, addr)
		} else {
			return nil, fmt.Errorf("%w: %q is no name and no address of a host", mover.ErrUsage, addr)
		}
	}
	_, err := s.Certificate()
	return s, err
}

// Certificate returns the certificate to show, a new one if the last is due or the
// authority was rotated.
func (s *Server) Certificate() (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	root := s.authority.root()
	if s.cert != nil && s.root == root && !due(s.cert.Leaf) {
		return s.cert, nil
	}
	cert, err := s.issue()
	if err != nil {
		return nil, &mover.Error{Op: "sign a certificate for", Location: s.id.String(), Err: err}
	}
	s.root, s.cert = root, cert
	return cert, nil
}

func (s *Server) issue() (*tls.Certificate, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	template := leaf(s.id, serverLife, x509.ExtKeyUsageServerAuth)
	template.DNSNames, template.IPAddresses = s.names, s.addresses
	cert, chain, err := s.authority.sign(template, key.Public())
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: append([][]byte{cert.Raw}, chain...), PrivateKey: key, Leaf: cert}, nil
}
