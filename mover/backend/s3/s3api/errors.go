package s3api

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/aws/smithy-go"
	"github.com/minio/minio-go/v7"

	"datamove.dev/mover"
	"datamove.dev/mover/remedy"
)

// answer is an error that the server told us.
type answer struct {
	status        int
	code, message string
	cause         string // as remedy has it; "" is the code
	keys          string // with which permission is missing, in words; "" says nothing
	kind          error
	after         time.Duration
}

// Cause is what remedies go by.
func (a *answer) Cause() string { return cmp.Or(a.cause, causes[a.code], a.code) }

func (a *answer) Error() string {
	what := mover.Printable(cmp.Or(sayings[a.code], strings.TrimRight(a.message, ". "), http.StatusText(a.status)))
	if a.keys != "" {
		what += ", " + a.keys
	}
	if a.code != "" {
		return fmt.Sprintf("%v: %s (%s, HTTP %d)", a.kind, what, mover.Printable(a.code), a.status)
	}
	return fmt.Sprintf("%v: %s (HTTP %d)", a.kind, what, a.status)
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
	"InsufficientStorage":            mover.ErrFull, // versitygw
	"ObjectQuotaExceeded":            mover.ErrFull, // NooBaa
}

const inArchive = "the object is in an archive class"

// sayings say what is the matter, where the server's own words do not.
var sayings = map[string]string{
	"NoSuchBucket":         "the bucket does not exist",
	"RequestTimeTooSkewed": "the clocks of this machine and of the server differ too much",
	"InvalidObjectState":   inArchive,
	"PermanentRedirect":    "the bucket is in another region",
	"InvalidAccessKeyId":   "the store does not know the access key",
	"XAdminUserNotFound":   "the store does not know the access key",

	"SignatureDoesNotMatch":      "the secret key does not belong to the access key",
	"ExpiredToken":               "the session token has expired",
	"ObjectNotInActiveTierError": inArchive,

	"KMS.NotFoundException":        "there is no such KMS key",
	"KMS.InvalidKeyUsageException": "the KMS key is not one to encrypt with, which is a symmetric one",
	"KMS.DisabledException":        "the KMS key is disabled",
	"KMS.KMSInvalidStateException": "the KMS key can not be used now; it may be pending deletion",
	"kms:KeyNotFound":              "there is no such KMS key",
}

// causes are the codes that have the remedy of another one.
var causes = map[string]string{
	"XAdminUserNotFound":           "InvalidAccessKeyId",
	"ExpiredTokenException":        "ExpiredToken",
	"TokenRefreshRequired":         "ExpiredToken",
	"InvalidToken":                 "ExpiredToken",
	"InvalidTokenId":               "ExpiredToken",
	"MethodNotAllowed":             "NotImplemented",
	"PermanentRedirect":            remedy.OtherRegion,
	"AuthorizationHeaderMalformed": remedy.OtherRegion,

	"IllegalLocationConstraintException": remedy.OtherRegion,

	"KMS.NotFoundException":        remedy.KMS,
	"KMS.InvalidKeyUsageException": remedy.KMS,
	"KMS.DisabledException":        remedy.KMS,
	"KMS.KMSInvalidStateException": remedy.KMS,
	"kms:KeyNotFound":              remedy.KMS,
}

// caused is an error with the cause that remedies go by.
type caused struct {
	error
	cause string
}

func (c *caused) Cause() string { return c.cause }
func (c *caused) Unwrap() error { return c.error }

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
		if region := cmp.Or(r.header.Get(headerRegion), r.region); region != "" && a.kind == mover.ErrUsage {
			a.code, a.message, a.cause = "", "the bucket is in region "+region, remedy.OtherRegion
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
	var found minio.ErrorResponse
	switch {
	case errors.As(err, &found) && codes[found.Code] != nil: // in an answer that was no error
		return &answer{status: r.status, code: found.Code, message: found.Message, kind: codes[found.Code]}
	case r.calls == 0 && KindOf(err) == nil && !errors.As(err, &sending):
		return fmt.Errorf("%w: %w", mover.ErrUsage, bared(err)) // the client refused to send it
	}
	return broken(err)
}

