package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7/pkg/encrypt"
	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
)

// How a store encrypts what it keeps; see "Protecting data with server-side
// encryption" in the Amazon S3 user guide. The words are those of the header.
const (
	EncryptKMS     = "aws:kms"      // SSE-KMS: by a key of a key management service
	EncryptKMSDual = "aws:kms:dsse" // DSSE-KMS: twice
	EncryptStore   = "AES256"       // SSE-S3: by a key of the store's own
)

// Encryptions are the values of Options.Encryption that ask for something.
var Encryptions = []string{EncryptKMS, EncryptKMSDual, EncryptStore}

const (
	headerEncryption = "X-Amz-Server-Side-Encryption"
	headerKMSKey     = "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
	headerBucketKey  = "X-Amz-Server-Side-Encryption-Bucket-Key-Enabled"
)

// kmsKeyBytes bounds the name of a key: that of an ARN in the API of KMS.
const kmsKeyBytes = 2048

// encryption is how an object is encrypted where it lies: as we ask for it, or as the
// store says. Its zero value is none.
type encryption struct{ algorithm, key string }

// encryptionOf reads what the store says in the header of an answer.
func encryptionOf(h http.Header) encryption {
	return encryption{h.Get(headerEncryption), h.Get(headerKMSKey)}
}

// checkEncryption refuses what no store could be asked for.
func (o *Options) checkEncryption() error {
	switch {
	case o.Encryption != "" && !slices.Contains(Encryptions, o.Encryption):
		return fmt.Errorf("encryption %q is none of %s: %w", o.Encryption, strings.Join(Encryptions, ", "), mover.ErrUsage)
	case o.KMSKey != "" && o.Encryption != EncryptKMS && o.Encryption != EncryptKMSDual:
		return fmt.Errorf("there is a KMS key, and encryption is %q; a key is for %s and %s: %w", o.Encryption, EncryptKMS, EncryptKMSDual, mover.ErrUsage)
	case !ValidKMSKey(o.KMSKey):
		return fmt.Errorf("KMS key %q is no ARN, id or alias/NAME: %w", o.KMSKey, mover.ErrUsage)
	}
	return nil
}

