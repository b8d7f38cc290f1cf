package s3api

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/url"
	"syscall"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/remedy"
)

// TestCodes: every code and status that the table knows has a kind of mover, and
// what it does not know is no success.
func TestCodes(t *testing.T) {
	for code := range codes {
		if KindOf((&reply{status: 400, code: code}).kind()) == nil {
			t.Errorf("%s has no kind", code)
		}
	}
	for _, row := range []struct {
		status int
		code   string
		want   error
	}{
		{503, "SlowDown", mover.ErrTransient},
		{503, "NeverHeardOf", mover.ErrTransient},
		{502, "", mover.ErrTransient},
		{429, "", mover.ErrTransient},
		{200, "InternalError", mover.ErrTransient},
		{404, "", mover.ErrNotExist},
		{403, "", mover.ErrPermission},
		{403, "QuotaExceeded", mover.ErrFull},
		{507, "", mover.ErrFull},
		{507, "XMinioStorageFull", mover.ErrFull},
		{400, "XMinioAdminBucketQuotaExceeded", mover.ErrFull},
		{403, "ObjectQuotaExceeded", mover.ErrFull},
		{200, "InsufficientStorage", mover.ErrFull}, // of CompleteMultipartUpload
		{409, "", mover.ErrConflict},
		{409, "ConditionalRequestConflict", mover.ErrTransient},
		{400, "InvalidPart", mover.ErrChanged},
		{412, "", mover.ErrChanged},
		{400, "BadDigest", mover.ErrCorrupt},
		{400, "NeverHeardOf", mover.ErrUsage},
		{501, "", mover.ErrUnsupported},
	} {
		if got := (&reply{status: row.status, code: row.code}).kind(); got != row.want {
			t.Errorf("HTTP %d %s is %v, want %v", row.status, row.code, got, row.want)
		}
	}
}

// TestRefusals: why a certificate is refused has a remedy of its own.
func TestRefusals(t *testing.T) {
	remedies := map[string]bool{}
	for _, row := range []struct {
		err  error
		want string
	}{
		{x509.UnknownAuthorityError{}, remedy.Certificate},
		{x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"store.site"}}, Host: "10.0.0.1"}, remedy.OtherHost},
		{x509.CertificateInvalidError{Reason: x509.Expired}, remedy.Expired},
	} {
		err := &mover.Error{Op: "open", Location: "s3://b", Err: Lasting(broken(&url.Error{Op: "Get", Err: &tls.CertificateVerificationError{Err: row.err}}))}
		c := remedy.Of(err, mover.ErrUnreachable)
		if c.Cause != row.want || !errors.Is(err, mover.ErrLasting) {
			t.Errorf("%v: %+v", err, c)
		}
		remedies[remedy.For(c)] = true
	}
	if len(remedies) != 3 {
		t.Errorf("the remedies are %v", remedies)
	}
}

// TestLasting: what of the first call to a store is one of its address, and passes with no wait.
func TestLasting(t *testing.T) {
	for _, row := range []struct {
		err  error
		want bool
	}{
		{&tls.CertificateVerificationError{Err: errors.New("of another host")}, true},
		{tls.RecordHeaderError{Msg: "it speaks no TLS"}, true},
		{&net.DNSError{IsNotFound: true}, true},
		{&net.DNSError{IsTemporary: true}, false},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, false},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, false},
		{io.ErrUnexpectedEOF, false},
	} {
		err := Lasting(broken(&url.Error{Op: "Get", Err: row.err}))
		if got := errors.Is(err, mover.ErrLasting); got != row.want || retry.Passing(err) == row.want {
			t.Errorf("%v lasts: %v, want %v", err, got, row.want)
		}
	}
}
