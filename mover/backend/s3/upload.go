package s3

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
)

// begin opens the multipart upload.
func (d *draft) begin(ctx context.Context) (err error) {
	w := d.object()
	w.FullObject = d.place.profile.ChecksWhole
	d.begun = w
	d.upload, err = d.place.create(ctx, w)
	d.encryption = d.place.encryption()
	return err
}

// The two kinds of tokens.
const (
	tokenMemory = "memory"
	tokenUpload = "upload"
)

// tokenEncryption is the word of a token for how the upload was asked to be encrypted.
const tokenEncryption = "encryption"

// Token implements mover.Draft. A draft in memory has none that outlives it.
func (d *draft) Token() mover.Token {
	if d.upload.ID == "" {
		return mover.Token(tokenMemory + "?" + url.Values{"key": {d.key}}.Encode())
	}
	return tokenOf(d.upload, d.encryption)
}

// tokenOf is the name of an upload for other processes, and the encryption that was asked for: an
// upload that is found does not tell. A walk puts in what its own backend asks for,
// which is right for uploads of the same backend. A run that adopts one has the token of the run that began it.
func tokenOf(u s3api.Upload, as string) mover.Token {
	values := url.Values{"key": {u.Key}, "id": {u.ID}}
	if as != "" {
		values.Set(tokenEncryption, as)
	}
	return mover.Token(tokenUpload + "?" + values.Encode())
}

// encryption is what this place asks for, in one word; "" is nothing.
func (p *Backend) encryption() string {
	if p.encrypted == nil {
		return ""
	}
	return p.opts.Encryption + " " + p.opts.KMSKey
}

// encryptionOfToken is what the place asked for that began an upload.
func encryptionOfToken(t mover.Token) string {
	_, query, _ := strings.Cut(string(t), "?")
	values, _ := url.ParseQuery(query) // parseToken has refused what is none
	return values.Get(tokenEncryption)
}

// parseToken reads a token, and refuses one of another place.
func (p *Backend) parseToken(t mover.Token) (u s3api.Upload, name string, err error) {
	kind, query, _ := strings.Cut(string(t), "?")
	values, err := url.ParseQuery(query)
	u = s3api.Upload{Key: values.Get("key"), ID: values.Get("id")}
	rest, below := strings.CutPrefix(u.Key, p.prefix)
	known := kind == tokenUpload && u.ID != "" || kind == tokenMemory
	if err != nil || !below || !known {
		return u, "", fmt.Errorf("token %q is none of this place: %w", t, mover.ErrUsage)
	}
	name, _ = nameOf(strings.TrimSuffix(rest, "/"))
	return u, name, nil
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	u, name, err := p.parseToken(t)
	if err != nil {
		return nil, p.wrap("adopt", name, err)
	}
	if u.ID == "" {
		return nil, p.wrap("adopt", name, fmt.Errorf("it was in the memory of a process: %w", mover.ErrNotExist))
	}
	as := encryptionOfToken(t)
	if p.encrypted != nil && as != p.encryption() { // its parts lie there otherwise
		if err := p.abort(ctx, u); err != nil {
			return nil, p.wrap("adopt", name, err)
		}
		return nil, p.wrap("adopt", name, fmt.Errorf("it was begun without the encryption that is asked for now: %w", mover.ErrNotExist))
	}
	d := &draft{place: p, key: u.Key, upload: u, encryption: as, adopted: true, entry: mover.Entry{Name: name, Kind: mover.File}}
	for _, err := range p.store.ListParts(ctx, u) {
		if err != nil {
			return nil, p.wrap("adopt", name, err)
		}
	}
	p.uploads.add(u)
	return d, nil
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	u, name, err := p.parseToken(t)
	if err == nil && u.ID != "" {
		err = p.abort(ctx, u)
	}
	return p.wrap("drop", name, err)
}

// complete puts the parts of an upload together.
func (p *Backend) complete(ctx context.Context, u s3api.Upload, parts []s3api.Stored, w s3api.Put) (s3api.Stored, error) {
	got, err := p.store.CompleteUpload(ctx, u, parts, w)
	if err == nil {
		p.uploads.forget(u)
	}
	return got, err
}

// uploads remembers which multipart uploads are this backend's, and which keys may have
// an unknown one: the server began it, and its answer was lost.
type uploads struct {
	mu      sync.Mutex
	ours    map[s3api.Upload]bool // open; upload.since is not set
	calls   map[string]int        // CreateMultipartUpload in flight, by key
	doubted map[string]time.Time  // when the first call of a key with a lost answer was made
}

func (u *uploads) add(open s3api.Upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ours == nil {
		u.ours = map[s3api.Upload]bool{}
	}
	u.ours[open] = true
}

