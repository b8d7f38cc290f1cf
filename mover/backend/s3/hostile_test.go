package s3_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine/bufpool"
	"datamove.dev/test/must"
)

// fault spoils the answer to a request, and reports whether it did. forward lets
// the real server answer.
type fault func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool

// liar is a real server behind a proxy that lies on request.
type liar struct {
	*s3.Backend
	options s3.Options
	fault   atomic.Pointer[fault]
}

func (l *liar) lie(f fault) { l.fault.Store(&f) }

func (l *liar) honest() { l.fault.Store(nil) }

func newLiar(t *testing.T, client string) *liar { return newLiarOf(t, s3test.Start(t, false), client) }

func newLiarOf(t *testing.T, of *s3test.Server, client string) *liar {
	o := of.Options(t)
	target := must.Get(url.Parse(o.Endpoint))(t)
	l := new(liar)
	connections := new(http.Transport)
	t.Cleanup(connections.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			r.Out.Host = r.In.Host // it is signed
		},
		Transport:    connections,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := l.fault.Load(); f == nil || !(*f)(w, r, proxy) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(server.Close)
	o.Endpoint, o.Client = server.URL, client
	sort := [2]string{of.Sort, client}
	if found, ok := probed.Load(sort); ok {
		must.Do(t, s3.Know(o, found.(s3.Profile)))
	}
	l.options, l.Backend = o, s3test.Open(t, o)
	probed.Store(sort, l.Profile())
	return l
}

// probed has what the probes found, s3.Profile, by the sort of the server and the client: the first liar is asked, and the others can do the same.
var probed sync.Map

// hurry opens the place anew, to give up after a while. One whose server is to hang needs it;
// to another one a busy machine would be a liar, too.
func (l *liar) hurry(t *testing.T) {
	t.Helper()
	l.options.Stall = 2 * time.Second
	l.Backend = s3test.Open(t, l.options)
}

func errorDocument(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, `<?xml version="1.0" encoding="UTF-8"?><Error><Code>`+code+`</Code><Message>as the test wants</Message></Error>`)
}

func isGet(r *http.Request) bool {
	return r.Method == http.MethodGet && !strings.Contains(r.URL.RawQuery, "list-type") && !strings.Contains(r.URL.RawQuery, "upload")
}

func isComplete(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.Contains(r.URL.RawQuery, "uploadId")
}

// half answers with the right header and the first half of the right body, and
// then does what spoil does.
func half(spoil func(w http.ResponseWriter, r *http.Request)) fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		if !isGet(r) {
			return false
		}
		rec := httptest.NewRecorder()
		forward.ServeHTTP(rec, r)
		copyHeader(w, rec)
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
		_ = http.NewResponseController(w).Flush()
		spoil(w, r)
		return true
	}
}

func copyHeader(w http.ResponseWriter, rec *httptest.ResponseRecorder) {
	for k, v := range rec.Header() {
		w.Header()[k] = v
	}
}

func reset(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// spoilBody answers with another body than the server's.
func spoilBody(change func(h http.Header, body []byte) []byte) fault {
	return func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		if !isGet(r) {
			return false
		}
		rec := httptest.NewRecorder()
		forward.ServeHTTP(rec, r)
		copyHeader(w, rec)
		body := change(w.Header(), rec.Body.Bytes())
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		w.WriteHeader(rec.Code)
		_, _ = w.Write(body)
		return true
	}
}

func status(code int, name string) fault {
	return func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool {
		w.Header().Set("Retry-After", "2")
		errorDocument(w, code, name)
		return true
	}
}

// needHonest skips the test on a server from outside that compares nothing.
func needHonest(t *testing.T, p *s3.Backend) {
	t.Helper()
	if p.Capabilities().Level != mover.Server && os.Getenv("DATAMOVE_E2E_S3") != "" {
		t.Skip("this server does not compare what it is sent")
	}
}

const bodySize = 200_000

func body() []byte { return backendtest.Pattern(bodySize) }

func fileEntry(name string, data []byte) mover.Entry {
	return mover.Entry{Name: name, Kind: mover.File, Size: int64(len(data)), Known: mover.FactMode | mover.FactCRC, Mode: 0o640, CRC: backendtest.Sum(data)}
}

