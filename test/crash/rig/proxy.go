package rig

import (
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"datamove.dev/test/must"
)

// Proxy stands in front of an S3 server, counts what is asked of it, and lets a
// test answer in its place.
type Proxy struct {
	URL string

	mu     sync.Mutex
	fault  Fault          // guarded by mu, as all below
	calls  map[string]int // answered with success, by kind
	bodies map[string]int64
	made   map[string]int // how often an object was made, by path
}

// Fault answers a request in the server's place, or gives it to next.
type Fault func(w http.ResponseWriter, r *http.Request, next http.Handler)

// NewProxy starts a proxy for the server at endpoint.
func NewProxy(t testing.TB, endpoint string) *Proxy {
	t.Helper()
	to := must.Get(url.Parse(endpoint))(t)
	p := &Proxy{calls: map[string]int{}, bodies: map[string]int64{}, made: map[string]int{}}
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	through := &httputil.ReverseProxy{
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0), // a killed client is what is tested
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = r.In.Host // it is part of the signature
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.serve(w, r, through)
	}))
	server.Config.ErrorLog = through.ErrorLog
	server.Start()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		transport.CloseIdleConnections()
	})
	p.URL = server.URL
	return p
}

// Set makes the proxy answer by f from now on; nil passes everything on.
func (p *Proxy) Set(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, through http.Handler) {
	p.mu.Lock()
	fault := p.fault
	p.mu.Unlock()
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		tally := &tallied{ResponseWriter: w}
		through.ServeHTTP(tally, r)
		if tally.status/100 == 2 {
			p.count(Call(r), r.URL.Path, max(r.ContentLength, 0)+tally.bytes)
		}
	})
	if fault != nil {
		fault(w, r, counted)
		return
	}
	counted.ServeHTTP(w, r)
}

func (p *Proxy) count(call, path string, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls[call]++
	p.bodies[call] += bytes
	switch call {
	case "PutObject", "CopyObject", "CompleteMultipartUpload":
		p.made[path]++
	}
}

// Made returns how often each object was made, by the path of its URL. A completion
// that is answered with 200 and an error in it counts, too.
func (p *Proxy) Made() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.made)
}

// Calls returns how many calls of a kind succeeded, and how many bytes of content
// they carried either way, and begins to count anew.
func (p *Proxy) Calls(call string) (n int, bytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n, bytes = p.calls[call], p.bodies[call]
	delete(p.calls, call)
	delete(p.bodies, call)
	return n, bytes
}

// Call names the S3 call of a request, as the API reference does.
func Call(r *http.Request) string {
	q := r.URL.Query()
	object := strings.Count(strings.Trim(r.URL.Path, "/"), "/") > 0
	switch {
	case r.Method == http.MethodPut && q.Has("partNumber"):
		return "UploadPart"
	case r.Method == http.MethodPut && r.Header.Get("X-Amz-Copy-Source") != "":
		return "CopyObject"
	case r.Method == http.MethodPut && object:
		return "PutObject"
	case r.Method == http.MethodPost && q.Has("uploads"):
		return "CreateMultipartUpload"
	case r.Method == http.MethodPost && q.Has("uploadId"):
		return "CompleteMultipartUpload"
	case r.Method == http.MethodDelete && q.Has("uploadId"):
		return "AbortMultipartUpload"
	case r.Method == http.MethodDelete:
		return "DeleteObject"
	case r.Method == http.MethodHead:
		return "HeadObject"
	case r.Method == http.MethodGet && object:
		return "GetObject"
	case r.Method == http.MethodGet && q.Has("list-type"):
		return "ListObjectsV2"
	}
	return r.Method
}

// tallied counts what is answered.
type tallied struct {
	http.ResponseWriter
	status int
	bytes  int64
}

func (w *tallied) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *tallied) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// Unwrap lets the reverse proxy flush.
func (w *tallied) Unwrap() http.ResponseWriter { return w.ResponseWriter }
