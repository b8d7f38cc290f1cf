package multinode

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"time"

	"datamove.dev/mover"
)

// Secret is known to the nodes of a run only.
type Secret []byte

// leastSecret is how many bytes a secret has: an attacker that records a handshake can try shorter ones.
const leastSecret = 16

// NewSecret makes one that can not be guessed.
func NewSecret() Secret {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // it does not fail
	return Secret(hex.EncodeToString(b))
}

// ReadSecret takes one from a text.
func ReadSecret(text []byte) (Secret, error) {
	s := bytes.TrimSpace(text)
	if len(s) < leastSecret {
		return nil, fmt.Errorf("%w: a secret of %d bytes; want %d or more, like those of: openssl rand -hex 32", mover.ErrUsage, len(s), leastSecret)
	}
	return s, nil
}

// String does not tell it.
func (s Secret) String() string { return "[secret]" }

// partyName is in the certificate that all nodes with the secret have.
const partyName = "datamove-bench"

// tls is how nodes with the secret speak: both have the same certificate, of the key that is made of it, and trust no other one.
func (s Secret) tls() (*tls.Config, error) {
	seed, err := hkdf.Key(sha256.New, s, nil, "datamove-bench party v1", ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	key := ed25519.NewKeyFromSeed(seed)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{partyName}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(nil, about, about, key.Public(), key) // Ed25519 needs no chance
	if err != nil {
		return nil, err
	}
	own, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(own)
	return &tls.Config{
		MinVersion:             tls.VersionTLS13,
		Certificates:           []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key, Leaf: own}},
		ServerName:             partyName,
		RootCAs:                trusted,
		ClientAuth:             tls.RequireAndVerifyClientCert,
		ClientCAs:              trusted,
		SessionTicketsDisabled: true,
	}, nil
}

// stranger says that the other side has another secret.
func stranger(err error) bool {
	var other *tls.CertificateVerificationError
	return errors.As(err, &other)
}
