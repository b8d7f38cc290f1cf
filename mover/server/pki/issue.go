package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"time"

	"datamove.dev/mover"
)

const (
	// AgentLife is how long the certificate of an agent lasts, if nothing else is said.
	AgentLife = 24 * time.Hour

	maxLife = 366 * 24 * time.Hour
	skew    = 5 * time.Minute // by which clocks may differ
)

// newKey makes a key of the one kind that we use.
func newKey() (*ecdsa.PrivateKey, error) { return ecdsa.GenerateKey(elliptic.P256(), rand.Reader) }

// newSerial is 128 bits by chance.
func newSerial() *big.Int {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}

// due reports whether a third or less of a certificate's life is left, or whether
// it has not begun: then the clock was put back.
func due(cert *x509.Certificate) bool {
	now := time.Now()
	return !now.Before(renewAt(cert)) || now.Before(cert.NotBefore)
}

func renewAt(cert *x509.Certificate) time.Time {
	return cert.NotAfter.Add(-cert.NotAfter.Sub(cert.NotBefore) / 3)
}

// newRoot makes a key and a certificate that it signs itself.
func newRoot() (*ecdsa.PrivateKey, *x509.Certificate, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	now, serial := time.Now(), newSerial()
	template := &x509.Certificate{
		SerialNumber: serial,
		// Every authority has a name of its own: chains are found by names.
		Subject:               pkix.Name{Organization: []string{"datamove"}, CommonName: "datamove authority " + serial.Text(16)},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(authorityLife),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLen:            1, // the next authority, signed by this one
		KeyUsage:              x509.KeyUsageCertSign,
	}
	cert, err := sign(template, template, key.Public(), key)
	return key, cert, err
}

// crossSign returns the certificate of a new authority as signed by the old one.
func crossSign(cert, old *x509.Certificate, oldKey *ecdsa.PrivateKey) (*x509.Certificate, error) {
	template := *cert
	template.SerialNumber = newSerial()
	template.NotAfter = earlier(cert.NotAfter, old.NotAfter)
	template.MaxPathLen, template.MaxPathLenZero = 0, true
	return sign(&template, old, cert.PublicKey, oldKey)
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func sign(template, parent *x509.Certificate, public crypto.PublicKey, key *ecdsa.PrivateKey) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, public, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

// leaf is the template of a certificate for an identity.
func leaf(id Identity, life time.Duration, usage x509.ExtKeyUsage) *x509.Certificate {
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{Organization: []string{"datamove"}, CommonName: id.Name},
		NotBefore:             now.Add(-skew),
		NotAfter:              now.Add(life),
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{usage},
	}
	template.URIs = append(template.URIs, id.uri())
	return template
}

// sign makes a certificate that ends no later than the authority does.
// Beside it goes what leads from it to every authority that a client may know.
func (a *Authority) sign(template *x509.Certificate, public crypto.PublicKey) (cert *x509.Certificate, chain [][]byte, err error) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	template.NotAfter = earlier(template.NotAfter, a.cert.NotAfter)
	cert, err = sign(template, a.cert, public, a.key)
	return cert, a.chain(), err
}

// Issued is what a node or a person gets.
type Issued struct {
	Certificate []byte // DER
	Authority   []byte // DER after DER: everybody to trust
	Serial      string // as in Identity
	Expires     time.Time
}

// Issue signs a certificate for an agent or a user. Of the request it takes only
// the public key; it must be in the name of id. A life of 0 is [AgentLife].
func (a *Authority) Issue(request []byte, id Identity, life time.Duration) (Issued, error) {
	cert, err := a.issue(request, id, life)
	if err != nil {
		return Issued{}, &mover.Error{Op: "sign a certificate for", Location: id.String(), Err: err}
	}
	return Issued{Certificate: cert.Raw, Authority: a.bundle(), Serial: serialOf(cert), Expires: cert.NotAfter}, nil
}

func (a *Authority) issue(request []byte, id Identity, life time.Duration) (*x509.Certificate, error) {
	if err := id.check(); err != nil {
		return nil, err
	}
	if id.Role == Service {
		return nil, fmt.Errorf("%w: nobody gets a certificate of the service", mover.ErrPermission)
	}
	if life == 0 {
		life = AgentLife
	}
	if life < time.Minute || life > maxLife {
		return nil, fmt.Errorf("%w: a certificate lasts between a minute and %v, not %v", mover.ErrUsage, maxLife, life)
	}
	public, err := readRequest(request, id.Name)
	if err != nil {
		return nil, err
	}
	cert, _, err := a.sign(leaf(id, life, x509.ExtKeyUsageClientAuth), public)
	return cert, err
}

// maxRequest bounds a request; ours have 200 bytes and the name.
const maxRequest = 8 << 10

// readRequest returns the public key of a request that its owner signed, in the
// given name.
func readRequest(der []byte, name string) (crypto.PublicKey, error) {
	if len(der) > maxRequest {
		return nil, fmt.Errorf("%w: a request of %d bytes; at most %d", mover.ErrUsage, len(der), maxRequest)
	}
	request, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("%w: the request can not be read: %w", mover.ErrUsage, err)
	}
	switch key := request.PublicKey.(type) {
	case *ecdsa.PublicKey:
		if key.Curve != elliptic.P256() {
			return nil, fmt.Errorf("%w: a key on curve %s; P-256 or Ed25519 it must be", mover.ErrUsage, key.Params().Name)
		}
	case ed25519.PublicKey:
	default:
		return nil, fmt.Errorf("%w: a key of type %v; ECDSA on P-256 or Ed25519 it must be", mover.ErrUsage, request.PublicKeyAlgorithm)
	}
	if err := request.CheckSignature(); err != nil {
		return nil, fmt.Errorf("%w: the request is not signed by its key", mover.ErrPermission)
	}
	if request.Subject.CommonName != name {
		return nil, fmt.Errorf("%w: the request is in the name of %q", mover.ErrPermission, request.Subject.CommonName)
	}
	return request.PublicKey, nil
}

// newRequest makes a key and a request for a certificate in a name.
func newRequest(name string) (*ecdsa.PrivateKey, []byte, error) {
	key, err := newKey()
	if err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	return key, der, err
}

// accept reads what was issued for a key, and checks that it is what was asked for.
func accept(key *ecdsa.PrivateKey, id Identity, certificate, authority []byte) (*file, error) {
	cert, err := x509.ParseCertificate(certificate)
	if err != nil {
		return nil, fmt.Errorf("%w: the certificate can not be read: %w", mover.ErrCorrupt, err)
	}
	roots, err := x509.ParseCertificates(authority)
	if err != nil || len(roots) == 0 {
		return nil, fmt.Errorf("%w: the certificates of the authority can not be read", mover.ErrCorrupt)
	}
	if !key.PublicKey.Equal(cert.PublicKey) {
		return nil, fmt.Errorf("%w: the certificate is for another key", mover.ErrCorrupt)
	}
	got, err := verify([]*x509.Certificate{cert}, poolOf(roots), x509.ExtKeyUsageClientAuth, "")
	if err != nil {
		return nil, err
	}
	if !got.same(id) {
		return nil, fmt.Errorf("%w: the certificate is for %s", mover.ErrCorrupt, got)
	}
	return &file{key: key, cert: cert, other: roots}, nil
}

func poolOf(certs []*x509.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range certs {
		pool.AddCert(c)
	}
	return pool
}
