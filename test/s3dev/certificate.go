package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/versity/versitygw/embedgw"
)

// makeCertificate writes a self-signed certificate for the loopback addresses, and for a
// domain and the names below it where there is one, and its key to a new folder, gives both
// to the server, and returns the path of the certificate, which is its own authority. The
// caller removes the folder.
func makeCertificate(config *embedgw.Config, domain string) (ca string, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(now.UnixNano()),
		Subject:               pkix.Name{CommonName: "s3dev"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.Add(30 * 24 * time.Hour),
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if domain != "" {
		template.DNSNames = append(template.DNSNames, domain, "*."+domain)
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "s3dev-")
	if err != nil {
		return "", err
	}
	config.CertFile, config.KeyFile = filepath.Join(dir, "ca.pem"), filepath.Join(dir, "key.pem")
	if err := writePEM(config.CertFile, "CERTIFICATE", cert); err != nil {
		return "", err
	}
	return config.CertFile, writePEM(config.KeyFile, "EC PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
