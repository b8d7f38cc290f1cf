// Package relaytest makes the certificates of a relay, for tests. It stands for cert-manager alone: keys, TLS, gRPC and the drivers
// are real, and so nothing is more lenient than in a cluster.
package relaytest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/credentials"

	"datamove.dev/csi/nodeproxy"
	"datamove.dev/test/must"
)

// Authority signs.
type Authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
}

// NewAuthority makes one.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	a := &Authority{key: newKey(t)}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "relay"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	a.der = sign(t, template, template, a.key, a.key)
	var err error
	if a.cert, err = x509.ParseCertificate(a.der); err != nil {
		t.Fatal(err)
	}
	return a
}

// Keys makes a directory with a certificate for a name.
func (a *Authority) Keys(t testing.TB, name string) nodeproxy.Keys {
	t.Helper()
	k := nodeproxy.Keys(t.TempDir())
	a.Write(t, k, name)
	return k
}

// Write puts a new certificate into a directory.
func (a *Authority) Write(t testing.TB, k nodeproxy.Keys, name string) {
	t.Helper()
	key := newKey(t)
	der := sign(t, &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}, a.cert, key, a.key)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	for file, block := range map[string]pem.Block{"tls.crt": {Type: "CERTIFICATE", Bytes: der}, "tls.key": {Type: "PRIVATE KEY", Bytes: private}, "ca.crt": {Type: "CERTIFICATE", Bytes: a.der}} {
		must.Do(t, os.WriteFile(filepath.Join(string(k), file), pem.EncodeToMemory(&block), 0o600))
	}
}

// Nobody returns credentials of a peer without a certificate, which accepts any server.
func Nobody() credentials.TransportCredentials {
	return credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}) //nolint:gosec // an attacker does not look
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, of, by *ecdsa.PrivateKey) []byte {
	t.Helper()
	template.NotBefore = time.Now().Add(-time.Hour)
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, &of.PublicKey, by))(t)
	return der
}