// ValidKMSKey reports whether s can name a key in a header; "" is the store's usual one.
func ValidKMSKey(s string) bool {
	return len(s) <= kmsKeyBytes && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (e encryption) String() string {
	switch {
	case e.algorithm == "":
		return "no encryption"
	case e.key == "":
		return mover.Printable(e.algorithm)
	}
	return mover.Printable(e.algorithm) + " with key " + mover.Printable(e.key)
}

// Marshal implements encrypt.ServerSide of minio-go, which itself has no DSSE-KMS and no
// bucket key.
func (e encryption) Marshal(h http.Header) {
	if e.algorithm == "" {
		return
	}
	h.Set(headerEncryption, e.algorithm)
	if e.key != "" {
		h.Set(headerKMSKey, e.key)
	}
	if e.bucketKey() {
		h.Set(headerBucketKey, "true")
	}
}

// Type implements encrypt.ServerSide.
func (e encryption) Type() encrypt.Type {
	if e.algorithm == EncryptStore {
		return encrypt.S3
	}
	return encrypt.KMS
}

// bucketKey reports whether a key that S3 keeps for the bucket for a time may be used: a call to KMS, and
// its price, is then not for each object. DSSE-KMS has none.
func (e encryption) bucketKey() bool { return e.algorithm == EncryptKMS }

// arn is the name of a key in AWS: "arn:PARTITION:kms:REGION:ACCOUNT:key/ID" or
// ":alias/NAME". MinIO says "arn:aws:kms:NAME".
type arn struct{ partition, region, account, resource string }

func parseARN(s string) (a arn, ok bool) {
	f := strings.SplitN(s, ":", 6)
	if len(f) < 4 || f[0] != "arn" || f[2] != "kms" {
		return a, false
	}
	if len(f) < 6 {
		return arn{partition: f[1], resource: strings.Join(f[3:], ":")}, true
	}
	return arn{f[1], f[3], f[4], f[5]}, true
}

// answers reports whether what a store says is what it was asked for, as far as one can
// tell from names. A key that is asked for by its id is said by its ARN; one that is
// asked for by an alias is said by the key that it stands for, of which only the
// region and the account can be compared. region is that of the bucket: a key is in it.
func (e encryption) answers(said encryption, region string) bool {
	switch {
	case said.algorithm != e.algorithm:
		return false
	case e.algorithm == EncryptStore:
		return true
	case said.key == "":
		return false // it does not say by which
	case e.key == "" || said.key == e.key:
		return true
	}
	of, ok := parseARN(said.key)
	if !ok {
		return false
	}
	asked, full := parseARN(e.key)
	alias := strings.HasPrefix(cmp.Or(asked.resource, e.key), "alias/")
	switch {
	case full && alias:
		return asked.partition == of.partition && asked.region == of.region && asked.account == of.account
	case full:
		return false
	case alias:
		return of.region == region && of.account != ""
	}
	return of.resource == e.key || of.resource == "key/"+e.key
}

// encrypted is a store that is asked to encrypt what it keeps, and believed only when
// its answer says so. What it keeps otherwise is removed. The key that its
// first answer names is the one that all later ones have to name: that is all
// that can be known of an alias.
type encrypted struct {
	store
	asked   encryption
	bucket  string
	where   string        // the region of the bucket
	removal time.Duration // how long a removal may take
	probe   func() string // a key of our own for a throw-away object

	proving *semaphore.Weighted // 1: guards proven
	proven  bool                // the store encrypts uploads, although it does not say so when they begin

	mu   sync.Mutex // guards said
	said encryption // by the first good answer
}

// hold compares an answer with what was asked for and with those before it.
func (s *encrypted) hold(said encryption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.asked.answers(said, s.where):
		return fmt.Errorf("%w: asked to encrypt by %v, the store says %v", mover.ErrRefused, s.asked, said)
	case s.said.algorithm != "" && s.said != said && s.asked.algorithm != EncryptStore:
		return fmt.Errorf("%w: asked to encrypt by %v, the store said %v at first, and now %v", mover.ErrRefused, s.asked, s.said, said)
	}
	s.said = said
	return nil
}