// readTwice reads the whole of a file, and then a range of it: by the GET of Open,
// and by one of its own.
func readTwice(ctx context.Context, p *s3.Backend, e mover.Entry) (data []byte, err error) {
	c, err := p.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if data, err = readRange(ctx, c, 0, e.Size); err != nil {
		return nil, err
	}
	tail, err := readRange(ctx, c, e.Size/2, e.Size/2)
	if err == nil && !bytes.Equal(tail, data[e.Size/2:]) {
		err = mover.ErrCorrupt
	}
	return data, err
}

func readRange(ctx context.Context, c mover.Content, off, n int64) ([]byte, error) {
	r, err := c.Range(ctx, off, n)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(r)
}

// TestHostile: whatever a server answers, a read gives the right bytes or an error
// of the right kind, or bytes that the checksum finds out.
//
//safety:2 with TestFlippedByte
//safety:4 with mover/backend/mem TestChangesUnderneathAreNoticed
func TestHostile(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	l.hurry(t)
	data := body()
	backendtest.Put(t, l.Backend, fileEntry("f", data), data)
	e := must.Get(l.Stat(t.Context(), "f"))(t)
	for _, row := range []struct {
		lie  string
		do   fault
		want error
	}{
		{"503 SlowDown", status(503, "SlowDown"), mover.ErrTransient},
		{"500 without a document", func(w http.ResponseWriter, _ *http.Request, _ http.Handler) bool { w.WriteHeader(500); return true }, mover.ErrTransient},
		{"403", status(403, "AccessDenied"), mover.ErrPermission},
		{"404 NoSuchBucket", status(404, "NoSuchBucket"), mover.ErrNotExist},
		{"412", status(412, "PreconditionFailed"), mover.ErrChanged},
		{"clock skew", status(403, "RequestTimeTooSkewed"), mover.ErrPermission},
		{"507", status(507, ""), mover.ErrFull},
		{"reset in the body", half(reset), mover.ErrTransient},
		{"stall in the body", half(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }), mover.ErrTimeout},
		{"no answer", func(_ http.ResponseWriter, r *http.Request, _ http.Handler) bool { <-r.Context().Done(); return true }, mover.ErrTransient},
		{"a body that is cut and says so", spoilBody(func(_ http.Header, b []byte) []byte { return b[:len(b)/2] }), mover.ErrChanged},
		{"a body that is longer", spoilBody(func(_ http.Header, b []byte) []byte { return append(b, 'x') }), mover.ErrChanged},
		{"another ETag", spoilBody(func(h http.Header, b []byte) []byte { h.Set("Etag", `"another"`); return b }), mover.ErrChanged},
		{"no ETag", spoilBody(func(h http.Header, b []byte) []byte { h.Del("Etag"); return b }), mover.ErrChanged},
		{"another range", spoilBody(func(h http.Header, b []byte) []byte {
			if h.Get("Content-Range") != "" {
				h.Set("Content-Range", "bytes 0-99999/200000")
			}
			return b
		}), mover.ErrTransient},
	} {
		t.Run(row.lie, func(t *testing.T) {
			l.lie(row.do)
			defer l.honest()
			if got, err := readTwice(t.Context(), l.Backend, e); !errors.Is(err, row.want) {
				t.Errorf("read %d bytes, error %v, want %v", len(got), err, row.want)
			}
		})
	}
	if got, err := readTwice(t.Context(), l.Backend, e); err != nil || !bytes.Equal(got, data) {
		t.Errorf("from an honest server %d bytes, %v", len(got), err)
	}
}

// TestRetryAfter: the error says when the server wants to be asked again.
func TestRetryAfter(t *testing.T) {
	l := newLiar(t, s3api.ClientAWS)
	l.lie(status(503, "SlowDown"))
	_, err := l.Stat(t.Context(), "f")
	var e *mover.Error
	if !errors.As(err, &e) || e.After != 2*time.Second {
		t.Errorf("%v: After is not 2s", err)
	}
}

