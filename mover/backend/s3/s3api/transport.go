package s3api

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/xml"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// How long a server may be silent. A body that flows may take as long as it takes.
const (
	stallDefault  = time.Minute      // no byte of a body, or no answer
	putFactor     = 5                // × stall, until the answer to a body
	mergeDuration = 15 * time.Minute // CompleteMultipartUpload and CopyObject: the server copies
)

// errStalled is the cause of a request that was given up.
var errStalled error = stalled{}

type stalled struct{}

func (stalled) Error() string { return "no byte came or went for too long" }

// Is says that it is a timeout, and that another try may help.
func (stalled) Is(kind error) bool { return kind == mover.ErrTimeout || kind == mover.ErrTransient }

// reply is what the server said to one call: filled in by the transport, which
// both clients share, so that errors are understood in one place.
type reply struct {
	data []byte // the body of the request, where it is memory: it takes a shorter way

	calls         int // answers so far: a listing has one per page
	status        int
	header        http.Header
	code, message string // of an error document, also of one that came with 200
	region        string // that it names
	again         bool   // the same may be good with other keys, which there may be
}

type replyKey struct{}

// withReply returns a context for one call, and where its reply will be.
func withReply(ctx context.Context) (context.Context, *reply) {
	r := new(reply)
	return context.WithValue(ctx, replyKey{}, r), r
}

type headersKey struct{}

// withHeaders makes the transport send headers with the one call of ctx, for a
// client that has no option for them.
func withHeaders(ctx context.Context, headers map[string]string) context.Context {
	if len(headers) == 0 {
		return ctx
	}
	return context.WithValue(ctx, headersKey{}, headers)
}

// ifMatch are the headers of a condition; "" is none.
func ifMatch(etag string) map[string]string {
	if etag == "" {
		return nil
	}
	return map[string]string{"If-Match": `"` + etag + `"`}
}

// transport sends requests over connections of its own. It gives up on silence,
// and notes what the server says.
type transport struct {
	base  *http.Transport
	stall time.Duration
	sign  func(*http.Request) error // nil when the client has signed
	keys  renewer                   // that requests are signed with; nil is none

	first atomic.Pointer[greeting] // nil until the server has answered

	onTheWay, answered atomic.Int64 // nanoseconds, as mover.Sender has them; of bodies in memory
}

// greeting is what the first answer tells of a server.
type greeting struct {
	server      string        // what it calls itself
	skew        time.Duration // how far our clock is ahead of its
	here, there time.Time     // one moment, by our clock and by its
}

func greet(h http.Header) *greeting {
	g := &greeting{server: h.Get("Server"), here: time.Now()}
	g.there = g.here
	if date, err := http.ParseTime(h.Get("Date")); err == nil {
		g.skew, g.there = g.here.Sub(date).Truncate(time.Second), date
	}
	return g
}

// notBefore is what the server's clock showed at a moment of ours, or up to three
// seconds less: the times that it tells are whole seconds, and came late. Our clock
// may have been set since.
func (g *greeting) notBefore(t time.Time) time.Time {
	return g.there.Add(t.Sub(g.here)).Add(-time.Second).Truncate(time.Second)
}

// newTransport makes a transport that keeps as many idle connections as busy
// ones: a mover that reconnects for each file is a slow one. secure is with TLS.
func newTransport(parallel int, stall time.Duration, secure bool, roots *x509.CertPool) *transport {
	connect := dialWide
	if secure {
		connect = dialEager
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true) // HTTP/2 would send all requests over one connection
	return &transport{stall: stall, base: &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           connect,
		MaxIdleConns:          parallel,
		MaxIdleConnsPerHost:   parallel,
		IdleConnTimeout:       time.Minute,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // bytes are what is stored
		Protocols:             protocols,
		TLSClientConfig:       &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(parallel)},
		WriteBufferSize:       24 << 10, // a header and a body of 16 KiB in one write
		ReadBufferSize:        8 << 10,
	}}
}

// leadTo has connections made to other addresses.
func (t *transport) leadTo(to func(address string) (string, error)) {
	connect := t.base.DialContext
	t.base.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		address, err := to(address)
		if err != nil {
			return nil, err
		}
		return connect(ctx, network, address)
	}
}

