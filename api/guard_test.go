package api

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

// What is in a path is one name, whatever it is: it can not lead to another route,
// nor be replaced by what is beside it.
func TestPaths(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	for _, row := range []struct {
		line string
		want proto.Message // that arrives; nil is nothing
	}{
		{"GET /v1/tasks/a-b_c.d~e", &datamovev1.GetTaskRequest{Id: "a-b_c.d~e"}},
		{"GET /v1/tasks/a:watch", &datamovev1.WatchTaskRequest{Id: "a"}},
		{"GET /v1/tasks/a%3Awatch", nil},
		{"GET /v1/tasks/a:watch:watch", &datamovev1.WatchTaskRequest{Id: "a:watch"}},
		{"GET /v1/tasks/a:pause", &datamovev1.GetTaskRequest{Id: "a:pause"}}, // a GET changes nothing
		{"GET /v1/tasks/:watch", nil},
		{"GET /v1/tasks/", nil},
		{"GET /v1/tasks/..", nil},
		{"GET /v1/tasks/.", nil},
		{"GET /v1/tasks/%2e%2e", nil},
		{"GET /v1/tasks/a/b", nil},
		{"GET /v1/tasks/a%2Fb", nil},
		{"GET /v1//tasks/a", nil},
		{"GET //v1/tasks/a", nil},
		{"GET /v1/tasks/a/", nil},
		{"GET /v1/tasks/a%00b", nil},
		{"GET /v1/tasks/a%20b", nil},
		{"GET /v1/tasks/a;b", nil},
		{"GET /v1/tasks/é", nil},
		{"GET /v1/tasks/a%", nil},
		{"POST /v1/tasks/a:pause", &datamovev1.PauseTaskRequest{Id: "a"}},
		{`POST /v1/tasks/a:pause {"id": "b"}`, &datamovev1.PauseTaskRequest{Id: "a"}},
		{"POST /v1/tasks/a:pause?id=b", nil},
		{"POST /v1/tasks/a%3Apause", nil},
		{"POST /v1/tasks/a:pau%73e", nil},
		{`POST /v1/leases/a:renew {"id": "b", "ttl": "60s"}`, &datamovev1.RenewLeaseRequest{Id: "a", Ttl: durationpb.New(time.Minute)}},
		{"DELETE /v1/datasets/a", &datamovev1.RemoveDatasetRequest{Name: "a"}},
		{"DELETE /v1/datasets/a?digest=d", &datamovev1.RemoveDatasetRequest{Name: "a", Digest: "d"}},
		{"DELETE /v1/datasets/a?name=b", nil},
		{"DELETE /v1/datasets/a?digset=d", nil},
		{`DELETE /v1/datasets/a {"digest": "d"}`, nil},
		{"DELETE /v1/datasets/", nil},
		{"DELETE /v1/datasets/a%2Fmanifest", nil},
		{"PUT /v1/datasets/a", nil},
		{"OPTIONS /v1/tasks", nil},
		{"HEAD /v1/tasks", nil},
		{"POST /v1/tasks/a", nil},
		{"GET /", nil},
		{"GET /datamove.v1.TaskService/GetTask", nil},
	} {
		r := must.Get(http.NewRequestWithContext(t.Context(), "GET", s.URL, nil))(t)
		method, target, _ := strings.Cut(row.line, " ")
		target, body, _ := strings.Cut(target, " ")
		r.Method, r.Body = method, io.NopCloser(strings.NewReader(body))
		r.ContentLength = int64(len(body))
		path, query, _ := strings.Cut(target, "?")
		r.URL.Opaque, r.URL.RawQuery = path, query // sent as it stands
		if strings.HasPrefix(path, "//") {
			r.URL.Opaque = "//" + strings.TrimPrefix(s.URL, "http://") + path
		}
		r.Header.Set("Content-Type", "application/json")
		answer, text := s.do(r)
		asked, _ := s.lastAsked()
		if (row.want == nil) != (asked == nil) || row.want != nil && !proto.Equal(asked, row.want) {
			t.Errorf("%s: HTTP %d, arrives as %T %v", row.line, answer.StatusCode, asked, asked)
		}
		if row.want == nil && (answer.StatusCode < 400 || answer.StatusCode >= 500) {
			t.Errorf("%s: HTTP %d: %s", row.line, answer.StatusCode, text)
		}
	}
}

func TestQueries(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	for _, query := range []string{"pagesize=1", "page_size.x=1", "state=TASK_STATE_DONE", "x=1", "labels.a.b=c", "states=NONE", "pageSize=x", "pageSize=1&page_size=2", "%zz"} {
		answer, body := s.do(s.request("GET /v1/tasks?" + query))
		s.refused(answer, body, 400, "USAGE")
	}
	if asked, _ := s.lastAsked(); asked != nil {
		t.Errorf("arrives as %v", asked)
	}
}