// closedByPeer is what minio-go says in place of io.EOF, with the URL.
const closedByPeer = "Connection closed by foreign host"

// bared is err without what the clients put around it: their names for the call, its URL, and the identity of a request that had none.
func bared(err error) error {
	var ours *ringError
	var sending *url.Error
	var call *smithy.OperationError
	switch {
	case errors.As(err, &ours):
		return ours
	case errors.As(err, &sending) && (errors.Is(sending.Err, io.EOF) || strings.HasPrefix(sending.Err.Error(), closedByPeer)):
		return errors.New("the server closed the connection without an answer")
	case errors.As(err, &sending):
		return sending.Err
	case errors.As(err, &call):
		return call.Err
	}
	return err
}

// noListing says which call it is that a store can not do.
func noListing(err error) error {
	if !errors.Is(err, mover.ErrUnsupported) {
		return err
	}
	return fmt.Errorf("the store does not list by ListObjectsV2: %w", err)
}

// noUploads reports whether a listing of uploads says that there are none, as rclone does (serve s3, v1.75): S3 has this code for an upload that is named.
func noUploads(err error) bool {
	var told *answer
	return errors.As(err, &told) && told.code == "NoSuchUpload"
}

// errCutListing is the error of a listing that says there is more, and not how to ask for it.
var errCutListing error = &answer{status: http.StatusOK, code: "NotImplemented", message: "a listing is cut off, and its answer has no continuation token", kind: mover.ErrUnsupported}

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
	err = bared(err)
	switch {
	case KindOf(err) != nil:
		return err
	case isCertificate(err):
		return &caused{fmt.Errorf("%w: %w", mover.ErrUnreachable, err), refusal(err)}
	case errors.As(err, &dns) && !dns.IsTemporary,
		errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		errors.As(err, &op) && op.Op == "dial":
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	case errors.As(err, &timeout) && timeout.Timeout():
		return fmt.Errorf("%w: %w: %w", mover.ErrTransient, mover.ErrTimeout, err)
	}
	return fmt.Errorf("%w: %w", mover.ErrTransient, err)
}

// KindOf is the kind that err already has; nil if none. Errors of the network
// that only look like one of a file do not count.
func KindOf(err error) error {
	for _, kind := range mover.Kinds() {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return nil
}

// Lasting marks an error of the first call to a store that is one of its address. Later on it may be one of a store, or of a server of names, that
// is being restarted.
func Lasting(err error) error {
	var dns *net.DNSError
	var plain tls.RecordHeaderError
	if isCertificate(err) || errors.As(err, &dns) && dns.IsNotFound || errors.As(err, &plain) {
		return mover.Lasting(err)
	}
	return err
}

// refusal is why a certificate is refused, as package remedy has it.
func refusal(err error) string {
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &host):
		return remedy.OtherHost
	case errors.As(err, &invalid):
		return remedy.Expired
	}
	return remedy.Certificate
}

// isCertificate reports whether the server's certificate was refused: no try helps.
func isCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// BodyError classifies an error from reading a body.
func BodyError(ctx context.Context, err error) error {
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

// Declined reports whether a call has certainly done nothing: it was never sent, or
// the server said no. What gateways say in its place (5xx, 408) is no such word.
func Declined(err error) bool {
	var a *answer
	if errors.As(err, &a) {
		return 300 <= a.status && a.status < 500 && a.status != http.StatusRequestTimeout
	}
	return errors.Is(err, mover.ErrUnreachable) || errors.Is(err, mover.ErrUsage) || errors.Is(err, mover.ErrPermission)
}

// Unanswered reports whether an error says nothing of what a store can do: it was busy, and has done nothing, or its answer was lost on
// the way. An internal error is an answer: some stores have no other one for what they do not know.
func Unanswered(err error) (busy, lost bool) {
	var told *answer
	switch {
	case !errors.Is(err, mover.ErrTransient) && !errors.Is(err, mover.ErrUnreachable):
		return false, false
	case !errors.As(err, &told):
		return false, true
	}
	busy = told.status == http.StatusServiceUnavailable || told.status == http.StatusTooManyRequests || told.status == http.StatusConflict
	return busy, told.status == http.StatusBadGateway || told.status == http.StatusGatewayTimeout
}
