package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// What guards an object is none of its facts, and the store keeps it of a copy only where the copy says it: the grants of its ACL, its
// retention and its legal hold (Amazon S3 user guide, "Copying, moving, and renaming objects"; API reference, CopyObject). An update says them anew.

// The headers of Object Lock, in answers and in calls.
const (
	headerLockMode  = "X-Amz-Object-Lock-Mode"
	headerLockUntil = "X-Amz-Object-Lock-Retain-Until-Date"
	headerHold      = "X-Amz-Object-Lock-Legal-Hold"
	holdOn          = "ON"
)

// grantHeaders are the headers that say the grants of an object, by their permission. WRITE says nothing of an object.
var grantHeaders = map[string]string{
	"FULL_CONTROL": "X-Amz-Grant-Full-Control",
	"READ":         "X-Amz-Grant-Read",
	"READ_ACP":     "X-Amz-Grant-Read-Acp",
	"WRITE_ACP":    "X-Amz-Grant-Write-Acp",
}

// headersOf are those of a copy with the same grants; none where the owner alone has all rights, as of any object.
func headersOf(a *s3api.AccessList) map[string]string {
	all := map[string][]string{}
	others := false
	for _, g := range a.Grants {
		header := grantHeaders[g.Permission]
		who := named(g.Grantee)
		if header == "" || who == "" {
			continue
		}
		others = others || g.Permission != "FULL_CONTROL" || g.Grantee.ID != a.Owner.ID
		all[header] = append(all[header], who)
	}
	if !others {
		return nil
	}
	said := map[string]string{}
	for header, whom := range all {
		said[header] = strings.Join(whom, ", ")
	}
	return said
}

// named is how a header names what a grant is for; "" is not at all.
func named(g s3api.Grantee) string {
	for _, said := range []struct{ name, value string }{{"id", g.ID}, {"uri", g.URI}, {"emailAddress", g.EmailAddress}} {
		if said.value != "" && !strings.Contains(said.value, `"`) && validValue(said.value) {
			return said.name + `="` + said.value + `"`
		}
	}
	return ""
}

// lockState is what Object Lock says of an object.
type lockState struct {
	mode, until string // "" is no retention
	hold        string
}

// headers are those of a copy that is locked as long. A retention that is over binds nothing, and may not be asked for.
func (l *lockState) headers(now time.Time) map[string]string {
	said := map[string]string{}
	if until, err := time.Parse(time.RFC3339, l.until); err == nil && l.mode != "" && until.After(now) {
		said[headerLockMode], said[headerLockUntil] = l.mode, l.until
	}
	if l.hold == holdOn {
		said[headerHold] = holdOn
	}
	return said
}

// bucketRules are what is asked once of the bucket of a place, by its first update.
type bucketRules struct {
	mu          sync.Mutex
	asked       bool // guarded by mu, as what follows
	grants      bool // its objects have ACLs that count, as far as is known
	locks       bool // it has Object Lock
	locksHidden bool // that it has may not be read
}

// of asks the store. What may not be read is taken for what costs more calls.
func (r *bucketRules) of(ctx context.Context, s s3api.Store) (grants, locks, hidden bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked {
		return r.grants, r.locks, r.locksHidden, nil
	}
	owned, err := s.Ownership(ctx)
	switch {
	case err == nil:
		r.grants = owned != "BucketOwnerEnforced" // the one in which there are none; a store that says nothing may have some
	case unreadable(err) || errors.Is(err, s3api.ErrOtherAnswer) || errors.Is(err, mover.ErrNotExist): // nothing was set: they have
		r.grants = true
	case !absent(err):
		return false, false, false, err
	}
	r.locks, err = s.HasObjectLock(ctx)
	if r.locksHidden = unreadable(err); err != nil && !r.locksHidden && !absent(err) {
		return false, false, false, err
	}
	r.asked = true
	return r.grants, r.locks, r.locksHidden, nil
}

// unreadable reports whether the keys lack a right.
func unreadable(err error) bool {
	return s3api.KindOf(err) == mover.ErrPermission && !errors.Is(err, mover.ErrTransient)
}

// absent reports whether the store says that there is no such thing, or does not know of any. Stores say the first by 400, too.
func absent(err error) bool {
	return errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrUnsupported) || errors.Is(err, mover.ErrUsage)
}

