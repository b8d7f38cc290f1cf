package doctor

import (
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
)

// looks at a bucket that is reached with o.
func looks(ctx context.Context, o s3.Options) []Finding {
	return Bucket(ctx, "s3://"+o.Bucket, func(ctx context.Context, stateDir string) (mover.Backend, error) {
		o.StateDir = stateDir
		p, err := s3.Open(ctx, o)
		if err != nil {
			return nil, err
		}
		return p, nil
	})
}

var bucketFaults = []fault{
	{"wrong credentials", func(t *testing.T) []Finding {
		server := s3test.Start(t, false)
		server.Secret = "wrong"
		return looks(t.Context(), server.Options(t))
	}, Fail, "open", "SignatureDoesNotMatch", "check the credentials"},
	{"a bucket that is missing", func(t *testing.T) []Finding {
		o := s3test.Start(t, false).Options(t)
		o.Bucket = "nothing"
		return looks(t.Context(), o)
	}, Fail, "open", "bucket does not exist", "make the bucket"},
	{"a server that ignores checksums", onLoose(nil), Warn, "checksum", "an object with a wrong checksum", "read back"},
	{"a server that ignores conditions", onLoose(nil), Warn, "lock", "ignores conditions", "two machines at once"},
	{"uploads that nobody finished", func(t *testing.T) []Finding {
		return looks(t.Context(), loose(t, &looseStore{begun: []string{"run/a", "run/b"}}, t.TempDir()))
	}, Warn, "uploads", "2 uploads are unfinished for over a day, the oldest since 2026-01-02", "AbortIncompleteMultipartUpload"},
	{"a right to list that is missing", onLoose(func(r *http.Request) int {
		return map[bool]int{true: http.StatusForbidden}[r.URL.Query().Has("list-type")]
	}), Fail, "open", "permission denied", "list, read, write and delete"},
	{"a right to write that is missing", onLoose(func(r *http.Request) int {
		return map[bool]int{true: http.StatusForbidden}[r.Method == http.MethodPut]
	}), Fail, "open", "permission denied", "list, read, write and delete"},
	{"a store without room", onLoose(func(r *http.Request) int {
		return map[bool]int{true: http.StatusInsufficientStorage}[r.Method == http.MethodPut && r.ContentLength > 1<<20]
	}), Fail, "write", "no room", "raise the quota"},
	{"a store that changes bytes", func(t *testing.T) []Finding {
		return Bucket(t.Context(), "s3://bucket", func(ctx context.Context, dir string) (mover.Backend, error) {
			p, err := s3.Open(ctx, loose(t, &looseStore{flip: true}, dir))
			if err != nil {
				return nil, err
			}
			return p, nil
		})
	}, Fail, "read", "not what was written", "do not use this server"},
}

// TestAHealthyBucket finds nothing wrong with a server that does what it says.
func TestAHealthyBucket(t *testing.T) {
	for _, f := range looks(t.Context(), s3test.Start(t, true).Options(t)) {
		if f.Status != Pass {
			t.Errorf("%+v", f)
		}
	}
}

func onLoose(deny func(*http.Request) int) func(t *testing.T) []Finding {
	return func(t *testing.T) []Finding {
		return looks(t.Context(), loose(t, &looseStore{deny: deny}, t.TempDir()))
	}
}

// loose starts a store and says how to reach it.
func loose(t *testing.T, store *looseStore, stateDir string) s3.Options {
	store.objects = map[string][]byte{}
	server := httptest.NewServer(store)
	t.Cleanup(server.Close)
	keys := file(t, "AWS_ACCESS_KEY_ID=a\nAWS_SECRET_ACCESS_KEY=b\n", 0o600)
	return s3.Options{Endpoint: server.URL, Bucket: "bucket", Credentials: "file:" + keys, StateDir: stateDir, Writable: true}
}

// looseStore speaks enough of S3 for single objects, and believes everything: it
// answers 200 to checksums and conditions that it never looks at. Such servers
// exist; see rclone serve s3.
type looseStore struct {
	deny func(*http.Request) int // a status to answer with; nil or 0 answers
	flip bool                    // give back other bytes than were put

	begun []string // keys of uploads that were never finished

	mu      sync.Mutex // guards what is below
	objects map[string][]byte
}

func (s *looseStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	if s.deny != nil {
		if status := s.deny(r); status != 0 {
			w.WriteHeader(status)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	key := strings.TrimPrefix(r.URL.Path, "/bucket/")
	content, there := s.objects[key]
	w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
	w.Header().Set("ETag", fmt.Sprintf(`"%x"`, len(content)))
	switch {
	case r.URL.Query().Has("uploads") && r.Method == http.MethodGet:
		s.uploads(w)
	case r.URL.Query().Has("list-type"):
		s.list(w, r.URL.Query().Get("prefix"))
	case r.URL.RawQuery != "" && r.Method != http.MethodGet, r.Method == http.MethodPost:
		w.WriteHeader(http.StatusNotImplemented) // no multipart uploads
	case r.Method == http.MethodPut:
		s.objects[key] = body
	case r.Method == http.MethodDelete:
		delete(s.objects, key)
		w.WriteHeader(http.StatusNoContent)
	case !there:
		w.WriteHeader(http.StatusNotFound)
	default:
		if s.flip && len(content) > 1<<20 {
			content = append([]byte{content[0] ^ 1}, content[1:]...)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content)
	}
}

func (s *looseStore) list(w io.Writer, prefix string) {
	type entry struct {
		Key, ETag, LastModified string
		Size                    int
	}
	var page struct {
		XMLName  xml.Name `xml:"ListBucketResult"`
		Contents []entry
	}
	for _, key := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(key, prefix) {
			page.Contents = append(page.Contents, entry{Key: key, Size: len(s.objects[key]), ETag: `"x"`, LastModified: "2026-01-02T03:04:05.000Z"})
		}
	}
	text, err := xml.Marshal(page)
	if err == nil {
		_, _ = w.Write(text)
	}
}

func (s *looseStore) uploads(w io.Writer) {
	type upload struct {
		Key, Initiated string
		ID             string `xml:"UploadId"`
	}
	var page struct {
		XMLName xml.Name `xml:"ListMultipartUploadsResult"`
		Upload  []upload
	}
	for _, key := range s.begun {
		page.Upload = append(page.Upload, upload{key, "2026-01-02T03:04:05.000Z", "id"})
	}
	text, err := xml.Marshal(page)
	if err == nil {
		_, _ = w.Write(text)
	}
}

func TestDoctorLeavesNoStateBehind(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	looks(t.Context(), loose(t, &looseStore{}, ""))
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 2 { // the test's own: keys
		t.Errorf("%v, %v", left, err)
	}
}