// TestFlippedByte: a byte that changes on the way down is found by the checksum
// that the entry has; one that changes on the way up, by the server.
//
//safety:2 bytes flipped on real connections; answers that contradict themselves; the part sizes at which servers are known to fail
func TestFlippedByte(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	needHonest(t, l.Backend)
	data := body()
	backendtest.Put(t, l.Backend, fileEntry("f", data), data)
	e, err := l.Stat(t.Context(), "f")
	if err != nil || !e.Known.Has(mover.FactCRC) {
		t.Fatalf("%+v, %v", e, err)
	}
	l.lie(spoilBody(func(_ http.Header, b []byte) []byte { b[len(b)/3] ^= 4; return b }))
	got, err := readTwice(t.Context(), l.Backend, e)
	if err == nil && backendtest.Sum(got) == e.CRC {
		t.Errorf("the flipped byte can not be seen")
	}
	l.lie(func(_ http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		if r.Method == http.MethodPut && r.ContentLength > 0 {
			b, _ := io.ReadAll(r.Body)
			b[len(b)/2] ^= 1
			r.Body = io.NopCloser(bytes.NewReader(b))
		}
		return false
	})
	d := drafted(t, l.Backend, "f", data)
	if out := l.Publish(t.Context(), []mover.Draft{d})[0]; !errors.Is(out.Err, mover.ErrCorrupt) {
		t.Errorf("published with a flipped byte: %+v", out)
	}
	parts := backendtest.Pattern(2 * l.Capabilities().PartMin)
	d = begun(t, l.Backend, "g", parts)
	if _, err := d.WritePart(t.Context(), mover.Part{Length: l.Capabilities().PartMin}, backendtest.NewFeed(parts[:l.Capabilities().PartMin])); !errors.Is(err, mover.ErrCorrupt) {
		t.Errorf("part with a flipped byte: %v", err)
	}
	l.honest()
	if e, err := l.Stat(t.Context(), "f"); err != nil || e.CRC != backendtest.Sum(data) {
		t.Errorf("the file is %+v, %v", e, err)
	}
}

// begun begins a draft in parts of the smallest size.
func begun(t *testing.T, p *s3.Backend, name string, data []byte) mover.Draft {
	t.Helper()
	d := must.Get(p.Draft(t.Context(), fileEntry(name, data), mover.Hints{By: mover.WriterID{Task: "hostile"}, PartBytes: p.Capabilities().PartMin}))(t)
	t.Cleanup(func() { _ = d.Close() })
	return d
}

// drafted is a finished draft.
func drafted(t *testing.T, p *s3.Backend, name string, data []byte) mover.Draft {
	t.Helper()
	d := begun(t, p, name, data)
	fill(t, p, d, name, data)
	return d
}

// fill writes and finishes a draft.
func fill(t *testing.T, p *s3.Backend, d mover.Draft, name string, data []byte) {
	t.Helper()
	var receipts []mover.Receipt
	for _, q := range backendtest.Parts(int64(len(data)), p.Capabilities().PartMin) {
		r := must.Get(d.WritePart(t.Context(), q, backendtest.NewFeed(data[q.Off:q.Off+q.Length])))(t)
		receipts = append(receipts, r)
	}
	must.Do(t, d.Finish(t.Context(), fileEntry(name, data), receipts))
}

// TestComplete: a 200 with an error in it is an error, and the same call may be
// made again; an answer that is lost after the work was done is a success.
//
//safety:1 a 200 with an error in it; an answer that is lost after the object was made
func TestComplete(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		t.Run(client, func(t *testing.T) {
			l := newLiar(t, client)
			needHonest(t, l.Backend)
			data := backendtest.Pattern(l.Capabilities().PartMin + 1)

			d := drafted(t, l.Backend, "f", data)
			l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				if isComplete(r) {
					errorDocument(w, 200, "InternalError")
				}
				return isComplete(r)
			})
			if out := l.Publish(t.Context(), []mover.Draft{d})[0]; !errors.Is(out.Err, mover.ErrTransient) {
				t.Errorf("a 200 with an error: %+v", out)
			}
			l.honest()
			if out := l.Publish(t.Context(), []mover.Draft{d})[0]; out.Err != nil || out.Level != mover.Server {
				t.Errorf("published again: %+v", out)
			}

			d = drafted(t, l.Backend, "g", data)
			var lost atomic.Bool
			l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
				if isComplete(r) {
					forward.ServeHTTP(httptest.NewRecorder(), r)
					lost.Store(true)
					errorDocument(w, 500, "InternalError")
				}
				return isComplete(r)
			})
			if out := l.Publish(t.Context(), []mover.Draft{d})[0]; out.Err != nil || !lost.Load() {
				t.Errorf("the answer was lost, the work was done: %+v", out)
			}
			l.honest()
			if got := backendtest.Read(t, l.Backend, "g"); !bytes.Equal(got, data) {
				t.Errorf("%d bytes differ", len(got))
			}
			for stray := range strays(t, s3test.Open(t, l.options)) {
				t.Errorf("left %+v", stray)
			}
		})
	}
}