// trustedRoots merges the system's authorities with those of files; an empty name
// is skipped. nil means the system's alone.
func trustedRoots(bundles ...string) (*x509.CertPool, error) {
	var roots *x509.CertPool
	for _, path := range bundles {
		if path == "" {
			continue
		}
		pem, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("CA bundle: %w", err)
		}
		if roots == nil {
			if roots, err = x509.SystemCertPool(); err != nil {
				roots = x509.NewCertPool()
			}
		}
		if !roots.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("CA bundle %s has no certificate: %w", path, mover.ErrUsage)
		}
	}
	return roots, nil
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	caller := req.Context()
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(caller))
	watch := newWatchdog(t.patience(req), cancel)
	changes := req.Method != http.MethodGet && req.Method != http.MethodHead
	watch.follow(caller, ctx, changes)
	req, err := t.prepare(req.WithContext(ctx))
	if err = cmp.Or(err, context.Cause(caller)); err != nil {
		watch.stop()
		if req.Body != nil {
			req.Body.Close()
		}
		return nil, err
	}
	r, _ := ctx.Value(replyKey{}).(*reply)
	body := t.prepareBody(req, r, watch)
	if changes && body == nil { // it goes with its header: the connection is given it at once
		trace := &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { watch.givenAll() }}
		req = req.WithContext(httptrace.WithClientTrace(ctx, trace))
	}
	begun := time.Now()
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		err = watch.explain(ctx, err)
		watch.stop()
		if body != nil {
			<-body.closed
		}
		return nil, err
	}
	resp.Body = &watchedBody{ReadCloser: resp.Body, watch: watch, ctx: ctx}
	refused := r != nil && resp.StatusCode >= 300
	if refused { // read why before the rest of the body is sent in vain: the server may close the connection at it
		watch.timer.Reset(watch.limit)
		err = r.note(req, resp)
	}
	if body != nil {
		letGo(ctx, cancel, resp, body.closed)
	}
	if r != nil && r.data != nil {
		t.answered.Add(int64(time.Since(begun)))
		if body != nil {
			t.onTheWay.Add(int64(body.last.Sub(body.first)))
		}
	}
	if t.first.Load() == nil {
		t.first.Store(greet(resp.Header))
	}
	watch.timer.Reset(watch.limit)
	if r != nil && !refused {
		err = r.note(req, resp)
	}
	if err != nil {
		return nil, err
	}
	if r != nil {
		r.again = r.tell(t.keys, req)
	}
	return resp, nil
}

// prepare adds to a copy of the request what the client left to us.
func (t *transport) prepare(req *http.Request) (*http.Request, error) {
	headers, more := req.Context().Value(headersKey{}).(map[string]string)
	if !more && t.sign == nil {
		return req, nil
	}
	req.Header = req.Header.Clone()
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	if t.sign == nil {
		return req, nil
	}
	if req.URL.RawQuery != "" { // signing sorts it
		u := *req.URL
		// minio-go sends an empty delimiter, which gofakes3 (in rclone) takes for one
		// that every key has.
		u.RawQuery = strings.Replace(u.RawQuery, "delimiter=&", "", 1)
		req.URL = &u
	}
	return req, t.sign(req)
}

// prepareBody replaces the body of a request by one that is watched. A small body
// in memory becomes one that net/http sends together with its header. The result is nil
// then, because its memory may be read at any time.
func (t *transport) prepareBody(req *http.Request, r *reply, watch *watchdog) *sentBody {
	switch {
	case req.Body == nil || req.Body == http.NoBody:
		return nil
	case r != nil && r.data != nil && len(r.data) <= SmallBytes:
		_ = req.Body.Close() // of the client: it has nothing to let go of
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(r.data)), nil }
		req.Body, _ = req.GetBody()
		return nil
	}
	after := max(putFactor*t.stall, watch.limit)
	body := &sentBody{from: req.Body, left: req.ContentLength, watch: watch, after: after, closed: make(chan struct{})}
	if r != nil {
		body.data = r.data
	}
	req.Body = body
	return body
}

// patience is how long there may be silence while a request is answered.
func (t *transport) patience(req *http.Request) time.Duration {
	if merges(req) {
		return max(mergeDuration, t.stall)
	}
	return t.stall
}

// merges reports whether the server copies bytes before it answers, and may say
// 200 before it knows that it failed.
func merges(req *http.Request) bool {
	return req.Method == http.MethodPost && strings.Contains(req.URL.RawQuery, "uploadId=") ||
		req.Method == http.MethodPut && req.Header.Get("X-Amz-Copy-Source") != ""
}

// note fills the reply, and reads the error document when there is or may be one.
func (r *reply) note(req *http.Request, resp *http.Response) error {
	r.calls++
	r.status, r.header = resp.StatusCode, resp.Header
	if resp.StatusCode < 300 && !merges(req) {
		return nil
	}
	const documentBytes = 1 << 20
	body, err := io.ReadAll(io.LimitReader(resp.Body, documentBytes))
	resp.Body.Close()
	if err != nil {
		return fmt.Errorf("the answer broke off: %w", err)
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	var doc struct {
		XMLName xml.Name
		Code    string
		Message string
		Region  string
	}
	if xml.Unmarshal(body, &doc) == nil && doc.XMLName.Local == "Error" {
		r.code, r.message, r.region = doc.Code, doc.Message, doc.Region
	}
	return nil
}

// after is when the server wants to be asked again; 0 if it did not say.
func (r *reply) after() time.Duration {
	value := r.header.Get("Retry-After")
	if n, err := strconv.Atoi(value); err == nil && n >= 0 {
		return time.Duration(min(n, 3600)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, min(time.Until(at), time.Hour))
	}
	return 0
}

// SmallBytes is up to what size Put.Data is sent in one write with its header. The connection may read such memory
// after the call has ended, so it should be none that is used again.
const SmallBytes = 1 << 20
