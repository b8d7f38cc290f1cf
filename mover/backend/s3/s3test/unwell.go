package s3test

import (
	"crypto/tls"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"sync"
	"testing"
)

// slowDown is how S3 refuses a call for the moment; see SlowDown in the error responses of the API reference of Amazon S3.
const slowDown = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`

// Unwell is the address of a server that leads to a store, but for calls that fails has answered, or left without an answer.
func Unwell(t testing.TB, s *Server, fails func(http.ResponseWriter, *http.Request) bool) string {
	t.Helper()
	return Around(t, s, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !fails(w, r) {
				store.ServeHTTP(w, r)
			}
		})
	})
}

// Uncounted is the address of a server that leads to a store, and does not say how many tags an object has, as Ceph RGW 16.
func Uncounted(t testing.TB, s *Server) string {
	t.Helper()
	return Around(t, s, func(store http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { store.ServeHTTP(uncounted{w}, r) })
	})
}

type uncounted struct{ http.ResponseWriter }

// Unwrap lets a proxy flush.
func (u uncounted) Unwrap() http.ResponseWriter { return u.ResponseWriter }

func (u uncounted) WriteHeader(status int) {
	u.Header().Del("X-Amz-Tagging-Count")
	u.ResponseWriter.WriteHeader(status)
}

// Around is the address of a server that leads to a store, with something around it.
func Around(t testing.TB, s *Server, around func(store http.Handler) http.Handler) string {
	t.Helper()
	store, err := url.Parse(s.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if s.CA != "" {
		trusted, err := os.ReadFile(s.CA)
		if err != nil || !roots.AppendCertsFromPEM(trusted) {
			t.Fatalf("%s: %v", s.CA, err)
		}
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	leads := &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(store)
			r.Out.Host = r.In.Host // it is signed
		},
	}
	server := httptest.NewServer(around(leads))
	t.Cleanup(server.Close)
	return server.URL
}

// OneIn fails one call in so many. Which ones is drawn: what asks three times in one try would meet each third one in all of them.
func OneIn(many int, fail http.HandlerFunc) func(http.ResponseWriter, *http.Request) bool {
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(1, 2))
	return func(w http.ResponseWriter, r *http.Request) bool {
		mu.Lock()
		failing := draw.IntN(many) == 0
		mu.Unlock()
		if failing {
			fail(w, r)
		}
		return failing
	}
}

// Busy refuses a call for the moment.
func Busy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(slowDown))
}

// Reset ends a connection without an answer, as a server does that has just been started again.
func Reset(w http.ResponseWriter, _ *http.Request) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}
