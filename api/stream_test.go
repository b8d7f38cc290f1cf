package api

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/test/must"
)

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
		answer := must.Get(s.Client().Do(r))(t)
		if kind := answer.Header.Get("Content-Type"); kind != row.kind || answer.StatusCode != 200 {
			t.Errorf("%s: HTTP %d, %s", row.accept, answer.StatusCode, kind)
		}
		in := bufio.NewReader(answer.Body)
		for _, want := range []string{"TASK_STATE_QUEUED", "TASK_STATE_RUNNING", "TASK_STATE_DONE"} {
			one := readUntil(t, in, row.after)
			var value struct{ Result struct{ ID, State string } }
			must.Do(t, json.Unmarshal([]byte(strings.TrimPrefix(one, row.before)), &value))
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
		must.Do(t, answer.Body.Close())
	}
}

// readUntil reads up to an end of one element of a stream.
func readUntil(t *testing.T, in *bufio.Reader, end string) string {
	t.Helper()
	var one strings.Builder
	for !strings.HasSuffix(one.String(), end) {
		line := must.Get(in.ReadString('\n'))(t)
		one.WriteString(line)
	}
	return strings.TrimSuffix(one.String(), end)
}

func TestStreamErrors(t *testing.T) {
	s := newService()
	address, kill := s.atSocket(t, socket(t))
	gateway := must.Get(Gateway(t.Context(), dial(t, address, Options{}).Conn(), GatewayOptions{}))(t)
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
	answer := must.Get(server.Client().Do(at.request("GET /v1/tasks/task1:watch")))(t)
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
	must.Do(t, json.Unmarshal([]byte(readUntil(t, in, "\n")), &value))
	if e := value.Error; e.Code != 502 || e.Kind != "UNREACHABLE" || e.Message == "" || strings.Contains(e.Message, "rpc error") {
		t.Errorf("the service died: %+v", e)
	}
}
