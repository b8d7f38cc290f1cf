package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// encrypted is a store that is asked to encrypt what it keeps, and believed only when
// its answer says so. What it keeps otherwise is removed. The key that its
// first answer names is the one that all later ones have to name: that is all
// that can be known of an alias.
type encrypted struct {
	s3api.Store
	asked   s3api.Encryption
	bucket  string
	where   string        // the region of the bucket
	removal time.Duration // how long a removal may take
	probe   func() string // a key of our own for a throw-away object

	proving *semaphore.Weighted // 1: guards proven
	proven  bool                // the store encrypts uploads, although it does not say so when they begin

	mu   sync.Mutex       // guards said
	said s3api.Encryption // by the first good answer
}

// hold compares an answer with what was asked for and with those before it.
func (s *encrypted) hold(said s3api.Encryption) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.asked.Answers(said, s.where):
		return fmt.Errorf("%w: asked to encrypt by %v, the store says %v", mover.ErrRefused, s.asked, said)
	case s.said.Algorithm != "" && s.said != said && s.asked.Algorithm != s3api.EncryptStore:
		return fmt.Errorf("%w: asked to encrypt by %v, the store said %v at first, and now %v", mover.ErrRefused, s.asked, s.said, said)
	}
	s.said = said
	return nil
}

// first is what the store said; the zero value before it has said anything.
func (s *encrypted) first() s3api.Encryption {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.said
}

func (s *encrypted) Put(ctx context.Context, w s3api.Put) (s3api.Stored, error) {
	w.Encryption = s.asked
	got, err := s.Store.Put(ctx, w)
	if err != nil {
		return got, err
	}
	if err := s.hold(got.Encryption); err != nil {
		return s3api.Stored{}, s.undo(ctx, w.Key, got.Version, err)
	}
	return got, nil
}

func (s *encrypted) CreateUpload(ctx context.Context, w s3api.Put) (s3api.Begun, error) {
	w.Encryption = s.asked
	got, err := s.Store.CreateUpload(ctx, w)
	if err != nil || got.ID == "" {
		return got, err
	}
	if got.Encryption.Algorithm == "" {
		err = s.proveUpload(ctx)
	} else {
		err = s.hold(got.Encryption)
	}
	if err != nil {
		ctx, cancel := s.aside(ctx)
		defer cancel()
		if left := s.AbortUpload(ctx, s3api.Upload{Key: w.Key, ID: got.ID}); left != nil && !errors.Is(left, mover.ErrNotExist) {
			return s3api.Begun{}, fmt.Errorf("%w; the upload without a byte can not be aborted: %v", err, left) //nolint:errorlint // the kind is that of the first
		}
		return s3api.Begun{}, fmt.Errorf("%w; no data was sent", err)
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
	got, err := s.Store.CreateUpload(ctx, s3api.Put{Key: key, Encryption: s.asked})
	if err != nil {
		return err
	}
	u := s3api.Upload{Key: key, ID: got.ID}
	part, err := s.UploadPart(ctx, u, 1, s3api.Put{Data: probeBody})
	var whole s3api.Stored
	if err == nil {
		whole, err = s.CompleteUpload(ctx, u, []s3api.Stored{part}, s3api.Put{})
	}
	aside, cancel := s.aside(ctx)
	defer cancel()
	if err != nil {
		_ = s.AbortUpload(aside, u) // it may be complete
		return fmt.Errorf("tried with an upload of our own: %w", err)
	}
	return s.Remove(aside, key, whole.Version, "")
}

// CompleteUpload asks for the object where the answer says nothing: it may have
// been begun before the store had put the parts together.
func (s *encrypted) CompleteUpload(ctx context.Context, u s3api.Upload, parts []s3api.Stored, w s3api.Put) (s3api.Stored, error) {
	got, err := s.Store.CompleteUpload(ctx, u, parts, w)
	if err != nil {
		return got, err
	}
	if err := s.look(ctx, u.Key, &got); err != nil {
		return s3api.Stored{}, s.undo(ctx, u.Key, got.Version, err)
	}
	return got, nil
}

// Copy leaves an object that was copied onto itself: there may be no other one of it.
func (s *encrypted) Copy(ctx context.Context, from s3api.Source, to s3api.Put) (s3api.Stored, error) {
	to.Encryption = s.asked
	got, err := s.Store.Copy(ctx, from, to)
	if err != nil {
		return got, err
	}
	err = s.look(ctx, to.Key, &got)
	switch {
	case err == nil:
		return got, nil
	case from.Bucket == s.bucket && from.Key == to.Key:
		return s3api.Stored{}, err
	}
	return s3api.Stored{}, s.undo(ctx, to.Key, got.Version, err)
}

// look holds the store to what it says of an object, in its answer or else when asked.
func (s *encrypted) look(ctx context.Context, key string, got *s3api.Stored) error {
	if got.Encryption.Algorithm == "" {
		o, err := s.Head(ctx, key, got.Version)
		if err != nil {
			return fmt.Errorf("whether it is encrypted is not known: %w", err)
		}
		got.Encryption = s3api.EncryptionOf(o.Header)
	}
	return s.hold(got.Encryption)
}

// undo removes what should not have been kept so: that version, where there are any.
// Only a refusal is a reason to.
func (s *encrypted) undo(ctx context.Context, key, version string, why error) error {
	if !errors.Is(why, mover.ErrRefused) {
		return why
	}
	ctx, cancel := s.aside(ctx)
	defer cancel()
	if left := s.Remove(ctx, key, version, ""); left != nil && !errors.Is(left, mover.ErrNotExist) {
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
	return said.Algorithm, said.Key
}

// proveEncryption has the store encrypt an object of our own and asks for it again,
// before any other byte goes there.
func (p *Backend) proveEncryption(ctx context.Context) error {
	if p.encrypted == nil || !p.opts.Writable {
		return nil
	}
	key := p.encrypted.probe()
	got, err := p.store.Put(ctx, s3api.Put{Key: key, Data: probeBody})
	if err != nil {
		return fmt.Errorf("encryption, tried with an object of our own: %w", err)
	}
	o, err := p.store.Head(ctx, key, got.Version)
	if err == nil {
		err = p.encrypted.hold(s3api.EncryptionOf(o.Header))
	}
	if err != nil {
		err = fmt.Errorf("encryption, of an object of our own when it is asked for: %w", err)
	}
	aside, cancel := p.encrypted.aside(ctx)
	defer cancel()
	if left := p.store.Remove(aside, key, got.Version, ""); left != nil && !errors.Is(left, mover.ErrNotExist) {
		p.opts.Logger.WarnContext(ctx, "a probe of the bucket can not be removed", "place", p.address, "err", left)
	}
	return err
}