// guard gives a copy of an object onto itself what guards the object.
func (p *Backend) guard(ctx context.Context, o *s3api.Object, name string, w *s3api.Put) error {
	grants, locks, hidden, err := p.rules.of(ctx, p.store)
	if err != nil {
		return fmt.Errorf("ACLs and Object Lock of the bucket: %w", err)
	}
	guards := map[string]string{}
	if grants {
		list, err := p.store.ACL(ctx, w.Key)
		if unreadable(err) {
			hidden, err = true, nil
		}
		if err != nil && !absent(err) {
			return fmt.Errorf("ACL: %w", err)
		}
		maps.Copy(guards, headersOf(&list))
	}
	lock, err := p.locked(ctx, o, locks)
	if err != nil {
		return err
	}
	maps.Copy(guards, lock.headers(time.Now()))
	if hidden {
		p.guardsHidden.add(name)
	}
	if w.Headers == nil {
		w.Headers = map[string]string{}
	}
	maps.Copy(w.Headers, guards)
	w.Guarded = len(guards) > 0
	return nil
}

// locked is what Object Lock says of an object. An answer to HEAD has it where the keys may read it; where the bucket has Object Lock and HEAD says nothing, it is asked for.
func (p *Backend) locked(ctx context.Context, o *s3api.Object, locks bool) (lockState, error) {
	l := lockState{mode: o.Header.Get(headerLockMode), until: o.Header.Get(headerLockUntil), hold: o.Header.Get(headerHold)}
	if !locks {
		return l, nil
	}
	var err error
	if l.mode == "" {
		if l.mode, l.until, err = p.store.Retention(ctx, o.Key); err != nil && !absent(err) {
			return l, needs("its retention can not be read, and would be lost", "s3:GetObjectRetention", err)
		}
	}
	if l.hold == "" {
		if l.hold, err = p.store.LegalHold(ctx, o.Key); err != nil && !absent(err) {
			return l, needs("its legal hold can not be read, and would be lost", "s3:GetObjectLegalHold", err)
		}
	}
	return l, nil
}

// proveLocks holds the store to the locks that a copy of an object onto itself was to have: some (Ceph RGW) ignore them there. That version is removed,
// so that the one before it, which has them, is what the key has again.
func (p *Backend) proveLocks(ctx context.Context, before *s3api.Object, w *s3api.Put, got *s3api.Stored) error {
	if p.client.Amazon() || w.Headers[headerLockMode] == "" && w.Headers[headerHold] == "" {
		return nil
	}
	o, err := p.store.Head(ctx, w.Key, got.Version)
	if err != nil {
		return fmt.Errorf("whether it has kept its locks is not known: %w", err)
	}
	has, err := p.locked(ctx, &o, true)
	if err != nil {
		return err
	}
	said := has.headers(time.Now())
	if (said[headerLockMode] != "") == (w.Headers[headerLockMode] != "") && said[headerHold] == w.Headers[headerHold] {
		return nil
	}
	const why = "this store does not keep retention and legal holds of an object that gets other facts"
	if made := got.Version != "" || o.ETag == got.ETag; o.Version == "" || o.Version == before.Version || !made { // or it is not certain that it is that copy
		return fmt.Errorf("%s, and they are lost: %w", why, mover.ErrUnsupported)
	}
	if err := p.store.Remove(context.WithoutCancel(ctx), w.Key, o.Version, ""); err != nil {
		return fmt.Errorf("%s, and version %s without them can not be removed: %w", why, o.Version, err)
	}
	return fmt.Errorf("%s; it is left as it was: %w", why, mover.ErrUnsupported)
}

// needs says which right a refusal is about.
func needs(what, right string, err error) error {
	if !unreadable(err) {
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s; grant %s: %w", what, right, err)
}

// guarding says of a copy that was refused which rights it takes to keep what guards the object.
func guarding(w *s3api.Put, err error) error {
	if !w.Guarded || !unreadable(err) {
		return err
	}
	var rights []string
	for _, row := range []struct{ header, right string }{
		{headerLockMode, "s3:PutObjectRetention"}, {headerHold, "s3:PutObjectLegalHold"},
	} {
		if w.Headers[row.header] != "" {
			rights = append(rights, row.right)
		}
	}
	for _, header := range grantHeaders {
		if w.Headers[header] != "" {
			rights = append(rights, "s3:PutObjectAcl")
			break
		}
	}
	return fmt.Errorf("a copy with its ACL and locks was refused; it takes %s: %w", strings.Join(rights, ", "), err)
}
