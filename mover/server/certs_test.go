package server

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"datamove.dev/mover/server/pki"
	"datamove.dev/test/must"
)

// foreign has a certificate of an authority like ours that is another one.
func (r *rig) foreign(name string) *tls.Config {
	r.t.Helper()
	other := must.Get(pki.OpenAuthority(filepath.Join(r.t.TempDir(), "other")))(r.t)
	return r.tlsAs(certificate(r.t, other, pki.Identity{Role: pki.Agent, Name: name}))
}

// expired has a certificate that our own key signed, and that ended an hour ago.
func (r *rig) expired(name string) *tls.Config {
	return r.signed(&x509.Certificate{NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: time.Now().Add(-time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "agent", name, true)
}

// selfSigned says that it is an agent, and that is all.
func (r *rig) selfSigned(name string) *tls.Config {
	return r.signed(&x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, "agent", name, false)
}

// asService has a certificate of ours that is good for servers only.
func (r *rig) asService() *tls.Config {
	return r.signed(&x509.Certificate{NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}, "service", "node-0", true)
}

// signed makes a certificate past all rules of package trust.
func (r *rig) signed(template *x509.Certificate, role, name string, byUs bool) *tls.Config {
	r.t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(r.t)
	template.SerialNumber, template.Subject = big.NewInt(7), pkix.Name{CommonName: name}
	template.KeyUsage, template.BasicConstraintsValid = x509.KeyUsageDigitalSignature, true
	template.URIs = []*url.URL{{Scheme: "datamove", Host: role, Path: "/" + name}}
	parent, signer := template, key
	if byUs {
		parent, signer = r.ourKey()
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer))(r.t)
	config := r.tlsAs(nil)
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
	}
	return config
}

// ourKey reads the key of our authority, which nobody else can.
func (r *rig) ourKey() (*x509.Certificate, *ecdsa.PrivateKey) {
	r.t.Helper()
	text := must.Get(os.ReadFile(r.authorityFile))(r.t)
	block, rest := pem.Decode(text)
	key := must.Get(x509.ParsePKCS8PrivateKey(block.Bytes))(r.t)
	block, _ = pem.Decode(rest)
	cert := must.Get(x509.ParseCertificate(block.Bytes))(r.t)
	return cert, key.(*ecdsa.PrivateKey)
}
