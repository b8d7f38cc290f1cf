package s3api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
)

// Keys are credentials that end, as STS gives them.
type Keys struct {
	AccessKey               string
	SecretKey, SessionToken Secret
	Expires                 time.Time // zero: when the store says so
}

// Secret prints as [secret], whatever the verb and the encoding; string(s) is what it is.
type Secret string

const hidden = "[secret]"

// Format implements fmt.Formatter.
func (Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// MarshalText implements encoding.TextMarshaler.
func (Secret) MarshalText() ([]byte, error) { return []byte(hidden), nil }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(hidden) }

// renewer are credentials that may be followed by others.
type renewer interface {
	aws.CredentialsProvider
	// over is told the identity of keys of which the store says that they have ended, and
	// reports whether there may be others. They are not given again.
	over(used string) bool
	// doubt is told of keys that the store does not know, and reports whether there are others already.
	doubt(used string) bool
}

// identity tells keys from others. It is a secret.
func identity(v aws.Credentials) string { return v.AccessKeyID + "\x00" + v.SessionToken }

// signedBy is the identity of the keys that a request was signed with; see "Authenticating Requests
// (AWS Signature Version 4)" in the Amazon S3 API reference.
func signedBy(req *http.Request) string {
	_, rest, _ := strings.Cut(req.Header.Get("Authorization"), "Credential=")
	access, _, _ := strings.Cut(rest, "/")
	return access + "\x00" + req.Header.Get("X-Amz-Security-Token")
}

// ended are the codes of an answer to keys that have ended: of S3 with status 400, of others
// with 403. TokenRefreshRequired is of S3, too; InvalidTokenId of MinIO.
var ended = map[string]bool{"ExpiredToken": true, "ExpiredTokenException": true, "TokenRefreshRequired": true, "InvalidTokenId": true}

// unknown are those to keys that were removed, which others may have followed.
var unknown = map[string]bool{"InvalidAccessKeyId": true, "XAdminUserNotFound": true, "InvalidToken": true, "SignatureDoesNotMatch": true}

// tell tells keys what an answer says of those that its request was signed with. It
// reports whether the same request may be good with others.
func (r *reply) tell(keys renewer, req *http.Request) bool {
	switch {
	case keys == nil:
		return false
	case ended[r.code]:
		return keys.over(signedBy(req))
	case unknown[r.code]:
		return keys.doubt(signedBy(req))
	}
	return false
}

// errEnded is the kind of a failure that other keys would mend: tried again as long as
// retry does, and then one of permission.
var errEnded error = endedKeys{}

type endedKeys struct{}

func (endedKeys) Error() string { return mover.ErrPermission.Error() }

// Is says that we may not, and that another try may help.
func (endedKeys) Is(kind error) bool {
	return kind == mover.ErrPermission || kind == mover.ErrTransient
}

// waiting is an error of keys that have ended and have none to follow yet. The kinds of why do not count.
func waiting(format string, args ...any) error {
	return &ringError{fmt.Errorf("%w: %s", errEnded, fmt.Sprintf(format, args...))}
}

// ringError says why there are no keys.
type ringError struct{ error }

func (r *ringError) Unwrap() error { return r.error }

// static are keys that nothing follows.
type static struct{ aws.Credentials }

func (s static) Retrieve(context.Context) (aws.Credentials, error) { return s.Credentials, nil }
func (static) over(string) bool                                    { return false }
func (static) doubt(string) bool                                   { return false }

const (
	renewAhead = 5 * time.Minute // before keys end; a quarter of their life at most
	renewPause = time.Second     // after a renewal that failed, before the next one
)

// ring are keys that are asked for again. Any number of callers may want them: one asks, and those that
// can not go on without wait for it.
type ring struct {
	ask     func(ctx context.Context) (aws.Credentials, error)
	origin  func(v aws.Credentials) string // for people
	within  time.Duration                  // an answer
	log     *slog.Logger
	asking  *semaphore.Weighted // 1
	changes bool                // what ask gives may change although it does not expire

	mu      sync.Mutex // guards all below
	value   aws.Credentials
	renew   time.Time // when to ask for others; zero is never
	refused string    // the identity that the store does not take any more; "" is none
	failure error     // of the last time that others were asked for
	failed  time.Time
}

func newRing(o *Options, ask func(ctx context.Context) (aws.Credentials, error)) *ring {
	return &ring{ask: ask, origin: o.giver, within: o.Stall, log: o.Logger, asking: semaphore.NewWeighted(1)}
}

// renewal has o.Renew asked.
func (o *Options) renewal() *ring {
	r := newRing(o, func(ctx context.Context) (aws.Credentials, error) {
		k, err := o.Renew(ctx)
		return aws.Credentials{
			AccessKeyID: k.AccessKey, SecretAccessKey: string(k.SecretKey), SessionToken: string(k.SessionToken),
			CanExpire: !k.Expires.IsZero(), Expires: k.Expires, Source: "renewed",
		}, err
	})
	r.changes = true
	return r
}

// current is what the ring has: whether it can be used, and whether others are due.
func (r *ring) current() (v aws.Credentials, good, due bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v = r.value
	good = v.HasKeys() && identity(v) != r.refused && !v.Expired()
	return v, good, !good || !r.renew.IsZero() && !time.Now().Before(r.renew)
}

// Retrieve implements aws.CredentialsProvider.
func (r *ring) Retrieve(ctx context.Context) (aws.Credentials, error) {
	v, good, due := r.current()
	switch {
	case !due, good && !r.asking.TryAcquire(1): // another caller asks for others
		return v, nil
	case !good:
		if err := r.asking.Acquire(ctx, 1); err != nil {
			return aws.Credentials{}, context.Cause(ctx)
		}
	}
	defer r.asking.Release(1)
	if v, good, due = r.current(); !due {
		return v, nil // another caller has
	}
	next, err := r.next(ctx)
	if err != nil && good {
		r.log.WarnContext(ctx, "credentials end soon, and others can not be had yet", "ends", v.Expires, "err", err)
		return v, nil
	}
	return next, err
}

// next asks for other keys; asking is held.
func (r *ring) next(ctx context.Context) (aws.Credentials, error) {
	r.mu.Lock()
	failure, wait := r.failure, time.Since(r.failed) < renewPause
	r.mu.Unlock()
	if failure != nil && wait {
		return aws.Credentials{}, failure
	}
	asked, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	v, err := r.ask(asked)
	if ctx.Err() != nil {
		return aws.Credentials{}, context.Cause(ctx) // the caller's own end, which says nothing of the keys
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure, r.failed = r.judge(v, err), time.Now(); r.failure != nil {
		return aws.Credentials{}, r.failure
	}
	r.value, r.refused, r.renew = v, "", time.Time{}
	if v.CanExpire {
		left := time.Until(v.Expires)
		r.renew = v.Expires.Add(-min(renewAhead, left/4))
		r.log.InfoContext(ctx, "credentials were renewed", "ends", v.Expires)
	}
	return v, nil
}

// judge says why what came is of no use; mu is held.
func (r *ring) judge(v aws.Credentials, err error) error {
	final := errors.Is(err, mover.ErrPermission) || errors.Is(err, mover.ErrUsage)
	var unfound *unfound
	switch {
	case errors.As(err, &unfound) && !r.value.HasKeys():
		return &ringError{err}
	case errors.As(err, &unfound): // there were some: what gives them out may be away
		return waiting("%s, and others can not be had: %v", r.why(), unfound.error)
	case final && !errors.Is(err, mover.ErrTransient):
		return fmt.Errorf("%w: other credentials of %s were refused: %v", mover.ErrPermission, r.origin(r.value), err) //nolint:errorlint // its kind is ours
	case err != nil && !r.changes && !r.value.HasKeys() && !passes(err):
		return fmt.Errorf("%w: there are no credentials, and none can be had: %v", mover.ErrPermission, err) //nolint:errorlint // its kind is ours
	case err != nil:
		return waiting("%s, and others can not be had: %v", r.why(), err)
	case !v.HasKeys():
		return waiting("%s, and what came for them has no keys", r.why())
	case v.Expired():
		return waiting("%s, and those that came for them ended at %s", r.why(), v.Expires.Format(time.RFC3339))
	case identity(v) == r.refused && (r.changes || v.CanExpire):
		return waiting("the store says that the credentials of %s have ended, and there are no others yet", r.origin(r.value))
	case identity(v) == r.refused:
		return fmt.Errorf("%w: the store says that the credentials of %s have ended, and there are no others", mover.ErrPermission, r.origin(r.value))
	}
	return nil
}

// passes reports whether the first keys may be had by another try: what gives them could not be talked to. That there is no metadata service
// says that this machine has none.
func passes(err error) bool {
	var broken net.Error
	var asked *smithy.OperationError
	return errors.As(err, &broken) && !(errors.As(err, &asked) && asked.Service() == "ec2imds")
}

// why says what is with the keys that there were; mu is held.
func (r *ring) why() string {
	switch {
	case !r.value.HasKeys():
		return "there are no credentials yet"
	case r.value.Expired():
		return "the credentials of " + r.origin(r.value) + " ended at " + r.value.Expires.Format(time.RFC3339)
	}
	return "the credentials of " + r.origin(r.value) + " have ended"
}

func (r *ring) over(used string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if identity(r.value) == used {
		r.refused = used
	}
	return true
}

func (r *ring) doubt(used string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value.HasKeys() && identity(r.value) != used
}

// renewed is a store with keys that may be followed by others. An answer to HEAD has no
// body with the reason of a refusal. A server that refuses a large body
// closes the connection, and its answer may be lost. Then the store makes a small call,
// so that no body is sent again with keys that have ended.
type renewed struct {
	Store
}

// why is what the store says to a small call; err unless that is that the keys have ended.
func (s renewed) why(ctx context.Context, g Get, err error) error {
	g.N = 1
	body, _, said := s.Get(ctx, g)
	if said == nil {
		_ = body.Close()
	}
	if errors.Is(said, errEnded) {
		return said
	}
	return err
}

// lost reports whether a connection ended before its answer.
func lost(err error) bool {
	var a *answer
	return errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrTimeout) && !errors.As(err, &a) && !errors.Is(err, errEnded)
}

func (s renewed) Put(ctx context.Context, w Put) (Stored, error) {
	got, err := s.Store.Put(ctx, w)
	if lost(err) {
		err = s.why(ctx, Get{Key: w.Key}, err)
	}
	return got, err
}

func (s renewed) UploadPart(ctx context.Context, u Upload, number int, w Put) (Stored, error) {
	got, err := s.Store.UploadPart(ctx, u, number, w)
	if lost(err) {
		err = s.why(ctx, Get{Key: u.Key}, err)
	}
	return got, err
}

// Remove is made again at once: it gives a lock back, and no caller tries that again.
func (s renewed) Remove(ctx context.Context, key, version, ifMatch string) error {
	err := s.Store.Remove(ctx, key, version, ifMatch)
	if errors.Is(err, errEnded) {
		err = s.Store.Remove(ctx, key, version, ifMatch)
	}
	return err
}

func (s renewed) Tags(ctx context.Context, key string) (string, error) {
	tags, err := s.Store.Tags(ctx, key)
	if lost(err) {
		err = s.why(ctx, Get{Key: key}, err)
	}
	return tags, err
}

func (s renewed) SetTags(ctx context.Context, key, tags string) error {
	err := s.Store.SetTags(ctx, key, tags)
	if lost(err) {
		err = s.why(ctx, Get{Key: key}, err)
	}
	return err
}

func (s renewed) Head(ctx context.Context, key, version string) (Object, error) {
	o, err := s.Store.Head(ctx, key, version)
	if !bare(err) {
		return o, err
	}
	return o, s.why(ctx, Get{Key: key, version: version}, err)
}