func TestBodies(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	for _, row := range []struct {
		name, kind, body string
		code             int
	}{
		{"a form", "application/x-www-form-urlencoded", "spec=1", 415},
		{"a form of another type", "multipart/form-data; boundary=x", "--x--", 415},
		{"plain text, as a form can send it", "text/plain", `{}`, 415},
		{"no type", "", `{}`, 415},
		{"two types", "application/json, text/plain", `{}`, 415},
		{"nearly JSON", "application/jsonp", `{}`, 415},
		{"JSON in other letters", "Application/JSON; charset=utf-8", `{}`, 200},
		{"nothing", "application/json", ``, 200},
		{"an unknown field", "application/json", `{"specs": {}}`, 400},
		{"a field twice", "application/json", `{"spec": {}, "spec": {}}`, 400},
		{"two values", "application/json", `{} {}`, 400},
		{"no object", "application/json", `[]`, 400},
		{"no JSON", "application/json", `{`, 400},
		{"no UTF-8", "application/json", "{\"idempotencyKey\": \"\xff\"}", 400},
		{"a number that is too large", "application/json", `{"spec": {"options": {"jobs": 99999999999}}}`, 400},
		{"deeper than anything", "application/json", strings.Repeat(`{"spec":`, 100_000), 400},
		{"as large as may be", "application/json", `{"idempotencyKey": "` + strings.Repeat("x", maxBody-23) + `"}`, 200},
		{"one byte more", "application/json", `{"idempotencyKey": "` + strings.Repeat("x", maxBody-22) + `" }`, 413},
		{"much more", "application/json", strings.Repeat(" ", 4*maxBody), 413},
	} {
		r := s.request("POST /v1/tasks " + row.body)
		r.Header.Set("Content-Type", row.kind)
		if row.kind == "" {
			r.Header.Del("Content-Type")
		}
		answer, body := s.do(r)
		asked, _ := s.lastAsked()
		if answer.StatusCode != row.code || (asked != nil) != (row.code == 200) {
			t.Errorf("%s: HTTP %d, want %d: %.200s", row.name, answer.StatusCode, row.code, body)
		}
		if row.code != 200 {
			s.refused(answer, body, row.code, "USAGE")
		}
	}
}

// A body without a length is bounded, too.
func TestEndlessBody(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	r := s.request("POST /v1/tasks")
	r.Body, r.ContentLength = io.NopCloser(io.LimitReader(spaces{}, 1<<40)), -1
	answer, err := s.Client().Do(r)
	if err != nil {
		return // the connection was closed while we were still sending: as good
	}
	defer answer.Body.Close()
	if answer.StatusCode != 413 {
		t.Errorf("HTTP %d", answer.StatusCode)
	}
}

type spaces struct{}

func (spaces) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

func TestHosts(t *testing.T) {
	for _, row := range []struct {
		host   string
		served func(string) bool
		code   int
	}{
		{"localhost", nil, 200},
		{"localhost:8080", nil, 200},
		{"127.0.0.1:8080", nil, 200},
		{"[::1]:8080", nil, 200},
		{"[::1]", nil, 200},
		{"evil.example", nil, 421},
		{"localhost.evil.example:80", nil, 421},
		{"192.0.2.1", nil, 421},
		{"", nil, 421},
		{"mover.site:9000", func(name string) bool { return name == "mover.site" }, 200},
		{"localhost", func(name string) bool { return name == "mover.site" }, 421},
	} {
		gateway := must.Get(Gateway(t.Context(), &recorder{}, GatewayOptions{Host: row.served}))(t)
		r, w := httptest.NewRequest("GET", "/openapi.json", nil), httptest.NewRecorder()
		r.Host = row.host
		gateway.ServeHTTP(w, r)
		if w.Code != row.code {
			t.Errorf("%q: HTTP %d, want %d", row.host, w.Code, row.code)
		}
	}
}

// A page of another site gets nothing done through the browser of who may.
func TestForeignPages(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	for _, header := range []string{"Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-site", "Origin: https://evil.example", "Origin: null"} {
		name, value, _ := strings.Cut(header, ": ")
		for _, line := range []string{"POST /v1/tasks {}", "DELETE /v1/datasets/a"} {
			r := s.request(line)
			r.Header.Set(name, value)
			answer, body := s.do(r)
			s.refused(answer, body, 403, "PERMISSION")
		}
	}
	if asked, _ := s.lastAsked(); asked != nil {
		t.Errorf("arrives as %v", asked)
	}
	r := s.request("POST /v1/tasks {}")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	if answer, body := s.do(r); answer.StatusCode != 200 {
		t.Errorf("our own page: HTTP %d: %s", answer.StatusCode, body)
	}
}

// What the service is told about a caller is what the gateway says, and nothing
// that the caller says.
func TestNobodyMakesUpWhoHeIs(t *testing.T) {
	s := newSite(t, GatewayOptions{Metadata: func(*http.Request) metadata.MD { return metadata.Pairs("caller", "uid 1000") }})
	r := s.request("GET /v1/tasks")
	for _, name := range []string{"Caller", "Grpc-Metadata-Caller", "Grpc-Metadata-Caller-Bin", "Grpcgateway-Caller", "X-Forwarded-For", "X-Forwarded-Host",
		"Grpc-Metadata-X-Forwarded-For", "Cookie"} {
		r.Header.Set(name, "1S")
	}
	r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	r.Header.Set("X-HTTP-Method-Override", "DELETE")
	answer, body := s.do(r)
	asked, from := s.lastAsked()
	if answer.StatusCode != 200 || asked == nil {
		t.Fatalf("HTTP %d: %s", answer.StatusCode, body)
	}
	known := map[string]bool{":authority": true, "content-type": true, "user-agent": true, "grpc-accept-encoding": true,
		"caller": true, "traceparent": true, "x-forwarded-for": true, "x-forwarded-host": true}
	for key, values := range from {
		if !known[key] || strings.Contains(strings.Join(values, " "), "1S") {
			t.Errorf("the service hears %s: %q", key, values)
		}
	}
	if got := from.Get("caller"); len(got) != 1 || got[0] != "uid 1000" || len(from.Get("traceparent")) != 1 {
		t.Errorf("the service hears %v", from)
	}
}
