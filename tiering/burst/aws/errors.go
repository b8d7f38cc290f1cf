package aws

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"datamove.dev/mover"
)

// kinds are the errors of AWS that are one of mover's, by their codes, as the API references of FSx, STS, EC2, CloudWatch and Cost Explorer have them.
var kinds = map[string]error{
	"FileSystemNotFound": mover.ErrNotExist, "DataRepositoryAssociationNotFound": mover.ErrNotExist, "DataRepositoryTaskNotFound": mover.ErrNotExist, "ResourceNotFound": mover.ErrNotExist,
	"ResourceNotFoundException": mover.ErrNotExist, "InvalidInstanceID.NotFound": mover.ErrNotExist,

	"AccessDenied": mover.ErrPermission, "AccessDeniedException": mover.ErrPermission, "UnauthorizedOperation": mover.ErrPermission, "UnrecognizedClientException": mover.ErrPermission,
	"InvalidClientTokenId": mover.ErrPermission, "SignatureDoesNotMatch": mover.ErrPermission, "InvalidSignatureException": mover.ErrPermission, "AuthFailure": mover.ErrPermission,
	"ExpiredToken": mover.ErrPermission, "ExpiredTokenException": mover.ErrPermission, "RequestExpired": mover.ErrPermission, "RequestTimeTooSkewed": mover.ErrPermission,
	"MissingAuthenticationToken": mover.ErrPermission, "MissingAuthenticationTokenException": mover.ErrPermission, "IncompleteSignature": mover.ErrPermission, "OptInRequired": mover.ErrPermission,
	"NotAuthorized": mover.ErrPermission, "RegionDisabledException": mover.ErrPermission, "Blocked": mover.ErrPermission, "PendingVerification": mover.ErrPermission,

	"DataRepositoryTaskExecuting": mover.ErrHeld, "IncompatibleParameterError": mover.ErrConflict, "DataRepositoryTaskEnded": mover.ErrConflict, "IncorrectInstanceState": mover.ErrConflict,
	"IncorrectState": mover.ErrConflict, "ResourceDoesNotSupportTagging": mover.ErrUnsupported,

	"ServiceLimitExceeded": mover.ErrFull, "InsufficientCapacityException": mover.ErrFull,

	"BadRequest": mover.ErrUsage, "ValidationException": mover.ErrUsage, "ValidationError": mover.ErrUsage, "MissingFileSystemConfiguration": mover.ErrUsage, "InvalidNetworkSettings": mover.ErrUsage,
	"InvalidPerUnitStorageThroughput": mover.ErrUsage, "InvalidImportPath": mover.ErrUsage, "InvalidExportPath": mover.ErrUsage, "InvalidRegion": mover.ErrUsage,
	"InvalidDataRepositoryType": mover.ErrUsage, "InvalidDestinationKmsKey": mover.ErrUsage, "MalformedPolicyDocument": mover.ErrUsage, "PackedPolicyTooLarge": mover.ErrUsage,
	"InvalidParameterValue": mover.ErrUsage, "InvalidParameterCombination": mover.ErrUsage, "MissingParameter": mover.ErrUsage, "MissingRequiredParameter": mover.ErrUsage, "InvalidInstanceID.Malformed": mover.ErrUsage,

	"UnsupportedOperation": mover.ErrUnsupported, "InvalidAction": mover.ErrUnsupported, "UnknownOperationException": mover.ErrUnsupported,

	"ThrottlingException": mover.ErrTransient, "Throttling": mover.ErrTransient, "ThrottledException": mover.ErrTransient, "RequestLimitExceeded": mover.ErrTransient, "RequestThrottled": mover.ErrTransient,
	"RequestThrottledException": mover.ErrTransient, "TooManyRequestsException": mover.ErrTransient, "LimitExceededException": mover.ErrTransient, // of Cost Explorer: too many calls in a short time
	"InternalServerError": mover.ErrTransient, "InternalError": mover.ErrTransient, "InternalFailure": mover.ErrTransient, "InternalServiceFault": mover.ErrTransient, "InternalServiceError": mover.ErrTransient,
	"ServiceUnavailable": mover.ErrTransient, "ServiceUnavailableException": mover.ErrTransient, "Unavailable": mover.ErrTransient, "DataUnavailableException": mover.ErrTransient,
	"RequestTimeout": mover.ErrTransient, "RequestTimeoutException": mover.ErrTransient,
}

