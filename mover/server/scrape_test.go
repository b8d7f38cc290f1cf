package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"datamove.dev/mover/server/authz"
	"datamove.dev/test/must"
)

// The address for the network tells how it is, by whatever name it is called, and nothing else: not even to who
// looks at the page, and it asks nobody who they are.
//
//safety:7 what is told to the network without a certificate: metrics and health, to a bounded crowd
func TestScrape(t *testing.T) {
	var sick atomic.Bool
	r := unstarted(t, func(o *Options) {
		o.Scrape = "127.0.0.1:0"
		o.Health = func(context.Context) error {
			if sick.Load() {
				return errors.New("secret of the ledger")
			}
			return nil
		}
	})
	r.configure(authz.Input{Roles: map[string]authz.Role{"look": {Members: []string{"viewer"}, May: []string{"*"}}}})
	r.run()
	get := func(method, path, host string) (int, string) {
		t.Helper()
		request := must.Get(http.NewRequestWithContext(t.Context(), method, "http://"+r.ScrapeAddress()+path, nil))(t)
		request.Host, request.Close = host, true
		answer := must.Get(http.DefaultClient.Do(request))(t)
		defer answer.Body.Close()
		text := must.Get(io.ReadAll(answer.Body))(t)
		return answer.StatusCode, string(text)
	}
	for _, row := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/metrics", 200, "datamove_build_info"},
		{"HEAD", "/metrics", 200, ""},
		{"POST", "/metrics", 405, "can only be read"},
		{"GET", "/healthz", 200, "ok"},
		{"GET", "/", 404, "/metrics and /healthz"},
		{"GET", "/page/app.js", 404, ""},
		{"GET", "/v1/tasks", 404, ""},
		{"GET", "//metrics", 404, ""},
		{"GET", "/metrics/../v1/tasks", 404, ""},
	} {
		if code, text := get(row.method, row.path, "datamove.site:7644"); code != row.code || !strings.Contains(text, row.says) {
			t.Errorf("%s %s: %d: %.80s", row.method, row.path, code, text)
		}
	}
	sick.Store(true)
	if code, text := get("GET", "/healthz", "x"); code != 503 || strings.Contains(text, "secret") {
		t.Errorf("sick: %d: %s", code, text)
	}
	if n := len(r.records.take()); n != 0 {
		t.Errorf("%d decisions were written down", n)
	}
}

// Without another word it is the services behind the server that are asked.
func TestScrapeAsksTheServices(t *testing.T) {
	r := unstarted(t, func(o *Options) { o.Scrape = "127.0.0.1:0" })
	r.run()
	answer := must.Get(http.Get("http://" + r.ScrapeAddress() + "/healthz"))(t)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Errorf("%s", answer.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A crowd of scrapers is bounded, each address of it, too.
//
//safety:7 with TestScrape
func TestScrapeCrowd(t *testing.T) {
	r := unstarted(t, func(o *Options) { o.Scrape = "127.0.0.1:0" })
	r.run()
	var held []net.Conn
	for range eachScraper + 3 {
		conn := must.Get(net.Dial("tcp", r.ScrapeAddress()))(t)
		defer conn.Close()
		held = append(held, conn)
	}
	ended := 0
	for _, conn := range held[eachScraper:] {
		if _, err := conn.Read(make([]byte, 1)); err != nil {
			ended++
		}
	}
	if ended != 3 {
		t.Errorf("%d of 3 were turned away", ended)
	}
}
