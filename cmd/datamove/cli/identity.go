package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/trust"
)

// maxIdentity bounds the file of a certificate: one of ours has a few thousand bytes.
const maxIdentity = 1 << 20

// identity is how a service over TCP knows us, and we it: a file with a private
// key, its certificate, and those of the authority of the service, as package trust
// writes it.
func (a *app) identity() (*tls.Config, error) {
	file := a.identityFile()
	own, authorities, err := readIdentity(file)
	if err != nil {
		err = &mover.Error{Op: "read your certificate", Place: file, Err: err}
		return nil, advise(err, "datamove service identity NAME on the machine of the service, by its operator; keep what it writes in that file, or where DATAMOVE_IDENTITY says")
	}
	return trust.ClientTLS(trust.ClientOptions{
		Authorities: func() *x509.CertPool { return authorities },
		Certificate: func() (*tls.Certificate, error) { return own, nil },
	}), nil
}

// identityFile stands beside the configuration of the person who runs us.
func (a *app) identityFile() string {
	if file := a.env("DATAMOVE_IDENTITY"); file != "" {
		return file
	}
	beside := config.Candidates(func(key string) string {
		if key == "DATAMOVE_CONFIG" {
			return ""
		}
		return a.env(key)
	})
	return filepath.Join(filepath.Dir(beside[0]), "identity.pem")
}

func readIdentity(file string) (*tls.Certificate, *x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIdentity))
	if err != nil {
		return nil, nil, err
	}
	own, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	own.Certificate = own.Certificate[:1] // the others are whom we trust
	return &own, authoritiesIn(text), nil
}

// authoritiesIn returns the certificates behind the first one.
func authoritiesIn(text []byte) *x509.CertPool {
	pool, first := x509.NewCertPool(), true
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			return pool
		}
		if block.Type != "CERTIFICATE" {
			continue
		}
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil && !first {
			pool.AddCert(cert)
		}
		first = false
	}
}
