package s3test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The region of [Amazon], and the names of its services.
const (
	Region = "us-east-1"
	domain = "s3." + Region + ".amazonaws.com"
	sts    = "sts." + Region + ".amazonaws.com"
)

// Role and WebToken are what [Amazon] gives the keys of the store for; see AssumeRoleWithWebIdentity in the STS API reference.
const (
	Role     = "arn:aws:iam::123456789012:role/datamove"
	WebToken = "eyJhbGciOiJub25lIn0.e30." //nolint:gosec // it opens nothing
)

// Amazon is AWS as clients see it that name no endpoint: the embedded store is S3 of one region by its names of amazonaws.com, buckets are host
// names, and STS gives its keys to web identities. Clients are led there by a proxy, or by a dialer that asks [Amazon.Address]. Nothing of a
// client is replaced, and nothing leaves this machine: other names are refused.
type Amazon struct {
	*Server // its CA has the authorities of all services

	sts string // address
}

// Proxy leads to an [Amazon], and knows for which names it was asked.
type Proxy struct {
	URL string // for HTTPS_PROXY

	to     *Amazon
	server *httptest.Server
	mu     sync.Mutex
	asked  []string // guarded by mu
}

// StartAmazon starts one that ends with the test.
func StartAmazon(t testing.TB) *Amazon {
	t.Helper()
	t.Setenv("AWS_CA_BUNDLE", "") // of this machine, and not the test's business
	a := &Amazon{Server: started(t, "--tls", "--domain", domain)}
	tokens := httptest.NewUnstartedServer(http.HandlerFunc(a.token))
	certificate, authority := certificateFor(t, sts)
	tokens.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	tokens.StartTLS()
	t.Cleanup(tokens.Close)
	a.sts = tokens.Listener.Addr().String()
	trusted, err := os.ReadFile(a.CA)
	if err != nil {
		t.Fatal(err)
	}
	a.CA = filepath.Join(t.TempDir(), "authorities.pem")
	if err := os.WriteFile(a.CA, append(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority})...), 0o644); err != nil {
		t.Fatal(err)
	}
	return a
}

// Proxy starts a proxy, which the caller closes.
func (a *Amazon) Proxy() *Proxy {
	p := &Proxy{to: a}
	p.server = httptest.NewServer(http.HandlerFunc(p.connect))
	p.URL = p.server.URL
	return p
}

// Close ends the proxy.
func (p *Proxy) Close() { p.server.Close() }

// Address is where a name and port of AWS is on this machine; "" is nowhere.
func (a *Amazon) Address(name string) string {
	host, port, err := net.SplitHostPort(name)
	switch {
	case err != nil || port != "443":
		return ""
	case host == domain || strings.HasSuffix(host, "."+domain):
		u, _ := url.Parse(a.Endpoint)
		return u.Host
	case host == sts:
		return a.sts
	}
	return ""
}

// Asked are the names that were asked for since the last call, sorted.
func (p *Proxy) Asked() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	names := slices.Compact(slices.Sorted(slices.Values(p.asked)))
	p.asked = nil
	return names
}

// connect leads one connection; see CONNECT in RFC 9110, 9.3.6.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request) {
	to := p.to.Address(r.Host)
	p.mu.Lock()
	p.asked = append(p.asked, strings.TrimSuffix(r.Host, ":443"))
	p.mu.Unlock()
	if r.Method != http.MethodConnect || to == "" {
		http.Error(w, "only to AWS", http.StatusForbidden)
		return
	}
	server, err := net.Dial("tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer server.Close()
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer client.Close()
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	go func() {
		_, _ = io.Copy(server, buffered)
		_ = server.(*net.TCPConn).CloseWrite()
	}()
	_, _ = io.Copy(client, server)
}

// token is STS: it answers to one role and one web identity with the keys of the store; without a session token, for versitygw knows none.
func (a *Amazon) token(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	if r.Form.Get("Action") != "AssumeRoleWithWebIdentity" || r.Form.Get("RoleArn") != Role || strings.TrimSpace(r.Form.Get("WebIdentityToken")) != WebToken {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprint(w, "<ErrorResponse><Error><Type>Sender</Type><Code>AccessDenied</Code><Message>not this one</Message></Error></ErrorResponse>")
		return
	}
	var answer bytes.Buffer
	fmt.Fprintf(&answer, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s</SecretAccessKey><Expiration>%s</Expiration>
</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, a.Access, a.Secret, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
	_, _ = w.Write(answer.Bytes())
}
