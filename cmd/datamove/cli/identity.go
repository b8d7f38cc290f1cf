package cli

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/server/pki"
)

// maxIdentity bounds the file of a certificate: one of ours has a few thousand bytes.
const maxIdentity = 1 << 20

// Identity is how a service over TCP knows us, and we it: a file with a private
// key, its certificate, and those of the authority of the service, as package trust
// writes it.
func (a *App) Identity() (*tls.Config, error) {
	file := a.identityFile()
	own, authorities, err := readIdentity(file)
	var open *openToOthers
	switch {
	case errors.As(err, &open):
		err = &mover.Error{Op: "read your certificate", Location: file, Err: err}
		return nil, Advise(err, open.mend(file)+"; and where others may have read it, a new one: datamove service identity NAME, by the operator of the service")
	case errors.As(err, new(*pki.Lapsed)):
		err = &mover.Error{Op: "use your certificate", Location: file, Err: err}
		return nil, Advise(err, "timedatectl, which shows whether the clock here is right; then a new certificate: datamove service identity NAME, by the operator of the service")
	case err != nil:
		err = &mover.Error{Op: "read your certificate", Location: file, Err: err}
		return nil, Advise(err, "datamove service identity NAME on the machine of the service, by its operator; keep what it writes in that file, or where DATAMOVE_IDENTITY says")
	}
	return pki.ClientTLS(pki.ClientOptions{
		Authorities: func() *x509.CertPool { return authorities },
		Certificate: func() (*tls.Certificate, error) { return own, nil },
	}), nil
}

// identityFile stands beside the configuration of the user.
func (a *App) identityFile() string {
	if file := a.Env("DATAMOVE_IDENTITY"); file != "" {
		return file
	}
	beside := config.Candidates(func(key string) string {
		if key == "DATAMOVE_CONFIG" {
			return ""
		}
		return a.Env(key)
	})
	return filepath.Join(filepath.Dir(beside[0]), "identity.pem")
}

func readIdentity(file string) (*tls.Certificate, *x509.CertPool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = ownKey(info, os.Geteuid())
	}
	if err != nil {
		return nil, nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, maxIdentity))
	if err != nil {
		return nil, nil, err
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
	}
	for i, der := range pair.Certificate {
		cert, err := x509.ParseCertificate(der)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: %w", mover.ErrUsage, err)
		}
		of := "it"
		if i > 0 {
			of = "the authority in it"
		}
		if err := pki.Current(cert, of); err != nil && (i == 0 || len(pair.Certificate) == 2) { // of several authorities one may have ended
			return nil, nil, err
		}
	}
	pair.Certificate = pair.Certificate[:1] // the others are those that we trust
	return &pair, authoritiesIn(text), nil
}

// datesOf says from when until when the certificate of a file is good, beside the clock of this machine; "" is not known.
func datesOf(file string) string {
	own, _, err := readIdentity(file)
	if err != nil || own.Leaf == nil {
		return ""
	}
	stamp := func(t time.Time) string { return t.UTC().Format(time.RFC3339) }
	return fmt.Sprintf("%s is good from %s until %s, and the clock of this machine says %s", mover.Printable(file), stamp(own.Leaf.NotBefore), stamp(own.Leaf.NotAfter), stamp(time.Now()))
}

// openToOthers is the error of a private key that is not the reader's alone.
type openToOthers struct {
	why   string
	chmod bool // that mends it
}

func (e *openToOthers) Error() string { return fmt.Sprintf("%v: %s", mover.ErrPermission, e.why) }
func (e *openToOthers) Unwrap() error { return mover.ErrPermission }

func (e *openToOthers) mend(file string) string {
	if e.chmod {
		return "chmod 600 " + mover.Printable(file)
	}
	return "a file of your own"
}

// ownKey refuses a private key that others may read, as ssh does, or that is of an account that is neither root nor the reader's.
func ownKey(info fs.FileInfo, reader int) error {
	s, known := info.Sys().(*syscall.Stat_t)
	switch {
	case config.OthersMayRead(info, reader):
		return &openToOthers{fmt.Sprintf("others may read the private key in it (mode %04o)", info.Mode().Perm()), true}
	case known && reader != 0 && s.Uid != 0 && s.Uid != uint32(reader):
		return &openToOthers{fmt.Sprintf("it belongs to uid %d, which is neither root nor you", s.Uid), false}
	}
	return nil
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
