package api

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/mover"
)

// domain says of an ErrorInfo that its reason is one of our kinds.
const domain = "datamove.dev"

// Bounds on what an error takes along.
const (
	maxSentence = 4 << 10
	maxName     = 4 << 10 // a longer one stays behind: a part of a name is another name
)

// meaning is what a kind of error is on the wire.
type meaning struct {
	code codes.Code
	http int
}

// meanings is the one translation of kinds. Several share a code; which one it was
// is in the ErrorInfo.
var meanings = map[error]meaning{
	mover.ErrNotExist:    {codes.NotFound, http.StatusNotFound},
	mover.ErrPermission:  {codes.PermissionDenied, http.StatusForbidden},
	mover.ErrUsage:       {codes.InvalidArgument, http.StatusBadRequest},
	mover.ErrChanged:     {codes.Aborted, http.StatusConflict},
	mover.ErrHeld:        {codes.FailedPrecondition, http.StatusConflict},
	mover.ErrConflict:    {codes.AlreadyExists, http.StatusConflict},
	mover.ErrCorrupt:     {codes.DataLoss, http.StatusInternalServerError},
	mover.ErrFull:        {codes.ResourceExhausted, http.StatusInsufficientStorage},
	mover.ErrRefused:     {codes.FailedPrecondition, http.StatusConflict},
	mover.ErrUnreachable: {codes.Unavailable, http.StatusBadGateway},
	mover.ErrTimeout:     {codes.DeadlineExceeded, http.StatusGatewayTimeout},
	mover.ErrTransient:   {codes.Unavailable, http.StatusServiceUnavailable},
	mover.ErrReleased:    {codes.FailedPrecondition, http.StatusConflict},
	mover.ErrUnsupported: {codes.Unimplemented, http.StatusNotImplemented},

	context.Canceled: {codes.Canceled, 499}, // as other gateways have it
}

// later is ErrTransient with a time to wait, a rate limit, and ErrRefused by the quota of an account. It has a
// code that clients do not repeat at once.
var later = meaning{codes.ResourceExhausted, http.StatusTooManyRequests}

// Names of errors that are of no kind of mover: those of context.Canceled, and of
// all others.
const (
	cancelled = "CANCELLED"
	other     = "OTHER"
)

// KindName is the name by which the kind of err travels, as in ErrorInfo.reason
// and Failure.error_kind: NOT_EXIST, CORRUPT, and so on; CANCELLED when its context
// was cancelled, OTHER when it is of no kind, and "" when it is nil.
func KindName(err error) string {
	switch name := mover.KindName(err); {
	case errors.Is(err, context.Canceled):
		return cancelled
	case name == other && errors.Is(err, context.DeadlineExceeded):
		return mover.KindName(mover.ErrTimeout)
	default:
		return name
	}
}

// KindNamed is the inverse of KindName; nil when there is no kind of that name.
func KindNamed(name string) error {
	if name == cancelled {
		return context.Canceled
	}
	return mover.KindNamed(name)
}

// ToStatus returns err as gRPC carries it: with the code and name of its kind,
// its sentence, and where a [mover.Error] says it happened. An error that is of no kind
// and has a gRPC status stays what it is.
func ToStatus(err error) error {
	if err == nil {
		return nil
	}
	name := KindName(err)
	if _, is := status.FromError(err); is && name == other {
		return err
	}
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: name, Domain: domain, Metadata: beside(name, err)}}
	if after := afterOf(err); after > 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(after)})
	}
	s := status.New(meaningOf(err).code, clip(err.Error()))
	if full, detailErr := s.WithDetails(details...); detailErr == nil {
		s = full
	}
	return s.Err()
}

// meaningOf is the line of the table for err.
func meaningOf(err error) meaning {
	kind := KindNamed(KindName(err))
	if kind == mover.ErrTransient && afterOf(err) > 0 || kind == mover.ErrRefused && errors.Is(err, mover.ErrQuota) {
		return later
	}
	if m, ok := meanings[kind]; ok {
		return m
	}
	return meaning{codes.Unknown, http.StatusInternalServerError}
}

// beside is what an ErrorInfo says beside its reason: other kinds that err is of,
// and the place of a mover.Error.
func beside(reason string, err error) map[string]string {
	said := map[string]string{}
	var also []string
	for _, kind := range mover.Kinds() {
		if name := mover.KindName(kind); name != reason && errors.Is(err, kind) {
			also = append(also, name)
		}
	}
	put(said, "also", strings.Join(also, ","))
	var at *mover.Error
	if errors.As(err, &at) {
		put(said, "op", at.Op)
		put(said, "place", at.Location)
		put(said, "name", at.Name)
	}
	return said
}

// base64Suffix marks a value that is in base64 because it is not UTF-8.
const base64Suffix = "_base64"

func put(said map[string]string, key, value string) {
	switch {
	case value == "" || len(value) > maxName:
	case utf8.ValidString(value):
		said[key] = value
	default:
		said[key+base64Suffix] = base64.StdEncoding.EncodeToString([]byte(value))
	}
}

// get is the inverse of put.
func get(said map[string]string, key string) string {
	if value, plain := said[key]; plain {
		return value
	}
	value, err := base64.StdEncoding.DecodeString(said[key+base64Suffix])
	if err != nil {
		return ""
	}
	return string(value)
}

// clip makes a sentence that a protobuf string can hold, of bounded length.
func clip(s string) string {
	if len(s) > maxSentence {
		s = s[:maxSentence] + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}