func strays(t *testing.T, p *s3.Backend) map[mover.Stray]bool {
	found := map[mover.Stray]bool{}
	for _, err := range p.Walk(t.Context(), mover.WalkOptions{Stray: func(s mover.Stray) { found[s] = true }}) {
		must.Do(t, err)
	}
	return found
}

// TestEarlyAnswer: a server that refuses a part before it has read it, and then
// reads no more, does not hold the part's memory.
//
//safety:8 with mover/engine/concurrency TestAcquireIsBoundedAndFair
func TestEarlyAnswer(t *testing.T) {
	l := newLiar(t, s3api.ClientMinio)
	data := backendtest.Pattern(16 << 20)
	d := begun(t, l.Backend, "f", append(data, 'x'))
	over := make(chan struct{})
	defer close(over)
	l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
		if !strings.Contains(r.URL.RawQuery, "partNumber") {
			return false
		}
		c, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return false
		}
		_, _ = rw.WriteString("HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n")
		_ = rw.Flush()
		go func() { // reads nothing until the test is over
			defer c.Close()
			<-over
		}()
		return true
	})
	part := mover.Part{Length: l.Capabilities().PartMin}
	feed := backendtest.NewFeed(data[:part.Length])
	if _, err := d.WritePart(t.Context(), part, feed); !errors.Is(err, mover.ErrTransient) {
		t.Errorf("write: %v, want a temporary failure", err)
	}
	l.honest()
	must.Do(t, feed.Rewind())
	if _, err := d.WritePart(t.Context(), part, feed); err != nil {
		t.Errorf("write again: %v", err)
	}
}

// TestMemoryOfParts: a small last part is in memory of its own, because a connection may read it when the call has ended, as after an early answer. A large part is
// in memory of the pool.
func TestMemoryOfParts(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	o.Buffers = bufpool.New(64 << 20)
	p := s3test.Open(t, o)
	size := p.Capabilities().PartMin
	data := backendtest.Pattern(size + 1000)
	d := begun(t, p, "f", data)
	for _, part := range []mover.Part{{Index: 1, Off: size, Length: 1000}, {Length: size}} {
		must.Get(d.WritePart(t.Context(), part, backendtest.NewFeed(data[part.Off:part.Off+part.Length])))(t)
		if peak, pooled := o.Buffers.Peak(), part.Length == size; peak > 0 != pooled {
			t.Errorf("of a part of %d bytes the pool has given %d", part.Length, peak)
		}
	}
	if in := o.Buffers.InUse(); in != 0 {
		t.Errorf("%d bytes of the pool are held still", in)
	}
}

