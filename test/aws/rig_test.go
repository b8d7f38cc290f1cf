package aws

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/fsx"
	"github.com/aws/aws-sdk-go-v2/service/fsx/types"
	"github.com/aws/smithy-go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := CloseValidator(); err != nil {
			fmt.Fprintln(os.Stderr, "the judge of AWS's protocols:", err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// serve makes a server of which botocore judges every request and reply, where there is one.
func serve(t *testing.T, o Options) *Server {
	t.Helper()
	v, err := theValidator()
	switch {
	case errors.Is(err, errNoBotocore):
	case err != nil:
		t.Fatal(err)
	default:
		o.Record = v.Watch(t)
	}
	return New(o)
}

// once is a config whose clients try once: a test wants to see the first answer.
func once(s *Server) sdk.Config {
	c := s.Config()
	c.Retryer = func() sdk.Retryer { return sdk.NopRetryer{} }
	return c
}

// patient is one that tries again, at once.
func patient(s *Server) sdk.Config {
	c := s.Config()
	c.Retryer = func() sdk.Retryer {
		return retry.NewStandard(func(o *retry.StandardOptions) {
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		})
	}
	return c
}

// wants fails the test unless err has the code of AWS; "" is no error.
func wants(t *testing.T, err error, code string) {
	t.Helper()
	var e smithy.APIError
	switch {
	case code == "" && err == nil:
	case !errors.As(err, &e):
		t.Fatalf("the error is %v, not %q", err, code)
	case e.ErrorCode() != code:
		t.Fatalf("the error is %v (%s), not %q", err, e.ErrorCode(), code)
	}
}

// scratch is a file system of the smallest kind.
func scratch(token string) *fsx.CreateFileSystemInput {
	return &fsx.CreateFileSystemInput{
		FileSystemType: types.FileSystemTypeLustre, StorageCapacity: sdk.Int32(1200), SubnetIds: []string{"subnet-0123456789abcdef0"}, FileSystemTypeVersion: sdk.String("2.15"),
		ClientRequestToken: &token, LustreConfiguration: &types.CreateFileSystemLustreConfiguration{DeploymentType: types.LustreDeploymentTypeScratch2},
		Tags: []types.Tag{{Key: sdk.String("datamove:burst"), Value: sdk.String(token)}},
	}
}

// objects is an S3 of this process with just what the fake needs: PUT, GET, HEAD and a listing in pages of two.
type objects struct {
	mu     sync.Mutex
	bodies map[string]string
	meta   map[string]http.Header
	denied string // keys that begin so may not be written
}

func newObjects() *objects {
	return &objects{bodies: map[string]string{}, meta: map[string]http.Header{}}
}

func (o *objects) store() *Store {
	return &Store{Endpoint: "http://s3.test", Access: "a", Secret: "b", Client: Through(o)}
}

func (o *objects) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/")
	body, there := o.bodies[key]
	switch {
	case r.Method == http.MethodPut && o.denied != "" && strings.HasPrefix(key, o.denied):
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
	case r.Method == http.MethodPut:
		text, _ := io.ReadAll(r.Body)
		o.bodies[key], o.meta[key] = string(text), r.Header.Clone()
	case r.URL.Query().Get("list-type") == "2":
		o.list(w, key, r.URL.Query().Get("prefix"), r.URL.Query().Get("continuation-token"))
	case !there:
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code><Message>none</Message></Error>")
	default:
		for name, values := range o.meta[key] {
			if strings.HasPrefix(name, "X-Amz-Meta-") || name == "X-Amz-Storage-Class" {
				w.Header()[name] = values
			}
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, body)
		}
	}
}

func (o *objects) list(w io.Writer, bucket, prefix, after string) {
	var part []string
	next := ""
	for _, key := range sorted(o.bodies) {
		name, ok := strings.CutPrefix(key, bucket+"/")
		if !ok || !strings.HasPrefix(name, prefix) || name <= after {
			continue
		}
		if len(part) == 2 {
			next = part[1]
			break
		}
		part = append(part, name)
	}
	reply := []element{{"IsTruncated", "", next != ""}}
	if next != "" {
		reply = append(reply, element{"NextContinuationToken", "", next})
	}
	for _, name := range part {
		reply = append(reply, element{"Contents", "", []element{{"Key", "", name}, {"Size", "", len(o.bodies[bucket+"/"+name])}}})
	}
	_, _ = w.Write(mustXML(element{"ListBucketResult", "", reply}))
}
