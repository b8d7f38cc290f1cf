package gpfs

import (
	"context"
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"datamove.dev/test/must"
)

const testPassword = "hunter2-never-shown"

// credentialsFile writes a file that only its owner may read.
func credentialsFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gui.env")
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// gui is an https server and a client of it that does not really wait.
type gui struct {
	*Client
	server *httptest.Server
	option Options

	mu     sync.Mutex // guards all below
	calls  []string
	pauses []time.Duration
}

func newGUI(t testing.TB, handle http.HandlerFunc) *gui {
	t.Helper()
	g := &gui{}
	g.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.calls = append(g.calls, r.Method+" "+r.URL.RequestURI())
		g.mu.Unlock()
		user, password, ok := r.BasicAuth()
		if !ok || user != "mover" || password != testPassword {
			t.Errorf("%s came without the credentials", r.URL.Path)
		}
		handle(w, r)
	}))
	g.server.Config.ErrorLog = log.New(io.Discard, "", 0) // callers that leave are what is tested
	g.server.StartTLS()
	t.Cleanup(g.server.Close)
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: g.server.Certificate().Raw})
	must.Do(t, os.WriteFile(bundle, certificate, 0o600))
	g.option = Options{
		URL: g.server.URL, CABundle: bundle,
		CredentialsFile: credentialsFile(t, "# of the mover\nSCALE_USER=mover\nSCALE_PASSWORD="+testPassword+"\n"),
	}
	client := must.Get(NewClient(g.option))(t)
	client.pause = func(ctx context.Context, d time.Duration) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.pauses = append(g.pauses, d)
		return context.Cause(ctx)
	}
	g.Client = client
	return g
}

// keepAlive spares a test of many calls its handshakes.
func (g *gui) keepAlive(t testing.TB) {
	g.http.Transport.(*http.Transport).DisableKeepAlives = false
	t.Cleanup(g.http.CloseIdleConnections)
}

func (g *gui) seen() ([]string, []time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return append([]string(nil), g.calls...), append([]time.Duration(nil), g.pauses...)
}

// say answers everything with one text.
func say(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// second is for calls of which only the error counts.
func second[A any](_ A, err error) error { return err }

// inTurn answers one call after the other, and the last one for ever.
func inTurn(handlers ...http.HandlerFunc) http.HandlerFunc {
	var mu sync.Mutex
	n := 0
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		h := handlers[min(n, len(handlers)-1)]
		n++
		mu.Unlock()
		h(w, r)
	}
}

// never answers when the caller has gone.
func never(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

// noSecret fails when an error shows what nobody shall see.
func noSecret(t *testing.T, err error) {
	t.Helper()
	if err != nil && strings.Contains(err.Error(), testPassword) {
		t.Errorf("the password is in the error: %v", err)
	}
}
