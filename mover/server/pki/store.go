package pki

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"time"

	"datamove.dev/mover"
)

const (
	identityFile = "identity.pem"

	// A Store looks at the clock this often: timers do not see that it was set.
	lookEvery = 10 * time.Minute

	firstPause = time.Second // after a renewal that failed
	maxPause   = 10 * time.Minute
)

// Renew gets a certificate for a request: from the service, or from the authority
// itself. It returns the certificate in DER and the authorities to trust, DER after DER.
type Renew func(ctx context.Context, request []byte) (certificate, authority []byte, err error)

// StoreOptions are what a Store may have. The zero value works.
type StoreOptions struct {
	Logger *slog.Logger // nil means no log
	// Replace lets a file pass that is of another identity, or damaged, or was open to
	// others: it is as nothing, until Obtain replaces it.
	Replace bool
}

// Store has the certificate of one node or one person, in a directory. A file
// that another process renews there is taken up.
type Store struct {
	path string
	id   Identity
	log  *slog.Logger

	mu   sync.Mutex // guards all below
	info fs.FileInfo
	file *file // nil before the first certificate
}

// OpenStore opens the directory of a node or a person. It may be empty: then
// Obtain is called first. A file of another identity there is an error, unless
// it is to be replaced.
func OpenStore(dir string, id Identity, o StoreOptions) (*Store, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Store{path: filepath.Join(dir, identityFile), id: id, log: o.Logger}
	err := errors.Join(id.check(), makeDir(dir))
	if err == nil {
		k.mu.Lock()
		defer k.mu.Unlock()
		if err = k.load(); err != nil && o.Replace && !errors.Is(err, fs.ErrNotExist) {
			k.log.Warn("the identity that is here is of no use, and will be replaced", "file", k.path, "err", err)
			err = nil
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, k.fail("open the certificate", err)
	}
	return k, nil
}

func (k *Store) fail(op string, err error) error {
	return &mover.Error{Op: op, Location: k.path, Err: err}
}

// load reads the file if it is not the one that was read. Call it with mu held.
func (k *Store) load() error {
	info, err := os.Stat(k.path)
	if err != nil {
		return err
	}
	if k.info != nil && os.SameFile(info, k.info) && info.ModTime().Equal(k.info.ModTime()) {
		return nil
	}
	f, err := readFile(k.path)
	if err != nil {
		return err
	}
	id, err := identityOf(f.cert)
	if err == nil && !id.same(k.id) {
		err = fmt.Errorf("%w: the certificate is of %s, not of %s", mover.ErrConflict, id, k.id)
	}
	if err == nil && len(f.other) == 0 {
		err = damaged("there is no authority in it")
	}
	if err != nil {
		return err
	}
	k.info, k.file = info, f
	return nil
}

// current returns the newest file; one that can not be read does not replace one
// that was.
func (k *Store) current() (*file, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.load()
	if k.file == nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %s has not joined: %s", mover.ErrNotExist, k.id, howToJoin)
		}
		return nil, k.fail("read the certificate", err)
	}
	return k.file, nil
}

const howToJoin = "make a join token on the coordinator, and join with it"

// Certificate returns what to show as a client. One that has ended is an error.
func (k *Store) Certificate() (*tls.Certificate, error) {
	f, err := k.current()
	if err != nil {
		return nil, err
	}
	if err := k.ended(f); err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{f.cert.Raw}, PrivateKey: f.key, Leaf: f.cert}, nil
}

// ended says that a certificate is over, and what to do.
func (k *Store) ended(f *file) error {
	if !time.Now().After(f.cert.NotAfter) {
		return nil
	}
	return k.fail("use the certificate", fmt.Errorf("%w; only one that is good can be renewed: %s", Current(f.cert, "the certificate of "+k.id.String()), howToJoin))
}

// Authorities returns the authorities to trust; none before the first certificate.
func (k *Store) Authorities() *x509.CertPool {
	f, err := k.current()
	if err != nil {
		return x509.NewCertPool()
	}
	return poolOf(f.other)
}

// AuthorityCertificates returns the authorities to trust, in DER, for a process that has no directory of ours.
func (k *Store) AuthorityCertificates() (der [][]byte) {
	f, err := k.current()
	if err != nil {
		return nil
	}
	for _, c := range f.other {
		der = append(der, c.Raw)
	}
	return der
}

// Lapsed says why the certificate is not good now, with its file and its dates; nil where it is good, or where there is none.
func (k *Store) Lapsed() error {
	f, err := k.current()
	if err != nil {
		return nil
	}
	if err = Current(f.cert, "the certificate of "+k.id.String()); err != nil {
		return k.fail("use the certificate", err)
	}
	return nil
}

// Expires returns when the certificate ends; zero before the first.
func (k *Store) Expires() time.Time {
	f, err := k.current()
	if err != nil {
		return time.Time{}
	}
	return f.cert.NotAfter
}

// Obtain makes a key, asks for a certificate and keeps both: at a join, and at
// each renewal. What comes back is checked first, and durable when it returns.
func (k *Store) Obtain(ctx context.Context, renew Renew) error {
	key, request, err := newRequest(k.id.Name)
	if err != nil {
		return k.fail("obtain the certificate", err)
	}
	certificate, authority, err := renew(ctx, request)
	if err != nil {
		return k.fail("obtain the certificate", err)
	}
	f, err := accept(key, k.id, certificate, authority)
	if err == nil {
		err = writeFile(k.path, f, true)
	}
	if err != nil {
		return k.fail("obtain the certificate", err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.load()
}

// Run renews the certificate when a third of its life is left, until ctx ends; then
// it returns nil. When a renewal fails it tries again, ever more rarely; it returns
// an error when the certificate has ended meanwhile.
func (k *Store) Run(ctx context.Context, renew Renew) error {
	for failures := 0; ; {
		f, err := k.current()
		if err == nil {
			err = k.ended(f)
		}
		if err != nil {
			return err
		}
		wait := min(time.Until(renewAt(f.cert)), lookEvery)
		if due(f.cert) {
			failures++
			if err = k.Obtain(ctx, renew); err == nil {
				failures = 0
			}
			wait = pause(failures, time.Until(f.cert.NotAfter))
			k.tell(ctx, err, wait)
		}
		if !sleep(ctx, wait) {
			return nil
		}
	}
}

// pause is how long to wait after so many failures in a row, with so much of the
// certificate left. After a success it is a minute, too: a certificate that is due at
// once, for the clocks differ by hours, must not be renewed without end.
func pause(failures int, left time.Duration) time.Duration {
	if failures == 0 {
		return time.Minute
	}
	d := max(firstPause, min(firstPause<<min(failures-1, 16), maxPause, left/4))
	return d + rand.N(d/4) // after an absence of the coordinator, its agents do not come all at once
}

func (k *Store) tell(ctx context.Context, err error, wait time.Duration) {
	log := k.log.With("identity", k.id.String(), "until", k.Expires())
	switch {
	case ctx.Err() != nil: // we are stopped
	case err != nil:
		log.WarnContext(ctx, "certificate not renewed, will retry", "err", err, "in", wait)
	default:
		log.InfoContext(ctx, "certificate renewed")
	}
}

// sleep reports whether the time passed before ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