// statuses are the kinds of answers that have no code that is known: a proxy may have given them.
func statusKind(status int) error {
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusProxyAuthRequired:
		return mover.ErrPermission
	case status == http.StatusTooManyRequests || status >= http.StatusInternalServerError:
		return mover.ErrTransient
	}
	return nil
}

// kindOf is the kind of an error of a call; nil is that it has none, or has it already.
func kindOf(err error) error {
	if errors.Is(err, context.Canceled) || slices.ContainsFunc(mover.Kinds(), func(kind error) bool { return errors.Is(err, kind) }) {
		return nil
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		if kind := kinds[api.ErrorCode()]; kind != nil {
			return kind
		}
	}
	var answered *smithyhttp.ResponseError
	if errors.As(err, &answered) {
		if kind := statusKind(answered.HTTPStatusCode()); kind != nil || api != nil {
			return kind
		}
	}
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout():
		return mover.ErrTimeout
	case errors.As(err, new(*smithyhttp.RequestSendError)), errors.As(err, new(*net.OpError)):
		return mover.ErrUnreachable
	case errors.As(err, new(*smithy.DeserializationError)), errors.As(err, new(*http.MaxBytesError)):
		return mover.ErrCorrupt
	}
	return nil
}

// failed says what a call did not do, and to what. It is nil when nothing failed.
func (a *Account) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	a.doubt(err)
	why := brief(err)
	if kind := kindOf(err); kind != nil {
		why = fmt.Errorf("%w: %w", kind, why)
	}
	return &mover.Error{Op: op, Location: "AWS " + a.region, Name: name, Err: why}
}

// refusedKeys are the errors of AWS that say of keys that they are none, or not any more.
var refusedKeys = []string{"ExpiredToken", "ExpiredTokenException", "RequestExpired", "UnrecognizedClientException", "InvalidClientTokenId"}

// doubt has the next call ask for other keys where AWS did not take those of a session, whatever our clock says.
func (a *Account) doubt(err error) {
	var api smithy.APIError
	if errors.As(err, &api) && slices.Contains(refusedKeys, api.ErrorCode()) {
		if cache, is := a.keys.(*aws.CredentialsCache); is {
			cache.Invalidate()
		}
	}
}

// textMost bounds what of an error of others is told.
const textMost = 500

// brief is an error of a call without what around it only says which call it was.
func brief(err error) error {
	var ours *mover.Error // what the call needed, and did not get: keys
	if errors.As(err, &ours) {
		return ours
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		return fmt.Errorf("%s: %.*s", mover.Printable(api.ErrorCode()), textMost, mover.Printable(api.ErrorMessage()))
	}
	if text := err.Error(); len(text) > textMost || mover.Printable(text) != text {
		return &told{err, fmt.Sprintf("%.*s", textMost, mover.Printable(text))}
	}
	return err
}

// told is an error that prints otherwise.
type told struct {
	error
	text string
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.error }

// odd says that an answer is none that AWS gives: nothing is concluded from it.
func odd(format string, args ...any) error {
	return fmt.Errorf("%w: an answer that does not fit: %s", mover.ErrCorrupt, fmt.Sprintf(format, args...))
}

// The forms of IDs, as the API references have them: they are parts of names and of command lines.
var (
	systemForm      = mover.Pattern(`^fs-[0-9a-f]{8,40}$`)
	associationForm = mover.Pattern(`^dra-[0-9a-f]{8,40}$`)
	taskForm        = mover.Pattern(`^task-[0-9a-f]{17,40}$`)
	instanceForm    = mover.Pattern(`^i-[0-9a-f]{8,40}$`)
	nameForm        = mover.Pattern(`^[A-Za-z0-9._-]{0,255}$`) // of hosts and mounts
)

// pagesMost bounds a listing: an account may have some hundreds of each.
const pagesMost = 1000

// pages turns the pages of a listing.
func (a *Account) pages(name string, more func() bool, next func() error) error {
	for range pagesMost {
		if !more() {
			return nil
		}
		if err := next(); err != nil {
			return a.failed("list", name, err)
		}
	}
	return a.failed("list", name, odd("it has no end"))
}
