package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/grpclog"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) {
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard)) // clients that go away are no news
	goleak.VerifyTestMain(m)
}

// carry brings an error over, as gRPC does: what is left of it is a status.
func carry(t *testing.T, err error) error {
	t.Helper()
	sent, is := status.FromError(ToStatus(err))
	if !is {
		t.Fatalf("%v is no status", err)
	}
	wire, err := proto.Marshal(sent.Proto())
	must.Do(t, err)
	came := sent.Proto()
	proto.Reset(came)
	must.Do(t, proto.Unmarshal(wire, came))
	return FromStatus(status.FromProto(came).Err())
}

// TestKinds fails when mover has a kind of error that does not survive the way.
func TestKinds(t *testing.T) {
	names := map[string]bool{}
	for _, kind := range append(mover.Kinds(), context.Canceled) {
		if _, known := meanings[kind]; !known {
			t.Errorf("%v has no meaning", kind)
		}
		name := KindName(fmt.Errorf("somewhere: %w", kind))
		if names[name] || name == "OTHER" || KindNamed(name) != kind {
			t.Errorf("%v has the name %s, which is of %v", kind, name, KindNamed(name))
		}
		names[name] = true

		err := &mover.Error{Op: "open", Location: "s3://cold/vision", Name: "part-0007", Err: fmt.Errorf("%w: it is so", kind)}
		got := carry(t, err)
		if got.Error() != err.Error() {
			t.Errorf("%v prints %q", err, got)
		}
		for _, other := range append(mover.Kinds(), context.Canceled) {
			if errors.Is(got, other) != (other == kind) {
				t.Errorf("%v arrives as %v: %v", kind, other, errors.Is(got, other))
			}
		}
		var at *mover.Error
		if !errors.As(got, &at) || at.Op != "open" || at.Location != "s3://cold/vision" || at.Name != "part-0007" {
			t.Errorf("%v arrives at %+v", kind, at)
		}
		if again := carry(t, fmt.Errorf("ask node7: %w", got)); !errors.Is(again, kind) || again.Error() != "ask node7: "+err.Error() {
			t.Errorf("%v passed on is %v", kind, again)
		}
	}
	if len(names) != len(meanings) {
		t.Errorf("%d kinds have names, %d have meanings", len(names), len(meanings))
	}
}

func TestKindName(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{nil, ""},
		{errors.New("?"), "OTHER"},
		{context.DeadlineExceeded, "TIMEOUT"},
		{errors.Join(mover.ErrCorrupt, context.DeadlineExceeded), "CORRUPT"},
		{errors.Join(mover.ErrCorrupt, context.Canceled), "CANCELLED"},
	} {
		if got := KindName(row.err); got != row.want {
			t.Errorf("%v is %s, want %s", row.err, got, row.want)
		}
	}
	if KindNamed("OTHER") != nil || KindNamed("") != nil || KindNamed("NEVER_HEARD_OF") != nil {
		t.Error("there is a kind without a name")
	}
}

func TestSeveralKinds(t *testing.T) {
	got := carry(t, fmt.Errorf("read: %w: %w: the answer broke off", mover.ErrTransient, mover.ErrTimeout))
	if !errors.Is(got, mover.ErrTransient) || !errors.Is(got, mover.ErrTimeout) || errors.Is(got, mover.ErrFull) {
		t.Errorf("%v lost a kind", got)
	}
	got = carry(t, errors.Join(mover.ErrCorrupt, context.Canceled))
	if !errors.Is(got, mover.ErrCorrupt) || !errors.Is(got, context.Canceled) {
		t.Errorf("%v lost a kind", got)
	}
}

func TestRateLimit(t *testing.T) {
	err := &mover.Error{Op: "submit", Location: "/x", Err: mover.ErrTransient, After: 3 * time.Second}
	got := carry(t, err)
	var at *mover.Error
	if !errors.As(got, &at) || at.After != 3*time.Second || !errors.Is(got, mover.ErrTransient) {
		t.Errorf("came over as %+v", at)
	}
	if code := status.Code(got); code != codes.ResourceExhausted {
		t.Errorf("the code is %v, which clients may repeat at once", code)
	}
	if meaningOf(got).http != 429 || meaningOf(mover.ErrTransient).http != 503 {
		t.Error("a rate limit has the wrong HTTP status")
	}
}

