package api

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// remote is an error that came over gRPC. It prints the sentence that it came with,
// and wraps a mover.Error of its kinds.
type remote struct {
	sentence string
	cause    error // may be nil
	status   *status.Status
	said     bool // by the service: else the way there failed
}

func (r *remote) Error() string { return r.sentence }

func (r *remote) Unwrap() error { return r.cause }

// GRPCStatus is what status.FromError looks for.
func (r *remote) GRPCStatus() *status.Status { return r.status }

// kindOfCode says what a code means when nothing else is said: an error of the
// connection, of a proxy, or of a service that is not ours. ResourceExhausted is
// then a message that is too large, and no full disk to wait for.
var kindOfCode = map[codes.Code]error{
	codes.Canceled:           context.Canceled,
	codes.InvalidArgument:    mover.ErrUsage,
	codes.DeadlineExceeded:   mover.ErrTimeout,
	codes.NotFound:           mover.ErrNotExist,
	codes.AlreadyExists:      mover.ErrConflict,
	codes.PermissionDenied:   mover.ErrPermission,
	codes.ResourceExhausted:  mover.ErrRefused,
	codes.FailedPrecondition: mover.ErrRefused,
	codes.Aborted:            mover.ErrChanged,
	codes.OutOfRange:         mover.ErrUsage,
	codes.Unimplemented:      mover.ErrUnsupported,
	codes.Unavailable:        mover.ErrUnreachable,
	codes.DataLoss:           mover.ErrCorrupt,
	codes.Unauthenticated:    mover.ErrPermission,
}

// FromStatus is the inverse of ToStatus: an error of the same kinds that prints
// the same sentence. Errors that gRPC did not carry stay what they are.
func FromStatus(err error) error {
	var carried interface{ GRPCStatus() *status.Status }
	var already *remote
	if !errors.As(err, &carried) || errors.As(err, &already) {
		return err
	}
	s := carried.GRPCStatus()
	if s.Code() == codes.OK {
		return err
	}
	r := &remote{sentence: printable(s.Message()), status: s}
	info, after := details(s)
	at := &mover.Error{After: after, Err: kindsOf(s.Code(), info, after)}
	if info != nil {
		r.said = true
		at.Op, at.Location, at.Name = get(info.Metadata, "op"), get(info.Metadata, "place"), get(info.Metadata, "name")
	}
	if at.Err != nil || at.Op != "" {
		r.cause = at
	}
	if size, most, is := oversized(s); is {
		r.sentence = fmt.Sprintf("a message of %s; at most %s are taken at once", units.Bytes(size), units.Bytes(most))
		return &oversize{r}
	}
	return r
}

// oversize is the error of a message that gRPC does not take.
type oversize struct{ *remote }

func (o *oversize) Unwrap() error { return o.remote }

// Advice is what a person can do.
func (o *oversize) Advice() string { return "several requests with less in each, like shorter lists" }

// oversized finds the sizes in what gRPC says of such a message (rpc_util.go, stream.go of grpc-go).
func oversized(s *status.Status) (size, most int64, is bool) {
	_, sizes, found := strings.Cut(s.Message(), "larger than max (")
	if s.Code() != codes.ResourceExhausted || !found {
		return 0, 0, false
	}
	n, _ := fmt.Sscanf(sizes, "%d vs. %d)", &size, &most)
	return size, most, n == 2
}

// details finds what the service said beside code and sentence; nil if nothing.
func details(s *status.Status) (info *errdetails.ErrorInfo, after time.Duration) {
	for _, d := range s.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.Domain == domain {
				info = d
			}
		case *errdetails.RetryInfo:
			after = max(0, d.RetryDelay.AsDuration())
		}
	}
	return info, after
}

// kindsOf returns the kinds as one error; nil if there are none. A name that this
// version does not know counts as its code does.
func kindsOf(code codes.Code, info *errdetails.ErrorInfo, after time.Duration) error {
	if info != nil {
		var kinds []error
		for name := range strings.SplitSeq(info.Reason+","+info.Metadata["also"], ",") {
			if kind := KindNamed(name); kind != nil {
				kinds = append(kinds, kind)
			}
		}
		all := errors.Join(kinds...)
		if code == later.code && errors.Is(all, mover.ErrRefused) {
			return mover.OverQuota(all)
		}
		if all != nil || info.Reason == other {
			return all
		}
	}
	switch {
	case after > 0:
		return mover.ErrTransient
	case code == codes.DeadlineExceeded:
		return errors.Join(mover.ErrTimeout, context.DeadlineExceeded)
	}
	return kindOfCode[code]
}

// afterOf is how long to wait before another try; 0 is not known.
func afterOf(err error) time.Duration {
	var at *mover.Error
	if errors.As(err, &at) {
		return at.After
	}
	return 0
}

// answered reports whether the service itself said err.
func answered(err error) bool {
	var r *remote
	return errors.As(err, &r) && r.said
}

// printable takes out of a sentence what could play with a terminal.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsGraphic(r) {
			return r
		}
		return unicode.ReplacementChar
	}, clip(s))
}