// TestUnreachable: an endpoint that is not there is told apart from one that is slow.
func TestUnreachable(t *testing.T) {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	closed := "http://" + l.Addr().String()
	_ = l.Close()
	for _, endpoint := range []string{closed, "http://no-such-host.invalid:9000"} {
		_, err := s3.Open(t.Context(), s3.Options{Endpoint: endpoint, Bucket: "bucket", Credentials: "anonymous", StateDir: t.TempDir()})
		if !errors.Is(err, mover.ErrUnreachable) {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// TestMarkerWithContent: an object whose name ends in a slash and that has content, as other servers keep it, is more than a directory. Its
// content is never taken for none, nor replaced by none.
func TestMarkerWithContent(t *testing.T) {
	server := s3test.Start(t, false)
	l := newLiarOf(t, server, s3api.ClientMinio)
	must.Do(t, l.Mkdir(t.Context(), mover.Entry{Name: "e", Kind: mover.Dir}))
	backendtest.Put(t, l, mover.Entry{Name: "e/f", Kind: mover.File, Size: 4}, []byte("file"))
	size := regexp.MustCompile(`(<Key>[^<]*e(?:/|%2F)</Key>(?:[^S]|S[^i])*<Size>)0</Size>`)
	var put, lied atomic.Int64
	l.lie(func(w http.ResponseWriter, r *http.Request, forward http.Handler) bool {
		marker := strings.HasSuffix(r.URL.Path, "/e/")
		switch {
		case r.Method == http.MethodPut && marker:
			put.Add(1)
			return false
		case r.Method != http.MethodGet && !(r.Method == http.MethodHead && marker):
			return false
		}
		answer := httptest.NewRecorder()
		forward.ServeHTTP(answer, r)
		for name, values := range answer.Header() {
			w.Header()[name] = values
		}
		if r.Method == http.MethodGet && size.Match(answer.Body.Bytes()) {
			lied.Add(1)
		}
		body := size.ReplaceAll(answer.Body.Bytes(), []byte("${1}9</Size>"))
		if r.Method == http.MethodHead {
			w.Header().Set("Content-Length", "9")
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(answer.Code)
		_, _ = w.Write(body)
		return true
	})
	for _, dir := range []string{"", "e"} {
		var names, refused []string
		for e, err := range l.Walk(t.Context(), mover.WalkOptions{Dir: dir}) {
			if err != nil {
				refused = append(refused, e.Name)
				if !errors.Is(err, mover.ErrUnsupported) || !strings.Contains(err.Error(), "/e/: ") {
					t.Errorf("it is refused by %v", err)
				}
				continue
			}
			names = append(names, e.Name)
		}
		if dir == "" && lied.Load() == 0 && server.Dir == "" {
			t.Skip("this server lists a directory by no marker of its own")
		}
		want := map[string]string{"": "e e/f", "e": "e/f"}[dir]
		if got := strings.Join(names, " "); got != want || dir == "" && len(refused) != 1 {
			t.Errorf("a walk of %q tells %q, and refuses %q", dir, got, refused)
		}
	}
	e := must.Get(l.Stat(t.Context(), "e"))(t)
	e.Known, e.Mode = mover.FactMode, 0o700
	must.Do(t, l.Update(t.Context(), e))
	must.Do(t, l.Mkdir(t.Context(), e))
	if n := put.Load(); n > 0 {
		t.Errorf("the only copy of its content was replaced %d times", n)
	}
}

// TestRemoveByKey: an object that no name leads to is asked for and removed by its key as it is.
func TestRemoveByKey(t *testing.T) {
	for _, client := range []string{s3api.ClientMinio, s3api.ClientAWS} {
		l := newLiar(t, client)
		base := "/" + l.options.Bucket + "/" + strings.Trim(l.options.Prefix, "/")
		for _, key := range []string{"a//b", "/x", "../up", "d/", "./y", "a/"} {
			var asked []string
			l.lie(func(w http.ResponseWriter, r *http.Request, _ http.Handler) bool {
				asked = append(asked, r.Method+" "+strings.TrimPrefix(r.URL.Path, strings.TrimRight(base, "/")+"/"))
				if r.Method == http.MethodDelete {
					w.WriteHeader(http.StatusNoContent)
					return true
				}
				w.Header().Set("ETag", `"e"`)
				w.Header().Set("Last-Modified", time.Unix(0, 0).UTC().Format(http.TimeFormat))
				w.Header().Set("Content-Length", "3")
				return true
			})
			if err := l.Remove(t.Context(), mover.Entry{Name: "\x01near", Kind: mover.File, Key: key, Size: 3}, mover.WriterID{}); err != nil {
				t.Errorf("%s, %s: %v", client, key, err)
			}
			if want := []string{"HEAD " + key, "DELETE " + key}; !slices.Equal(asked, want) {
				t.Errorf("%s: asked for %q, want %q", client, asked, want)
			}
		}
		l.honest()
		if err := l.Remove(t.Context(), mover.Entry{Name: "\x01near", Kind: mover.File, Key: "a//.datamove/lock"}, mover.WriterID{}); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("what is ours: %v", err)
		}
	}
}
