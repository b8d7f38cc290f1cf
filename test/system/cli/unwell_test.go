package cli

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

	"datamove.dev/mover/s3/s3test"
	"datamove.dev/test/must"
)

// slowDown is how S3 refuses a call for the moment; see SlowDown in the error responses of the API reference of Amazon S3.
const slowDown = `<?xml version="1.0" encoding="UTF-8"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>`

// unwell is the address of a server that leads to a store, and does with one call in three what fails says instead.
// Which ones is drawn: what asks three times in one try would meet each third call in all of them.
func unwell(t *testing.T, a *s3test.Amazon, fails http.HandlerFunc) string {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(must.Get(os.ReadFile(a.CA))(t))
	store := must.Get(url.Parse(a.Endpoint))(t)
	leads := &httputil.ReverseProxy{
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}},
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(store)
			r.Out.Host = r.In.Host // it is signed
		},
	}
	var mu sync.Mutex
	draw := rand.New(rand.NewPCG(1, 2))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		failing := draw.IntN(3) == 0
		mu.Unlock()
		if failing {
			fails(w, r)
			return
		}
		leads.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// busy refuses a call for the moment.
func busy(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(slowDown))
}

// reset ends a connection without an answer, as a server does that has just been started again.
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