// first is what the store said; the zero value before it has said anything.
func (s *encrypted) first() encryption {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

func (s *encrypted) put(ctx context.Context, w put) (stored, error) {
	w.encryption = s.asked
	got, err := s.store.put(ctx, w)
	if err != nil {
		return got, err
	}
	if err := s.hold(got.encryption); err != nil {
		return stored{}, s.undo(ctx, w.key, got.version, err)
	}
	return got, nil
}

func (s *encrypted) create(ctx context.Context, w put) (begun, error) {
	w.encryption = s.asked
	got, err := s.store.create(ctx, w)
	if err != nil || got.id == "" {
		return got, err
	}
	if got.encryption.algorithm == "" {
		err = s.proveUpload(ctx)
	} else {
		err = s.hold(got.encryption)
	}
	if err != nil {
		ctx, cancel := s.aside(ctx)
		defer cancel()
		if left := s.abort(ctx, upload{key: w.key, id: got.id}); left != nil && !errors.Is(left, mover.ErrNotExist) {
			return begun{}, fmt.Errorf("%w; the upload without a byte can not be aborted: %v", err, left) //nolint:errorlint // the kind is that of the first
		}
		return begun{}, fmt.Errorf("%w; no data was sent", err)
	}
	return got, nil
}

// proveUpload has the store encrypt an upload of our own to its end, once, because it says
// nothing when one begins: AWS does, MinIO does not.
func (s *encrypted) proveUpload(ctx context.Context) error {
	if err := s.proving.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer s.proving.Release(1)
	var err error
	for try := 0; !s.proven && try < 3; try++ {
		if err = s.tryUpload(ctx); err == nil {
			s.proven = true
		} else if !errors.Is(err, mover.ErrNotExist) { // a walk may take it for one that a dead process has left
			break
		}
	}
	return err
}

// tryUpload has the store encrypt one upload to its end, and removes what becomes of it.
func (s *encrypted) tryUpload(ctx context.Context) error {
	key := s.probe()
	got, err := s.store.create(ctx, put{key: key, encryption: s.asked})
	if err != nil {
		return err
	}
	u := upload{key: key, id: got.id}
	part, err := s.part(ctx, u, 1, put{data: probeBody})
	var whole stored
	if err == nil {
		whole, err = s.complete(ctx, u, []stored{part}, put{})
	}
	aside, cancel := s.aside(ctx)
	defer cancel()
	if err != nil {
		_ = s.abort(aside, u) // it may be complete
		return fmt.Errorf("tried with an upload of our own: %w", err)
	}
	return s.remove(aside, key, whole.version, "")
}

// complete asks for the object where the answer says nothing: it may have
// been begun before the store had put the parts together.
func (s *encrypted) complete(ctx context.Context, u upload, parts []stored, w put) (stored, error) {
	got, err := s.store.complete(ctx, u, parts, w)
	if err != nil {
		return got, err
	}
	if err := s.look(ctx, u.key, &got); err != nil {
		return stored{}, s.undo(ctx, u.key, got.version, err)
	}
	return got, nil
}

// copy leaves an object that was copied onto itself: there may be no other one of it.
func (s *encrypted) copy(ctx context.Context, from source, to put) (stored, error) {
	to.encryption = s.asked
	got, err := s.store.copy(ctx, from, to)
	if err != nil {
		return got, err
	}
	err = s.look(ctx, to.key, &got)
	switch {
	case err == nil:
		return got, nil
	case from.bucket == s.bucket && from.key == to.key:
		return stored{}, err
	}
	return stored{}, s.undo(ctx, to.key, got.version, err)
}

// look holds the store to what it says of an object, in its answer or else when asked.
func (s *encrypted) look(ctx context.Context, key string, got *stored) error {
	if got.encryption.algorithm == "" {
		o, err := s.head(ctx, key, got.version)
		if err != nil {
			return fmt.Errorf("whether it is encrypted is not known: %w", err)
		}
		got.encryption = encryptionOf(o.header)
	}
	return s.hold(got.encryption)
}

// undo removes what should not have been kept so: that version, where there are any.
// Only a refusal is a reason to.
func (s *encrypted) undo(ctx context.Context, key, version string, why error) error {
	if !errors.Is(why, mover.ErrRefused) {
		return why
	}
	ctx, cancel := s.aside(ctx)
	defer cancel()
	if left := s.remove(ctx, key, version, ""); left != nil && !errors.Is(left, mover.ErrNotExist) {
		return fmt.Errorf("%w; it can not be removed, so do that: %v", why, left) //nolint:errorlint // the kind is that of the first
	}
	return fmt.Errorf("%w; it was removed", why)
}

// aside is a context for what has to be done although the caller may have gone.
func (s *encrypted) aside(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.removal)
}

// Encryption is how the store says that it encrypts what this place writes; empty where
// that was not asked for, or nothing was written.
func (p *Backend) Encryption() (algorithm, key string) {
	if p.encrypted == nil {
		return "", ""
	}
	said := p.encrypted.first()
	return said.algorithm, said.key
}

// proveEncryption has the store encrypt an object of our own and asks for it again,
// before any other byte goes there.
func (p *Backend) proveEncryption(ctx context.Context) error {
	if p.encrypted == nil || !p.opts.Writable {
		return nil
	}
	key := p.encrypted.probe()
	got, err := p.store.put(ctx, put{key: key, data: probeBody})
	if err != nil {
		return fmt.Errorf("encryption, tried with an object of our own: %w", err)
	}
	o, err := p.store.head(ctx, key, got.version)
	if err == nil {
		err = p.encrypted.hold(encryptionOf(o.header))
	}
	if err != nil {
		err = fmt.Errorf("encryption, of an object of our own when it is asked for: %w", err)
	}
	aside, cancel := p.encrypted.aside(ctx)
	defer cancel()
	if left := p.store.remove(aside, key, got.version, ""); left != nil && !errors.Is(left, mover.ErrNotExist) {
		p.opts.Logger.WarnContext(ctx, "a probe of the bucket can not be removed", "place", p.address, "err", left)
	}
	return err
}
