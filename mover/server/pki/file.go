package pki

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"os"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
)

// A file holds a private key, the certificate for it, and other certificates, all
// in PEM. Being one file, they can not come apart.
type file struct {
	key   *ecdsa.PrivateKey
	cert  *x509.Certificate
	other []*x509.Certificate
}

const (
	pemKey  = "PRIVATE KEY"
	pemCert = "CERTIFICATE"

	maxFile = 1 << 20 // bytes: a file of ours has a few thousand
)

func (f *file) encode() ([]byte, error) {
	key, err := x509.MarshalPKCS8PrivateKey(f.key)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_ = pem.Encode(&out, &pem.Block{Type: pemKey, Bytes: key}) // a Buffer takes everything
	for _, c := range append([]*x509.Certificate{f.cert}, f.other...) {
		_ = pem.Encode(&out, &pem.Block{Type: pemCert, Bytes: c.Raw})
	}
	return out.Bytes(), nil
}

// damaged is why a file is not what we wrote.
type damaged string

func (d damaged) Error() string { return "damaged: " + string(d) }

func (d damaged) Unwrap() error { return mover.ErrCorrupt }

func decode(text []byte) (*file, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != pemKey {
		return nil, damaged("it does not begin with a private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, damaged("the private key can not be read")
	}
	f := &file{}
	var ok bool
	if f.key, ok = key.(*ecdsa.PrivateKey); !ok {
		return nil, damaged(fmt.Sprintf("the private key is a %T", key))
	}
	if f.other, err = decodeCerts(rest); err != nil {
		return nil, err
	}
	f.cert, f.other = f.other[0], f.other[1:]
	if !f.key.PublicKey.Equal(f.cert.PublicKey) {
		return nil, damaged("the private key is not that of the certificate")
	}
	return f, nil
}

func decodeCerts(text []byte) (certs []*x509.Certificate, err error) {
	for len(bytes.TrimSpace(text)) > 0 {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil || block.Type != pemCert {
			return nil, damaged("there is something in it that is no certificate")
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, damaged("a certificate can not be read")
		}
		certs = append(certs, cert)
	}
	if len(certs) == 0 {
		return nil, damaged("there is no certificate in it")
	}
	return certs, nil
}

// readFile reads a file of ours. One that others can read holds a key that is no
// secret any more, so that is an error, too.
func readFile(path string) (*file, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, damaged("it is not a regular file")
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: others may read this private key (mode %04o); make a new one, or, if nobody has: chmod 600", mover.ErrPermission, info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	return decode(text)
}

// makeDir makes the directory of a file of ours. One that is there must not be
// writable for other accounts: they could replace our file.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err == nil && info.Mode().Perm()&0o022 != 0 {
		err = fmt.Errorf("%w: others may write here (mode %04o): chmod 700", mover.ErrPermission, info.Mode().Perm())
	}
	return err
}

// writeFile makes path hold f, wholly and durably. With replace false it fails with
// fs.ErrExist when path is there.
func writeFile(path string, f *file, replace bool) error {
	text, err := f.encode()
	if err != nil {
		return err
	}
	return atomicfile.Write(path, text, atomicfile.Options{Exclusive: !replace})
}
