package s3_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
)

// events is what MinIO writes to who listens, line by line (a release of 2026; the fields that are not read are left out).
const events = `
 
{"Records":[{"eventVersion":"2.0","eventSource":"minio:s3","eventName":"s3:ObjectCreated:Put","s3":{"s3SchemaVersion":"1.0","bucket":{"name":"test"},"object":{"key":"PREFIXrun 1/a\u0026+b.pt","size":3,"eTag":"x","sequencer":"1"}}}]}
{"Records":[{"eventName":"s3:ObjectRemoved:Delete","s3":{"object":{"key":"PREFIXgone"}}},{"eventName":"s3:ObjectCreated:Put","s3":{"object":{"key":"PREFIX.datamove/lock"}}}]}
{"Records":[{"eventName":"s3:ObjectCreated:Put","s3":{"object":{"key":"PREFIXdir/"}}},{"eventName":"s3:ObjectCreated:Put","s3":{"object":{"key":"elsewhere"}}},{"s3":{"object":{"key":"PREFIXa//x"}}}]}
{"Records":[]}
`

// TestListen: what MinIO tells of a bucket are names, and what is ours, outside or none is not; a server that has no such thing says so, in each way in which they do.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestListen(t *testing.T) {
	l := newLiar(t, "minio")
	answer := func(status int, text string) {
		f := fault(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !r.URL.Query().Has("events") {
				return false
			}
			if r.Header.Get("Authorization") == "" || r.URL.Query().Get("prefix") != l.options.Prefix+"/" && l.options.Prefix != "" {
				t.Errorf("it is asked for %v", r.URL)
			}
			w.WriteHeader(status)
			fmt.Fprint(w, text)
			return true
		})
		l.lie(f)
	}
	listen := func() (names []string, begun int, err error) {
		err = l.Listen(t.Context(), func() { begun++ }, func(name string) { names = append(names, name) })
		return names, begun, err
	}
	prefix := ""
	if l.options.Prefix != "" {
		prefix = strings.Trim(l.options.Prefix, "/") + "/"
	}
	answer(200, strings.ReplaceAll(events, "PREFIX", prefix))
	names, begun, err := listen()
	if got := strings.Join(names, ", "); got != "run 1/a&+b.pt, gone, dir" || begun != 1 || !errors.Is(err, mover.ErrTransient) {
		t.Errorf("%s; begun %d times; %v", got, begun, err)
	}
	for _, row := range []struct {
		status int
		text   string
		kind   error
	}{
		{501, "", mover.ErrUnsupported}, {405, "<Error/>", mover.ErrUnsupported}, {400, "<Error/>", mover.ErrUnsupported},
		{200, `<?xml version="1.0"?><ListBucketResult/>`, mover.ErrUnsupported},
		{403, "<Error><Code>AccessDenied</Code></Error>", mover.ErrPermission},
		{403, "<Error><Code>SignatureDoesNotMatch</Code></Error>", mover.ErrUnsupported},
		{200, "{]", mover.ErrCorrupt},
	} {
		answer(row.status, row.text)
		if _, begun, err := listen(); !errors.Is(err, row.kind) || begun > 1 {
			t.Errorf("%d %q: %v", row.status, row.text, err)
		}
	}
	l.ListenFor(t, 200*time.Millisecond)
	for text, kind := range map[string]error{"": mover.ErrUnsupported, "{\"Records\":[]}\n": mover.ErrTransient} { // a server that holds back what it has to tell
		l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
			if !r.URL.Query().Has("events") {
				return false
			}
			if text != "" {
				fmt.Fprint(w, text)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
			return true
		})
		if _, _, err := listen(); !errors.Is(err, kind) || !errors.Is(err, s3.ErrSilent) {
			t.Errorf("after %q: %v", text, err)
		}
	}
	l.honest()
	if _, _, err := listen(); !errors.Is(err, mover.ErrUnsupported) && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a real server that has no such thing, or holds back what it has to tell: %v", err)
	}
}
