package nodeproxy

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"path/filepath"

	"google.golang.org/grpc/credentials"

	"datamove.dev/mover"
)

// The names that certificates are for.
const (
	ControllerName = "controller.csi.datamove.dev"
	NodeName       = "node.csi.datamove.dev"
)

// Keys is a directory with tls.crt, tls.key and ca.crt, as Kubernetes mounts a Secret of type kubernetes.io/tls.
type Keys string

// Check reports whether the directory has what is needed.
func (k Keys) Check() error {
	_, _, err := k.read()
	return err
}

func (k Keys) read() (tls.Certificate, *x509.CertPool, error) {
	dir := string(k)
	mine, err := tls.LoadX509KeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return mine, nil, fmt.Errorf("certificate of the relay: %w", err)
	}
	authority := filepath.Join(dir, "ca.crt")
	text, err := os.ReadFile(authority)
	if err != nil {
		return mine, nil, fmt.Errorf("authority of the relay: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return mine, nil, fmt.Errorf("%w: authority of the relay: %s has no certificate", mover.ErrUsage, mover.Printable(authority))
	}
	return mine, pool, nil
}

// Node is how the driver of a node is answered with: it hears the controller only.
func (k Keys) Node() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
		mine, pool, err := k.read()
		if err != nil {
			return nil, err
		}
		return &tls.Config{
			MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{mine}, NextProtos: []string{"h2"},
			ClientCAs: pool, ClientAuth: tls.RequireAndVerifyClientCert,
			VerifyConnection: func(s tls.ConnectionState) error { return s.PeerCertificates[0].VerifyHostname(ControllerName) },
		}, nil
	}})
}

// Controller is how the controller asks the driver of a node.
func (k Keys) Controller() (credentials.TransportCredentials, error) {
	mine, pool, err := k.read()
	if err != nil {
		return nil, err
	}
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{mine}, RootCAs: pool, ServerName: NodeName}), nil
}