// has reports whether an upload is this place's. A walk that is begun again meets them.
func (u *uploads) has(open s3api.Upload) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ours[s3api.Upload{Key: open.Key, ID: open.ID}]
}

func (u *uploads) forget(over s3api.Upload) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.ours, s3api.Upload{Key: over.Key, ID: over.ID})
}

// enter notes that a call begins.
func (u *uploads) enter(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls == nil {
		u.calls, u.doubted = map[string]int{}, map[string]time.Time{}
	}
	u.calls[key]++
}

// leave notes that a call has ended, and whether its answer was lost.
func (u *uploads) leave(key string, since time.Time, lost bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.calls[key]--; u.calls[key] == 0 {
		delete(u.calls, key)
	}
	if before, ok := u.doubted[key]; lost && (!ok || since.Before(before)) {
		u.doubted[key] = since
	}
}

func (u *uploads) doubt(key string) (since time.Time, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	since, ok = u.doubted[key]
	return since, ok
}

// unknown reports whether an open upload is none of ours, and can not become one:
// no more than callers calls for its key are in flight.
func (u *uploads) unknown(open s3api.Upload, callers int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return !u.ours[s3api.Upload{Key: open.Key, ID: open.ID}] && u.calls[open.Key] <= callers
}

// create begins a multipart upload. When an earlier answer for its key was lost,
// what that one may have begun is aborted first; what comes too late for this,
// Sync finds.
func (p *Backend) create(ctx context.Context, w s3api.Put) (u s3api.Upload, err error) {
	p.uploads.enter(w.Key)
	since, lost := time.Now(), false
	defer func() { p.uploads.leave(w.Key, since, lost) }()
	if err := p.dropLost(ctx, w.Key, 1); err != nil {
		return u, err
	}
	since = time.Now()
	got, err := p.store.CreateUpload(ctx, w)
	if err == nil && got.ID == "" {
		err = fmt.Errorf("the server gives no upload id: %w", mover.ErrTransient)
	}
	if err != nil {
		lost = !s3api.Declined(err)
		return u, err
	}
	u = s3api.Upload{Key: w.Key, ID: got.ID}
	p.uploads.add(u)
	if ctx.Err() != nil { // the server has begun it, and its caller has gone
		return s3api.Upload{}, errors.Join(context.Cause(ctx), p.abortAnyway(u))
	}
	return u, nil
}

// dropLost aborts the uploads of a key that were begun since an answer was lost, and
// of which this place knows nothing. The target is locked, so they are of that call.
// A server that does not list uploads, or not to us, is left with them.
func (p *Backend) dropLost(ctx context.Context, key string, callers int) error {
	since, ok := p.uploads.doubt(key)
	if !ok {
		return nil
	}
	since = p.client.NotBefore(since)
	var lost []s3api.Upload
	for u, err := range p.store.ListUploads(ctx, key) {
		if kind := s3api.KindOf(err); kind == mover.ErrUnsupported || kind == mover.ErrPermission && !errors.Is(err, mover.ErrTransient) {
			p.opts.Logger.WarnContext(ctx, "an upload whose beginning was not answered can not be looked for", "place", p.address, "key", key, "err", err)
			return nil
		}
		if err != nil {
			return fmt.Errorf("look for an upload whose beginning was not answered: %w", err)
		}
		if u.Key == key && !u.Since.Before(since) && p.uploads.unknown(u, callers) {
			lost = append(lost, u)
		}
	}
	for _, u := range lost {
		if err := p.abort(ctx, u); err != nil {
			return fmt.Errorf("abort an upload whose beginning was not answered: %w", err)
		}
		p.opts.Logger.InfoContext(ctx, "aborted an upload whose beginning was not answered", "place", p.address, "key", key)
	}
	return nil
}

// Sync implements mover.Target: what S3 has answered is on stable storage. It looks once more for uploads
// that were begun without an answer: a request may have
// been on its way for long.
func (p *Backend) Sync(ctx context.Context) error {
	for _, key := range p.uploads.inDoubt() {
		if err := p.dropLost(ctx, key, 0); err != nil {
			return p.wrap("sync", "", err)
		}
		p.uploads.trust(key)
	}
	return context.Cause(ctx)
}

func (u *uploads) inDoubt() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Sorted(maps.Keys(u.doubted))
}

func (u *uploads) trust(key string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.doubted, key)
}

// abortAnyway aborts an upload though its caller may have been told to stop.
func (p *Backend) abortAnyway(u s3api.Upload) error {
	ctx, cancel := context.WithTimeout(context.Background(), p.opts.Stall)
	defer cancel()
	return p.abort(ctx, u)
}

func (p *Backend) abort(ctx context.Context, u s3api.Upload) error {
	if err := p.store.AbortUpload(ctx, u); err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	p.uploads.forget(u)
	return nil
}
