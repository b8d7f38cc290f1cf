package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/must"
)

func isCreate(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.RawQuery, "uploads")
}

// began lets the server begin an upload, and answers as lose does.
func began(lose func(w http.ResponseWriter, r *http.Request)) fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		if isCreate(r) {
			forward.ServeHTTP(httptest.NewRecorder(), r)
			lose(w, r)
		}
		return isCreate(r)
	}
}

// draftAgain begins a draft while the server lies, and once more when it is honest.
func draftAgain(t *testing.T, l *liar, name string, data []byte, lie fault) mover.Draft {
	t.Helper()
	l.lie(lie)
	d, err := l.Draft(t.Context(), fileEntry(name, data), mover.Hints{PartBytes: l.Capabilities().PartMin})
	if err == nil {
		t.Fatalf("a draft whose answer was lost is %v", d.Token())
	}
	l.honest()
	return begun(t, l.Backend, name, data)
}

func publish(t *testing.T, p *s3.Backend, d mover.Draft, name string, data []byte) {
	t.Helper()
	fill(t, p, d, name, data)
	if out := p.Publish(t.Context(), []mover.Draft{d})[0]; out.Err != nil {
		t.Fatal(out.Err)
	}
}

// noUploads reports what nobody would ever find.
func noUploads(t *testing.T, l *liar) {
	t.Helper()
	l.honest()
	for stray := range strays(t, s3test.Open(t, l.options)) { // to this place, its own are none
		t.Errorf("left %+v", stray)
	}
}

// TestLostBeginning: an upload that the server began, and whose answer was lost, is
// aborted by the next try, and no other one is.
//
//safety:3 with test/hostile TestFailingStore
func TestLostBeginning(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		l.hurry(t)
		data := backendtest.Pattern(l.Capabilities().PartMin + 1)
		for _, row := range []struct {
			answer string
			lose   func(w http.ResponseWriter, r *http.Request)
		}{
			{"500", func(w http.ResponseWriter, _ *http.Request) { errorDocument(w, 500, "InternalError") }},
			{"503 of a gateway", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }},
			{"reset", reset},
			{"none", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
			{"200 that says nothing", func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "<InitiateMultipartUploadResult/>")
			}},
		} {
			t.Run(client+" "+row.answer, func(t *testing.T) {
				first := begun(t, l.Backend, "f", data) // another draft of ours
				second := draftAgain(t, l, "f", data, began(row.lose))
				publish(t, l.Backend, first, "f", data)
				publish(t, l.Backend, second, "f", data)
				noUploads(t, l)
			})
		}
	}
}

// TestBeginningOfOneWhoGoes: an upload that the server begins while whoever wants it is
// stopped is aborted, for its answer is waited for; what has not begun does not begin.
//
//safety:3 with test/hostile TestFailingStore
func TestBeginningOfOneWhoGoes(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		t.Run(client, func(t *testing.T) {
			l := newLiar(t, client)
			ctx, stop := context.WithCancelCause(t.Context())
			gone := errors.New("another one leads")
			var asked atomic.Int64
			l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
				if !isCreate(r) {
					return false
				}
				asked.Add(1)
				answer := httptest.NewRecorder()
				forward.ServeHTTP(answer, r)
				stop(gone)
				select {
				case <-r.Context().Done():
					t.Error("the answer is not waited for")
				case <-time.After(100 * time.Millisecond):
				}
				w.WriteHeader(answer.Code)
				_, _ = w.Write(answer.Body.Bytes())
				return true
			})
			data := backendtest.Pattern(l.Capabilities().PartMin + 1)
			for range 2 {
				if d, err := l.Draft(ctx, fileEntry("f", data), mover.Hints{PartBytes: l.Capabilities().PartMin}); !errors.Is(err, gone) {
					t.Errorf("a draft of one who has gone: %v, %v", d, err)
				}
			}
			if n := asked.Load(); n != 1 {
				t.Errorf("%d uploads were begun, and one before it was over", n)
			}
			noUploads(t, l)
		})
	}
}

// TestPartOfOneWhoGoes: the answer to a part that the server has is waited for, because it
// comes to an upload that will be aborted; a part that is on its way goes no further.
//
//safety:3 with test/hostile TestFailingStore
func TestPartOfOneWhoGoes(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		for _, row := range []struct {
			name    string
			arrives bool
			part    int64
		}{{"arrived", true, 5 << 20}, {"on its way", false, 16 << 20}} {
			t.Run(client+" "+row.name, func(t *testing.T) {
				l := newLiar(t, client)
				data := backendtest.Pattern(row.part + 1)
				d := begun(t, l.Backend, "f", data)
				ctx, stop := context.WithCancelCause(t.Context())
				gone, returned := errors.New("another one leads"), make(chan struct{})
				l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
					if !r.URL.Query().Has("partNumber") {
						return false
					}
					if !row.arrives {
						stop(gone)
						<-returned // the connection takes less than a part meanwhile
						if n, err := io.Copy(io.Discard, r.Body); err == nil {
							t.Errorf("all %d bytes of a part arrive that nobody wants", n)
						}
						return true
					}
					part, err := io.ReadAll(r.Body)
					must.Tell(t, err)
					stop(gone)
					select {
					case <-r.Context().Done():
						t.Error("the answer to the part is not waited for")
					case <-time.After(100 * time.Millisecond):
					}
					r.Body = io.NopCloser(bytes.NewReader(part))
					forward.ServeHTTP(w, r)
					return true
				})
				_, err := d.WritePart(ctx, mover.Part{Length: int64(len(data)) - 1}, backendtest.NewFeed(data[:len(data)-1]))
				close(returned)
				if row.arrives && err != nil || !row.arrives && !errors.Is(err, gone) {
					t.Errorf("the part: %v", err)
				}
				must.Tell(t, d.Close())
				noUploads(t, l)
			})
		}
	}
}