// An account that has reached its quota hears so over gRPC and over HTTP, with a code that clients do not repeat at once.
func TestOverQuota(t *testing.T) {
	got := carry(t, &mover.Error{Op: "hold", Location: "quota tasks", Err: mover.OverQuota(fmt.Errorf("%w: alice has 5 of 5", mover.ErrRefused))})
	if !errors.Is(got, mover.ErrRefused) || !errors.Is(got, mover.ErrQuota) || status.Code(got) != codes.ResourceExhausted || meaningOf(got).http != 429 {
		t.Errorf("came over as %v, %v, HTTP %d", got, status.Code(got), meaningOf(got).http)
	}
	if other := carry(t, mover.ErrRefused); errors.Is(other, mover.ErrQuota) || status.Code(other) != codes.FailedPrecondition || meaningOf(other).http != 409 {
		t.Errorf("another refusal is %v, HTTP %d", other, meaningOf(other).http)
	}
}

// Names are hostile: they come over as they are, or not at all.
func TestHostileNames(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{"a\xffb", "a\xffb"},
		{"日本", "日本"},
		{"a\x1b[31m\n", "a\x1b[31m\n"},
		{strings.Repeat("x", maxName), strings.Repeat("x", maxName)},
		{strings.Repeat("x", maxName+1), ""},
	} {
		err := &mover.Error{Op: "open", Location: "/\xfe", Name: row.name, Err: mover.ErrNotExist}
		got := carry(t, err)
		var at *mover.Error
		if !errors.As(got, &at) || at.Name != row.want || at.Location != "/\xfe" {
			t.Errorf("%.40q arrives as %.40q", row.name, at.Name)
		}
		if !errors.Is(got, mover.ErrNotExist) || !utf8.ValidString(got.Error()) || len(got.Error()) > maxSentence+8 {
			t.Errorf("%.40q: the sentence is %q", row.name, got)
		}
	}
}

func TestSentencesAreBoundedAndPlain(t *testing.T) {
	got := carry(t, fmt.Errorf("%w: %s", mover.ErrUsage, strings.Repeat("é", maxSentence)))
	if n := len(got.Error()); n < maxSentence || n > maxSentence+8 || !errors.Is(got, mover.ErrUsage) {
		t.Errorf("a sentence of %d bytes", n)
	}
	if got := FromStatus(status.Error(codes.Unknown, "a\x1b[2J\u202eb\tc\nd")).Error(); got != "a\uFFFD[2J\uFFFDb\tc\nd" {
		t.Errorf("prints %q", got)
	}
}

// What others than our service say has the kind of its code.
func TestBareCodes(t *testing.T) {
	for code := codes.Canceled; code <= codes.Unauthenticated; code++ {
		got := FromStatus(status.Error(code, "because"))
		if got.Error() != "because" || status.Code(got) != code || answered(got) {
			t.Errorf("%v: %v, code %v", code, got, status.Code(got))
		}
		kind := kindOfCode[code]
		if unknown := code == codes.Unknown || code == codes.Internal; (kind == nil) != unknown || kind != nil && !errors.Is(got, kind) {
			t.Errorf("%v is of the kind %v, want %v", code, KindName(got), kind)
		}
	}
	if got := FromStatus(status.Error(codes.DeadlineExceeded, "")); !errors.Is(got, context.DeadlineExceeded) {
		t.Error("a deadline is none of context")
	}
	retries := fmt.Errorf("max retries exhausted: failed after 4 attempts: %w", status.Error(codes.Unavailable, "nobody there"))
	if got := FromStatus(retries); got.Error() != "nobody there" || !errors.Is(got, mover.ErrUnreachable) {
		t.Errorf("the noise stays: %v", got)
	}
}

func TestUntouched(t *testing.T) {
	if ToStatus(nil) != nil || FromStatus(nil) != nil || FromStatus(io.EOF) != io.EOF {
		t.Error("what is no error of gRPC was changed")
	}
	bare := status.Error(codes.Unimplemented, "no such method")
	if ToStatus(bare) != bare {
		t.Error("a status of gRPC was changed")
	}
	got := carry(t, errors.New("out of luck"))
	if got.Error() != "out of luck" || !answered(got) || KindName(got) != "OTHER" || status.Code(got) != codes.Unknown {
		t.Errorf("%v, of kind %s", got, KindName(got))
	}
	if again := FromStatus(got); again != got {
		t.Error("translated twice")
	}
}

// A kind that only a later version knows counts as its code does.
func TestUnknownKind(t *testing.T) {
	s := must.Get(status.New(codes.FailedPrecondition, "too much").WithDetails(&errdetails.ErrorInfo{Reason: "EXORBITANT", Domain: domain}))(t)
	got := FromStatus(s.Err())
	if !errors.Is(got, mover.ErrRefused) || !answered(got) {
		t.Errorf("%v is of kind %s", got, KindName(got))
	}
}
