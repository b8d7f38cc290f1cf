package api

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// site is a gateway in front of a service at a unix socket.
type site struct {
	*service
	*httptest.Server
	t *testing.T
}

func newSite(t *testing.T, o GatewayOptions) *site {
	t.Helper()
	s := newService()
	address, _ := s.atSocket(t, socket(t))
	handler, err := Gateway(t.Context(), dial(t, address, Options{}).Conn(), o)
	ok(t, err)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &site{s, server, t}
}

// request makes a request of a line as "POST /v1/tasks {"spec": {}}".
func (s *site) request(line string) *http.Request {
	s.t.Helper()
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	r, err := http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body))
	ok(s.t, err)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do returns the whole answer.
func (s *site) do(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	answer, err := s.Client().Do(r)
	ok(s.t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	ok(s.t, err)
	return answer, string(body)
}

// refused reads an answer that is a datamove.v1.Error of that status and kind.
func (s *site) refused(answer *http.Response, body string, code int, kind string) string {
	s.t.Helper()
	var e datamovev1.Error
	if err := protojson.Unmarshal([]byte(body), &e); err != nil || answer.Header.Get("Content-Type") != "application/json" {
		s.t.Errorf("an error that is no Error: %q, %v", body, err)
	}
	if answer.StatusCode != code || int(e.Code) != code || e.Kind != kind || e.Message == "" {
		s.t.Errorf("HTTP %d: %v, want %d, %s", answer.StatusCode, &e, code, kind)
	}
	return e.Message
}

// TestGateway is what a caller sees of messages.
func TestGateway(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	answer, body := s.do(s.request(`POST /v1/tasks {"spec": {"kind": "TASK_KIND_COPY", "source": "/a", "options": {"bytesPerSecond": "9007199254740993"}}, "idempotencyKey": "k"}`))
	var got map[string]any
	ok(t, json.Unmarshal([]byte(body), &got))
	if answer.StatusCode != 200 || got["id"] != "task1" || got["idempotencyKey"] != "k" || got["revision"] != "1" || got["exitCode"] != nil {
		t.Errorf("HTTP %d: %s", answer.StatusCode, body)
	}
	if bps := s.tasks[0].Spec.Options.BytesPerSecond; bps != 9007199254740993 {
		t.Errorf("a number of 64 bits arrived as %d", bps)
	}
	if h := answer.Header; h.Get("Content-Type") != "application/json" || h.Get("Cache-Control") != "no-store" || h.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("headers %v", h)
	}

	s.do(s.request("GET /v1/tasks?pageSize=7&states=TASK_STATE_DONE&states=TASK_STATE_FAILED&labels[slurm_job]=12&brief=true"))
	want := &datamovev1.ListTasksRequest{PageSize: 7, States: []datamovev1.TaskState{4, 5}, Labels: map[string]string{"slurm_job": "12"}, Brief: true}
	if asked, _ := s.lastAsked(); !proto.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
}

// recorder is a connection that remembers the method and calls nobody.
type recorder struct {
	called string
	err    error // the answer
}

func (r *recorder) Invoke(_ context.Context, method string, _, _ any, _ ...grpc.CallOption) error {
	r.called = method
	return r.err
}

func (r *recorder) NewStream(_ context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	r.called = method
	return nil, r.err
}

// route is where a method is to be found, as openapi.json says it.
type route struct{ verb, path string }

func routes(t *testing.T) map[string]route {
	t.Helper()
	var description struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	ok(t, json.Unmarshal(openAPI, &description))
	found := map[string]route{}
	for path, verbs := range description.Paths {
		for verb, operation := range verbs {
			found[operation.OperationID] = route{strings.ToUpper(verb), path}
		}
	}
	return found
}

// TestRoutes: every public method that is not private to gRPC has a route, which is
// described, and leads to it.
func TestRoutes(t *testing.T) {
	conn, described := &recorder{err: status.Error(codes.Unknown, "called")}, routes(t)
	gateway, err := Gateway(t.Context(), conn, GatewayOptions{})
	ok(t, err)
	for _, m := range methods() {
		id := fmt.Sprintf("%s_%s", m.Parent().Name(), m.Name())
		there, is := described[id]
		delete(described, id)
		if onlyGRPC := m.IsStreamingClient() || m.Name() == "Backup"; is == onlyGRPC {
			t.Errorf("%s is described: %v", id, is)
		}
		if !is {
			continue
		}
		path := strings.NewReplacer("{id}", "a1", "{name}", "a1").Replace(there.path)
		r := httptest.NewRequest(there.verb, "http://localhost"+path, nil)
		if there.verb == http.MethodPost {
			r.Header.Set("Content-Type", "application/json")
		}
		conn.called = ""
		gateway.ServeHTTP(httptest.NewRecorder(), r)
		if want := fmt.Sprintf("/%s/%s", m.Parent().FullName(), m.Name()); conn.called != want {
			t.Errorf("%s %s calls %q, want %s", there.verb, path, conn.called, want)
		}
	}
	if len(described) != 0 {
		t.Errorf("described, and no method: %v", described)
	}
}

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
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
		ok(t, err)
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

