package aws

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"go.uber.org/goleak"

	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/test/aws"
	"datamove.dev/tiering/burst"
)

// Who says who we are for AWS: an ARN. It is the shortest call to STS, whose errors are in a protocol of their own.
func (a *Account) Who(ctx context.Context) (string, error) {
	out, err := a.sts.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return "", a.failed("ask", "who we are", err)
	}
	return sdk.ToString(out.Arn), nil
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := aws.CloseValidator(); err != nil {
			fmt.Fprintln(os.Stderr, "the judge of AWS's protocols:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// empty is an S3 that takes everything, and has nothing.
func empty() *aws.Store {
	return &aws.Store{Endpoint: "http://s3.test", Access: "a", Secret: "b", Client: aws.Through(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut:
		case r.URL.Query().Get("list-type") == "2":
			_, _ = io.WriteString(w, "<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>")
		default:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
		}
	}))}
}

// owner is who may do everything.
func owner() Options {
	return Options{Region: "us-east-1", Keys: s3api.Session{Keys: aws.Static(aws.OwnerKey, aws.OwnerSecret, "")}, Backoff: time.Millisecond}
}

// with is an account whose calls go to a handler of this process.
func with(h http.Handler, o Options) *Account { return open(o, aws.Through(h)) }

// scratch is the smallest file system, with a token.
func scratch(token string) Want {
	return Want{FileSystem: burst.FileSystem{Type: burst.Scratch2, Subnet: "subnet-0123456789abcdef0"}, Token: token, GiB: 1200, Tags: map[string]string{burst.TagBurst: token}}
}

// is fails the test unless an error is of a kind; nil is no error.
func is(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) || kind == nil && err != nil {
		t.Fatalf("the error is %v, and not %v", err, kind)
	}
}

// operation is what a request asks for.
func operation(r *http.Request) (name string, body []byte) {
	body, _ = io.ReadAll(r.Body)
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndexByte(target, '.')+1:], body
	}
	form, _ := url.ParseQuery(string(body))
	return form.Get("Action"), body
}

// says answers each operation with a text, and tells how often it was asked.
type says struct {
	answers map[string]string
	status  int
	mu      sync.Mutex
	asked   map[string]int
}

func (s *says) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _ := operation(r)
	s.mu.Lock()
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[name]++
	s.mu.Unlock()
	w.Header().Set("Content-Type", "text/xml")
	if r.Header.Get("X-Amz-Target") != "" {
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
	}
	if s.status > 0 {
		w.WriteHeader(s.status)
	}
	_, _ = io.WriteString(w, s.answers[name])
}

// written is a log that a test reads.
type written struct {
	mu sync.Mutex
	bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Buffer.Write(p)
}

func logger(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
