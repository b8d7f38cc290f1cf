package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
)

const (
	authorityFile = "authority.pem"
	authorityLife = 10 * 365 * 24 * time.Hour
)

// Authority signs the certificates of one service. OpenAuthority makes one.
type Authority struct {
	path    string
	created bool

	mu    sync.RWMutex // guards all below
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate   // signed by itself
	cross *x509.Certificate   // the same key, signed by the one before; nil before the first rotation
	older []*x509.Certificate // signed by themselves, still trusted, newest first
}

// OpenAuthority loads the authority of a directory, and makes one where there is
// none. One that has used two thirds of its life is rotated.
func OpenAuthority(dir string) (*Authority, error) {
	a := &Authority{path: filepath.Join(dir, authorityFile)}
	if err := a.open(dir); err != nil {
		return nil, &mover.Error{Op: "open the authority", Location: a.path, Err: err}
	}
	return a, nil
}

func (a *Authority) open(dir string) error {
	if err := makeDir(dir); err != nil {
		return err
	}
	f, err := readFile(a.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = a.create(); !errors.Is(err, fs.ErrExist) {
			return err
		}
		f, err = readFile(a.path) // another process was faster: its file counts
	}
	if err == nil {
		err = a.take(f)
	}
	if errors.Is(err, mover.ErrCorrupt) {
		err = fmt.Errorf("%w; restore it from a backup, for every node trusts this one", err)
	}
	if err != nil {
		return err
	}
	if due(a.cert) {
		return a.rotate()
	}
	return nil
}

func (a *Authority) create() error {
	key, cert, err := newRoot()
	if err != nil {
		return err
	}
	if err := writeFile(a.path, &file{key: key, cert: cert}, false); err != nil {
		return err
	}
	a.key, a.cert, a.created = key, cert, true
	return nil
}

// take makes a the authority that a file holds.
func (a *Authority) take(f *file) error {
	if err := soundRoot(f.cert); err != nil {
		return err
	}
	if time.Now().After(f.cert.NotAfter) {
		return Current(f.cert, "the authority")
	}
	a.key, a.cert = f.key, f.cert
	for _, c := range f.other {
		if a.key.PublicKey.Equal(c.PublicKey) {
			a.cross = c
			continue
		}
		if err := soundRoot(c); err != nil {
			return err
		}
		a.older = append(a.older, c)
	}
	return nil
}

// soundRoot reports what keeps a certificate from being an authority's own.
func soundRoot(cert *x509.Certificate) error {
	if !cert.IsCA || cert.CheckSignatureFrom(cert) != nil {
		return damaged("a certificate of the authority does not sign itself")
	}
	return nil
}

// Created reports whether this call of OpenAuthority made the authority: nodes
// that joined before do not know it.
func (a *Authority) Created() bool { return a.created }

// Expires returns when the authority ends.
func (a *Authority) Expires() time.Time { return a.root().NotAfter }

// Pin is the SHA-256 of an authority's public key, as it stands in its certificate.
type Pin [sha256.Size]byte

// String is the pin as it is written, in base32 of lower case.
func (p Pin) String() string { return base32Lower.EncodeToString(p[:]) }

// ParsePin reads what String wrote; space around it is left out.
func ParsePin(text string) (p Pin, err error) {
	b, err := base32Lower.DecodeString(strings.TrimSpace(text))
	if err != nil || len(b) != len(p) {
		return Pin{}, fmt.Errorf("%w: a pin has %d letters and digits: copy it again, wholly", mover.ErrUsage, base32Lower.EncodedLen(len(p)))
	}
	return Pin(b), nil
}

func pinOf(cert *x509.Certificate) Pin { return sha256.Sum256(cert.RawSubjectPublicKeyInfo) }

// Pin returns what names this authority in a join token.
func (a *Authority) Pin() Pin { return pinOf(a.root()) }

// Authorities returns what is to be trusted: the authority, and those before it
// that have not ended.
func (a *Authority) Authorities() *x509.CertPool {
	pool := x509.NewCertPool()
	for _, c := range a.roots() {
		pool.AddCert(c)
	}
	return pool
}

// bundle is what is to be trusted as it goes to a node: DER after DER.
func (a *Authority) bundle() []byte {
	var all [][]byte
	for _, c := range a.roots() {
		all = append(all, c.Raw)
	}
	return bytes.Join(all, nil)
}

// root is the certificate that signs now.
func (a *Authority) root() *x509.Certificate {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.cert
}

func (a *Authority) roots() []*x509.Certificate {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return append([]*x509.Certificate{a.cert}, living(a.older)...)
}

func living(certs []*x509.Certificate) []*x509.Certificate {
	now := time.Now()
	return slices.DeleteFunc(slices.Clone(certs), func(c *x509.Certificate) bool { return now.After(c.NotAfter) })
}

// chain is what a server shows after its own certificate: what leads to every
// authority that a client may know. A client with only a pin needs those themselves, too.
// Call it with mu held.
func (a *Authority) chain() (all [][]byte) {
	if a.cross != nil {
		all = append(all, a.cross.Raw)
	}
	for _, c := range append([]*x509.Certificate{a.cert}, living(a.older)...) {
		all = append(all, c.Raw)
	}
	return all
}

// Rotate begins a new key. What the old one signed stays good until it ends, nodes
// learn the new one when they renew. A key that others may have is not mended by
// this: remove the directory, and let every node join again.
func (a *Authority) Rotate() error {
	if err := a.rotate(); err != nil {
		return &mover.Error{Op: "rotate the authority", Location: a.path, Err: err}
	}
	return nil
}

func (a *Authority) rotate() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	key, cert, err := newRoot()
	if err != nil {
		return err
	}
	cross, err := crossSign(cert, a.cert, a.key)
	if err != nil {
		return err
	}
	older := append([]*x509.Certificate{a.cert}, living(a.older)...)
	f := &file{key: key, cert: cert, other: append([]*x509.Certificate{cross}, older...)}
	if err := writeFile(a.path, f, true); err != nil {
		return err
	}
	a.key, a.cert, a.cross, a.older = key, cert, cross, older
	return nil
}