// TestCloseAgain: a server that can not abort an upload at once, because a part of it is on its way still, is asked again.
func TestCloseAgain(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	data := backendtest.Pattern(l.Capabilities().PartMin + 1)
	d := begun(t, l.Backend, "f", data)
	var asked atomic.Int64
	l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		refuses := r.Method == http.MethodDelete && asked.Add(1) < 3
		if refuses {
			errorDocument(w, 500, "InternalError")
		}
		return refuses
	})
	if err := d.Close(); err != nil || asked.Load() != 3 {
		t.Errorf("%v, after %d tries", err, asked.Load())
	}
	noUploads(t, l)
}

// TestBeginningOfOthers: an upload of the same name that somebody else began before
// us is not the one whose answer was lost.
//
//safety:3 with test/hostile TestFailingStore
func TestBeginningOfOthers(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	data := backendtest.Pattern(l.Capabilities().PartMin + 1)
	other := begun(t, s3test.Open(t, l.options), "f", data).Token()
	l.lie(began(reset))
	if _, err := l.Draft(t.Context(), fileEntry("f", data), mover.Hints{PartBytes: l.Capabilities().PartMin}); err == nil {
		t.Fatal("the answer was not lost")
	}
	l.lie(initiated(t, other, time.Now().Add(-10*time.Second)))
	d := begun(t, l.Backend, "f", data)
	l.honest()
	publish(t, l.Backend, d, "f", data)
	found := strays(t, l.Backend)
	for stray := range found {
		if stray.Token != other {
			t.Errorf("open is %v, want that of the other run, %v", stray.Token, other)
		}
	}
	if len(found) != 1 {
		t.Errorf("%d uploads are open, want that of the other run", len(found))
	}
}

// initiated makes a server say that an upload was begun at another time.
func initiated(t *testing.T, token mover.Token, at time.Time) fault {
	t.Helper()
	_, query, _ := strings.Cut(string(token), "?")
	values := must.Get(url.ParseQuery(query))(t)
	upload := regexp.MustCompile(`(?s)<Upload>.*?</Upload>`)
	date := regexp.MustCompile(`<Initiated>.*?</Initiated>`)
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		if r.Method != http.MethodGet || !strings.Contains(r.URL.RawQuery, "uploads") {
			return false
		}
		rec := httptest.NewRecorder()
		forward.ServeHTTP(rec, r)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(upload.ReplaceAllFunc(rec.Body.Bytes(), func(u []byte) []byte {
			if !strings.Contains(string(u), values.Get("id")) {
				return u
			}
			return date.ReplaceAll(u, []byte("<Initiated>"+at.UTC().Format(time.RFC3339)+"</Initiated>"))
		}))
		return true
	}
}

// TestLateBeginning: an upload that the server begins after we have asked again is
// found by Sync.
//
//safety:3 with test/hostile TestFailingStore
func TestLateBeginning(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		t.Run(client, func(t *testing.T) {
			l := newLiar(t, client)
			data := backendtest.Pattern(l.Capabilities().PartMin + 1)
			var arrive func()
			d := draftAgain(t, l, "f", data, func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
				late := r.Clone(context.WithoutCancel(r.Context()))
				late.Body = http.NoBody
				arrive = func() { forward.ServeHTTP(httptest.NewRecorder(), late) }
				w.WriteHeader(http.StatusGatewayTimeout)
				return true
			})
			arrive()
			found := strays(t, l.Backend)
			if len(found) != 1 {
				t.Fatalf("strays: %v, want the late one", found)
			}
			for stray := range found {
				if stray.Token == d.Token() {
					t.Error("ours is told as a stray")
				}
			}
			must.Do(t, l.Sync(t.Context()))
			publish(t, l.Backend, d, "f", data)
			noUploads(t, l)
		})
	}
}

// TestRefusedBeginning: who was told no looks for nothing.
func TestRefusedBeginning(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	data := backendtest.Pattern(l.Capabilities().PartMin + 1)
	l.lie(status(403, "AccessDenied"))
	if _, err := l.Draft(t.Context(), fileEntry("f", data), mover.Hints{PartBytes: l.Capabilities().PartMin}); !errors.Is(err, mover.ErrPermission) {
		t.Fatal(err)
	}
	l.lie(func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if r.Method == http.MethodGet {
			t.Errorf("asked for %v", r.URL)
		}
		return false
	})
	begun(t, l.Backend, "f", data)
}
