package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// verify returns the identity that a chain speaks for, now, for one use. A host that is not
// empty must be in the certificate.
func verify(chain []*x509.Certificate, roots *x509.CertPool, usage x509.ExtKeyUsage, host string) (Identity, error) {
	if len(chain) == 0 {
		return Identity{}, fmt.Errorf("%w: there is no certificate", mover.ErrPermission)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		DNSName:       host,
		Roots:         roots,
		Intermediates: poolOf(chain[1:]),
		CurrentTime:   time.Now(),
		KeyUsages:     []x509.ExtKeyUsage{usage},
	})
	if err != nil {
		return Identity{}, reason(chain[0], err)
	}
	return judge(chain[0], usage)
}

// judge returns the identity in a certificate that one of our authorities signed.
// The certificate must be for this use and for no other, and by a role that has this use.
func judge(cert *x509.Certificate, usage x509.ExtKeyUsage) (Identity, error) {
	id, err := identityOf(cert)
	if err != nil {
		return Identity{}, err
	}
	if cert.IsCA || len(cert.ExtKeyUsage) != 1 || cert.ExtKeyUsage[0] != usage || len(cert.UnknownExtKeyUsage) != 0 {
		return Identity{}, fmt.Errorf("%w: the certificate of %s is for another use", mover.ErrPermission, id)
	}
	if (id.Role == Service) != (usage == x509.ExtKeyUsageServerAuth) {
		return Identity{}, fmt.Errorf("%w: %s is on the wrong side of the connection", mover.ErrPermission, id)
	}
	return id, nil
}

// reason says in our words why a certificate is not good.
func reason(cert *x509.Certificate, err error) error {
	who := "the certificate of " + mover.Printable(cert.Subject.CommonName)
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if lapsed := Current(cert, who); lapsed != nil { // else it is the authority
			return lapsed
		}
	case errors.As(err, &x509.UnknownAuthorityError{}):
		return fmt.Errorf("%w: %s was signed by an authority that is not known here", mover.ErrPermission, who)
	case errors.As(err, &x509.HostnameError{}):
		return fmt.Errorf("%w: %s: %w", mover.ErrPermission, who, err)
	}
	return fmt.Errorf("%w: %s is not good: %w", mover.ErrPermission, who, err)
}

// Current is a [Lapsed] where a certificate is not good now; nil where it is. of is what it is, for people.
func Current(cert *x509.Certificate, of string) error {
	now := time.Now()
	if !now.Before(cert.NotBefore) && !now.After(cert.NotAfter) {
		return nil
	}
	return &Lapsed{of, cert.NotBefore, cert.NotAfter, now}
}

// Lapsed says that a certificate has ended or not begun, by the clock of this machine.
type Lapsed struct {
	of               string
	from, until, now time.Time
}

func (l *Lapsed) Error() string {
	if l.now.Before(l.from) {
		return fmt.Sprintf("%v: %s begins at %s and ends at %s, and the clock of this machine says %s", mover.ErrPermission, l.of, stamp(l.from), stamp(l.until), stamp(l.now))
	}
	return fmt.Sprintf("%v: %s ended at %s, was good from %s on, and the clock of this machine says %s", mover.ErrPermission, l.of, stamp(l.until), stamp(l.from), stamp(l.now))
}

func (l *Lapsed) Unwrap() error { return mover.ErrPermission }

// Advice is what to do when it is another machine's, which renews its own.
func (l *Lapsed) Advice() string {
	return "the right time on this machine and on the other one: timedatectl; a service whose authority has ended needs a new one, and its nodes and people new certificates"
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