// TestKindsOverHTTP: every kind has its own name, and a status that fits.
func TestKindsOverHTTP(t *testing.T) {
	conn := &recorder{}
	gateway, err := Gateway(t.Context(), conn, GatewayOptions{})
	ok(t, err)
	server := httptest.NewServer(gateway)
	defer server.Close()
	s := &site{nil, server, t}
	get := func(err error) (*http.Response, string) {
		conn.err = ToStatus(err)
		return s.do(s.request("GET /v1/tasks/a"))
	}
	for _, kind := range append(mover.Kinds(), context.Canceled) {
		err := &mover.Error{Op: "find", Place: "task", Name: "a\xff", Err: fmt.Errorf("%w: it is so", kind)}
		answer, body := get(err)
		if message := s.refused(answer, body, meanings[kind].http, KindName(kind)); message != err.Error() || answer.StatusCode < 400 {
			t.Errorf("%v is HTTP %d, and prints %q", err, answer.StatusCode, message)
		}
	}
	answer, body := get(&mover.Error{Op: "list", Place: "tasks", Err: mover.ErrTransient, After: 2100 * time.Millisecond})
	s.refused(answer, body, 429, "TRANSIENT")
	if after := answer.Header.Get("Retry-After"); after != "3" {
		t.Errorf("a rate limit says to wait for %q s", after)
	}
	for _, row := range []struct {
		err  error
		code int
		kind string
	}{
		{status.Error(codes.Unauthenticated, "who are you?"), 401, "PERMISSION"},
		{status.Error(codes.Internal, "a bug"), 500, "OTHER"},
		{errors.New("a bug"), 500, "OTHER"},
	} {
		answer, body := get(row.err)
		s.refused(answer, body, row.code, row.kind)
	}
}

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
		gateway, err := Gateway(t.Context(), &recorder{}, GatewayOptions{Host: row.served})
		ok(t, err)
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

// TestStream is a task that is followed over HTTP, in both forms.
func TestStream(t *testing.T) {
	for _, row := range []struct{ accept, kind, before, after string }{
		{"", "application/x-ndjson", "", "\n"},
		{"application/json", "application/x-ndjson", "", "\n"},
		{"text/event-stream", "text/event-stream", "data: ", "\n\n"},
		{"text/html, Text/Event-Stream;q=0.9, */*", "text/event-stream", "data: ", "\n\n"},
	} {
		s := newSite(t, GatewayOptions{})
		s.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
		r := s.request("GET /v1/tasks/task1:watch")
		r.Header.Set("Accept", row.accept)
		answer, err := s.Client().Do(r)
		ok(t, err)
		if kind := answer.Header.Get("Content-Type"); kind != row.kind || answer.StatusCode != 200 {
			t.Errorf("%s: HTTP %d, %s", row.accept, answer.StatusCode, kind)
		}
		in := bufio.NewReader(answer.Body)
		for _, want := range []string{"TASK_STATE_QUEUED", "TASK_STATE_RUNNING", "TASK_STATE_DONE"} {
			one := readUntil(t, in, row.after)
			var value struct{ Result struct{ ID, State string } }
			ok(t, json.Unmarshal([]byte(strings.TrimPrefix(one, row.before)), &value))
			if !strings.HasPrefix(one, row.before) || value.Result.State != want || value.Result.ID != "task1" {
				t.Errorf("%s: %q, want %s", row.accept, one, want)
			}
			if want == "TASK_STATE_QUEUED" {
				s.change("task1", become(running))
			} else {
				s.change("task1", become(done))
			}
		}
		if rest, err := io.ReadAll(in); err != nil || len(rest) != 0 {
			t.Errorf("%s: %q after the end, %v", row.accept, rest, err)
		}
		ok(t, answer.Body.Close())
	}
}

// readUntil reads up to an end of one element of a stream.
func readUntil(t *testing.T, in *bufio.Reader, end string) string {
	t.Helper()
	var one strings.Builder
	for !strings.HasSuffix(one.String(), end) {
		line, err := in.ReadString('\n')
		ok(t, err)
		one.WriteString(line)
	}
	return strings.TrimSuffix(one.String(), end)
}

func TestStreamErrors(t *testing.T) {
	s := newService()
	address, kill := s.atSocket(t, socket(t))
	gateway, err := Gateway(t.Context(), dial(t, address, Options{}).Conn(), GatewayOptions{})
	ok(t, err)
	server := httptest.NewServer(gateway)
	defer server.Close()
	at := &site{s, server, t}

	for _, accept := range []string{"application/json", "text/event-stream"} {
		r := at.request("GET /v1/tasks/other:watch")
		r.Header.Set("Accept", accept)
		answer, body := at.do(r) // before it begins, as any other answer
		at.refused(answer, body, 404, "NOT_EXIST")
	}

	s.submit(t.Context(), &datamovev1.SubmitTaskRequest{})
	answer, err := server.Client().Do(at.request("GET /v1/tasks/task1:watch"))
	ok(t, err)
	defer answer.Body.Close()
	in := bufio.NewReader(answer.Body)
	readUntil(t, in, "\n")
	kill()
	var value struct {
		Error struct {
			Code          int
			Kind, Message string
		}
	}
	ok(t, json.Unmarshal([]byte(readUntil(t, in, "\n")), &value))
	if e := value.Error; e.Code != 502 || e.Kind != "UNREACHABLE" || e.Message == "" || strings.Contains(e.Message, "rpc error") {
		t.Errorf("the service died: %+v", e)
	}
}

func TestOpenAPI(t *testing.T) {
	s := newSite(t, GatewayOptions{})
	answer, body := s.do(s.request("GET /openapi.json"))
	if answer.StatusCode != 200 || body != string(openAPI) || answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("HTTP %d: %.100s", answer.StatusCode, body)
	}
	if strings.Contains(body, "LinkService") || strings.Contains(body, "EnrollService") {
		t.Error("what agents say among themselves is described to the public")
	}
	answer, body = s.do(s.request("POST /openapi.json"))
	s.refused(answer, body, 404, "NOT_EXIST")
}
