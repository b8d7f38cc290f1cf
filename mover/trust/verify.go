package trust

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// verify returns who a chain speaks for, now, for one use. A host that is not
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

// judge returns who a certificate speaks for that one of our authorities signed:
// it must be for this use and for no other, and by a role that has this use.
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
		now := time.Now()
		if now.Before(cert.NotBefore) {
			return fmt.Errorf("%w: %s is good from %s on, and it is %s: compare the clocks", mover.ErrPermission, who, stamp(cert.NotBefore), stamp(now))
		}
		return fmt.Errorf("%w: %s ended at %s", mover.ErrPermission, who, stamp(cert.NotAfter))
	case errors.As(err, &x509.UnknownAuthorityError{}):
		return fmt.Errorf("%w: %s was signed by an authority that is not known here", mover.ErrPermission, who)
	case errors.As(err, &x509.HostnameError{}):
		return fmt.Errorf("%w: %s: %w", mover.ErrPermission, who, err)
	}
	return fmt.Errorf("%w: %s is not good: %w", mover.ErrPermission, who, err)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }
