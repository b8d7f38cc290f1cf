package s3

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"syscall"
	"time"

	"datamove.dev/mover"
)

// answer is an error that the server told us.
type answer struct {
	status        int
	code, message string
	kind          error
	after         time.Duration
}

func (a *answer) Error() string {
	what := a.message
	if what == "" {
		what = http.StatusText(a.status)
	}
	if hint := hints[a.code]; hint != "" {
		what = hint
	}
	if a.code != "" {
		return fmt.Sprintf("%v: %s (%s, HTTP %d)", a.kind, mover.Printable(what), mover.Printable(a.code), a.status)
	}
	return fmt.Sprintf("%v: %s (HTTP %d)", a.kind, mover.Printable(what), a.status)
}

func (a *answer) Unwrap() error { return a.kind }

// codes says what the error codes of S3 mean to us; see "Error responses" in the
// Amazon S3 API reference. The last rows are of other servers.
var codes = map[string]error{
	"NoSuchKey":             mover.ErrNotExist,
	"NoSuchBucket":          mover.ErrNotExist,
	"NoSuchUpload":          mover.ErrNotExist,
	"NoSuchVersion":         mover.ErrNotExist,
	"NotFound":              mover.ErrNotExist,
	"AccessDenied":          mover.ErrPermission,
	"AllAccessDisabled":     mover.ErrPermission,
	"AccountProblem":        mover.ErrPermission,
	"InvalidAccessKeyId":    mover.ErrPermission,
	"SignatureDoesNotMatch": mover.ErrPermission,
	"RequestTimeTooSkewed":  mover.ErrPermission,
	"ExpiredToken":          mover.ErrPermission,
	"ExpiredTokenException": mover.ErrPermission,
	"TokenRefreshRequired":  mover.ErrPermission,
	"InvalidToken":          mover.ErrPermission,

	"InvalidObjectState":         mover.ErrReleased, // of class GLACIER or DEEP_ARCHIVE
	"ObjectNotInActiveTierError": mover.ErrReleased, // the same, of CopyObject

	"PreconditionFailed":         mover.ErrChanged,
	"ConditionalRequestConflict": mover.ErrTransient, // another call has to do with the key at this moment: asked again, the condition holds or not
	"OperationAborted":           mover.ErrTransient,
	"InvalidRange":               mover.ErrChanged,
	"InvalidPart":                mover.ErrChanged, // the store has lost a part, or a later one took its place
	"BadDigest":                  mover.ErrCorrupt,
	"InvalidDigest":              mover.ErrCorrupt,

	"SlowDown":             mover.ErrTransient,
	"SlowDownRead":         mover.ErrTransient,
	"SlowDownWrite":        mover.ErrTransient,
	"InternalError":        mover.ErrTransient,
	"ServiceUnavailable":   mover.ErrTransient,
	"RequestTimeout":       mover.ErrTransient,
	"RequestLimitExceeded": mover.ErrTransient,
	"Throttling":           mover.ErrTransient,
	"ThrottlingException":  mover.ErrTransient,
	"IncompleteBody":       mover.ErrTransient,

	"NotImplemented":                     mover.ErrUnsupported,
	"MethodNotAllowed":                   mover.ErrUnsupported,
	"EntityTooLarge":                     mover.ErrUnsupported,
	"KeyTooLongError":                    mover.ErrUnsupported,
	"MetadataTooLarge":                   mover.ErrUnsupported,
	"InvalidBucketName":                  mover.ErrUsage,
	"PermanentRedirect":                  mover.ErrUsage,
	"TemporaryRedirect":                  mover.ErrTransient,
	"AuthorizationHeaderMalformed":       mover.ErrUsage,
	"KMS.NotFoundException":              mover.ErrUsage,
	"KMS.InvalidKeyUsageException":       mover.ErrUsage,
	"KMS.DisabledException":              mover.ErrPermission,
	"KMS.KMSInvalidStateException":       mover.ErrPermission,
	"IllegalLocationConstraintException": mover.ErrUsage,

	"ObjectParentIsFile":             mover.ErrConflict, // versitygw: x and x/y
	"ObjectExistsAsDirectory":        mover.ErrConflict,
	"ExistingObjectIsDirectory":      mover.ErrConflict,
	"ErrDirectoryNotEmpty":           mover.ErrConflict,
	"XMinioParentIsObject":           mover.ErrConflict, // MinIO
	"XAmzContentChecksumMismatch":    mover.ErrCorrupt,
	"XMinioStorageFull":              mover.ErrFull,
	"XMinioAdminBucketQuotaExceeded": mover.ErrFull,
	"XMinioServerNotInitialized":     mover.ErrTransient,
	"XMinioInvalidObjectName":        mover.ErrUnsupported,
	"InvalidTokenId":                 mover.ErrPermission,
	"XAdminUserNotFound":             mover.ErrPermission, // versitygw: of a key that it does not know
	"kms:KeyNotFound":                mover.ErrUsage,
	"QuotaExceeded":                  mover.ErrFull, // Ceph RGW and others
	"InsufficientCapacity":           mover.ErrFull,
}

const inArchive = "the object is in an archive class; restore it first"

// hints say what to do, where the server's own words do not.
var hints = map[string]string{
	"NoSuchBucket":         "the bucket does not exist; make it first, or mend its name",
	"RequestTimeTooSkewed": "the clocks of this machine and of the server differ too much; set this one by NTP",
	"InvalidObjectState":   inArchive,
	"PermanentRedirect":    "the bucket is in another region; name that one",

	"ObjectNotInActiveTierError": inArchive,

	"KMS.NotFoundException":        "there is no such KMS key; mend its name",
	"KMS.InvalidKeyUsageException": "the KMS key is not one to encrypt with; name a symmetric one",
	"KMS.DisabledException":        "the KMS key is disabled; enable it",
	"KMS.KMSInvalidStateException": "the KMS key can not be used now; it may be pending deletion",
	"kms:KeyNotFound":              "there is no such KMS key; mend its name",
}

// statuses say what an HTTP status means when no code says more.
var statuses = map[int]error{
	http.StatusMovedPermanently:             mover.ErrUsage,
	http.StatusTemporaryRedirect:            mover.ErrTransient,
	http.StatusUnauthorized:                 mover.ErrPermission,
	http.StatusForbidden:                    mover.ErrPermission,
	http.StatusNotFound:                     mover.ErrNotExist,
	http.StatusMethodNotAllowed:             mover.ErrUnsupported,
	http.StatusRequestTimeout:               mover.ErrTransient,
	http.StatusConflict:                     mover.ErrConflict,
	http.StatusGone:                         mover.ErrNotExist,
	http.StatusPreconditionFailed:           mover.ErrChanged,
	http.StatusRequestEntityTooLarge:        mover.ErrUnsupported,
	http.StatusRequestedRangeNotSatisfiable: mover.ErrChanged,
	http.StatusTooManyRequests:              mover.ErrTransient,
	http.StatusNotImplemented:               mover.ErrUnsupported,
	http.StatusInsufficientStorage:          mover.ErrFull,
}

// understand turns what a client returned, and what the server replied, into one
// of the kinds of mover.
func understand(ctx context.Context, r *reply, err error) error {
	if r.code != "" || r.status >= 300 {
		a := &answer{status: r.status, code: r.code, message: r.message, kind: r.kind(), after: r.after()}
		if region := r.header.Get("X-Amz-Bucket-Region"); region != "" && a.kind == mover.ErrUsage {
			a.code, a.message = "", "the bucket is in region "+region+"; name that one"
		}
		return a
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var sending *url.Error
	if r.calls == 0 && kindOf(err) == nil && !errors.As(err, &sending) {
		return fmt.Errorf("%w: %w", mover.ErrUsage, err) // the client refused to send it
	}
	return broken(err)
}

func (r *reply) kind() error {
	if r.again {
		return errEnded
	}
	if kind := codes[r.code]; kind != nil {
		return kind
	}
	if kind := statuses[r.status]; kind != nil {
		return kind
	}
	if r.status >= 500 || r.status < 300 { // an error document with 200: the server gave up halfway
		return mover.ErrTransient
	}
	return mover.ErrUsage
}

// broken classifies an error of the connection.
func broken(err error) error {
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case kindOf(err) != nil:
		return err
	case errors.As(err, &dns) && !dns.IsTemporary,
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.As(err, &op) && op.Op == "dial", isCertificate(err):
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w: %w", mover.ErrTransient, mover.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", mover.ErrTransient, err)
}

// kindOf is the kind that err already has; nil if none. Errors of the network
// that only look like one of a file do not count.
func kindOf(err error) error {
	for _, kind := range mover.Kinds() {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// lasting marks an error of the first call to a store that is one of its address. Later on it may be one of a store, or of a server of names, that
// is being restarted.
func lasting(err error) error {
	var dns *net.DNSError
	var plain tls.RecordHeaderError
	if isCertificate(err) || errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &plain) {
		return mover.Lasting(err)
	}
	return err
}

// isCertificate reports whether the server is not who it should be: no try helps.
func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// wrap gives an error its operation and its name, once.
func (p *Place) wrap(op, name string, err error) error {
	var already *mover.Error
	if err == nil || errors.As(err, &already) {
		return err
	}
	e := &mover.Error{Op: op, Place: p.address, Name: name, Err: err}
	var a *answer
	if errors.As(err, &a) {
		e.After = a.after
	}
	return e
}

// bodyError classifies an error from reading a body.
func bodyError(ctx context.Context, err error) error {
	switch {
	case err == nil, err == io.EOF:
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return fmt.Errorf("the answer broke off: %w: %w", mover.ErrTransient, err)
	}
	return broken(err)
}
