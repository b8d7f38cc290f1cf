package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
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
	handler := must.Get(Gateway(t.Context(), dial(t, address, Options{}).Conn(), o))(t)
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return &site{s, server, t}
}

// request makes a request of a line as "POST /v1/tasks {"spec": {}}".
func (s *site) request(line string) *http.Request {
	s.t.Helper()
	method, rest, _ := strings.Cut(line, " ")
	path, body, _ := strings.Cut(rest, " ")
	r := must.Get(http.NewRequestWithContext(s.t.Context(), method, s.URL+path, strings.NewReader(body)))(s.t)
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/json")
	}
	return r
}

// do returns the whole answer.
func (s *site) do(r *http.Request) (*http.Response, string) {
	s.t.Helper()
	answer := must.Get(s.Client().Do(r))(s.t)
	defer answer.Body.Close()
	body := must.Get(io.ReadAll(answer.Body))(s.t)
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
	must.Do(t, json.Unmarshal([]byte(body), &got))
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
	must.Do(t, json.Unmarshal(openAPI, &description))
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
	gateway := must.Get(Gateway(t.Context(), conn, GatewayOptions{}))(t)
	for _, m := range methods() {
		id := fmt.Sprintf("%s_%s", m.Parent().Name(), m.Name())
		there, is := described[id]
		delete(described, id)
		if onlyGRPC := m.IsStreamingClient() || slices.Contains([]string{"Backup", "IssueIdentity", "RevokeIdentity"}, string(m.Name())); is == onlyGRPC {
			t.Errorf("%s is described: %v", id, is)
		}
		if !is {
			continue
		}
		path := strings.NewReplacer("{id}", "a1", "{name}", "a1", "{tier}", "a1", "{plan}", "a1", "{team}", "a1").Replace(there.path)
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

// TestKindsOverHTTP: every kind has its own name, and a status that fits.
func TestKindsOverHTTP(t *testing.T) {
	conn := &recorder{}
	gateway := must.Get(Gateway(t.Context(), conn, GatewayOptions{}))(t)
	server := httptest.NewServer(gateway)
	defer server.Close()
	s := &site{nil, server, t}
	get := func(err error) (*http.Response, string) {
		conn.err = ToStatus(err)
		return s.do(s.request("GET /v1/tasks/a"))
	}
	for _, kind := range append(mover.Kinds(), context.Canceled) {
		err := &mover.Error{Op: "find", Location: "task", Name: "a\xff", Err: fmt.Errorf("%w: it is so", kind)}
		answer, body := get(err)
		if message := s.refused(answer, body, meanings[kind].http, KindName(kind)); message != err.Error() || answer.StatusCode < 400 {
			t.Errorf("%v is HTTP %d, and prints %q", err, answer.StatusCode, message)
		}
	}
	answer, body := get(&mover.Error{Op: "list", Location: "tasks", Err: mover.ErrTransient, After: 2100 * time.Millisecond})
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
