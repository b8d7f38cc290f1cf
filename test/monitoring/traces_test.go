package monitoring

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/telemetry"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// receiver is a collector that keeps what it is sent.
type receiver struct {
	collector.UnimplementedTraceServiceServer
	address string

	mu    sync.Mutex
	spans []*span // guarded by mu
}

// span is one span, and the process that it is of.
type span struct {
	*tracepb.Span
	service string
	attrs   map[string]string
}

func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, process := range req.GetResourceSpans() {
		service := ""
		for _, a := range process.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, part := range process.GetScopeSpans() {
			for _, s := range part.GetSpans() {
				attrs := map[string]string{}
				for _, a := range s.GetAttributes() {
					attrs[a.GetKey()] = a.GetValue().GetStringValue()
				}
				r.spans = append(r.spans, &span{s, service, attrs})
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &receiver{address: l.Addr().String()}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(l) })
	t.Cleanup(func() { s.Stop(); served.Wait() })
	return r
}

// of are the spans of a trace.
func (r *receiver) of(trace string) (all []*span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if hex.EncodeToString(s.GetTraceId()) == trace {
			all = append(all, s)
		}
	}
	return all
}

// named are those of a name.
func named(all []*span, name string) []*span {
	return slices.DeleteFunc(slices.Clone(all), func(s *span) bool { return s.GetName() != name })
}

// path is where a span is in its trace, from its beginning on.
func path(all []*span, s *span) string {
	for _, p := range all {
		if string(p.GetSpanId()) == string(s.GetParentSpanId()) {
			return path(all, p) + " > " + s.GetName()
		}
	}
	if len(s.GetParentSpanId()) > 0 {
		return "? > " + s.GetName()
	}
	return s.GetName()
}

const submitted = "datamove.v1.TaskService/SubmitTask"

// commandInATrace: a command that a pipeline starts is part of its trace.
func commandInATrace(t *testing.T, p *running) {
	must.Do(t, os.Mkdir(p.path("warm/one"), 0o755))
	must.Do(t, os.WriteFile(p.path("warm/one/f"), []byte("x"), 0o644))
	const trace = "0af7651916cd43dd8448eb211c80319c"
	tool := rig.New(t)
	tool.Env = []string{"TRACEPARENT=00-" + trace + "-b7ad6b7169203331-01"}
	tool.Start(t, "copy", "--service", "unix://"+p.path("s"), "warm:one", "warm:other").Want(0)
	p.eventually("what was done for it is part of it", func() bool {
		all := p.traces.of(trace)
		return len(named(all, submitted)) == 1 && len(named(all, "lead")) == 1 && len(named(all, "unit")) > 0
	})
}

// oneTrace: what a command, the coordinator, two agents and their workers do for one
// copy is one trace, and each span of it is where it belongs.
func oneTrace(t *testing.T, p *running) {
	p.join("n2")
	shutdown, err := telemetry.Tracing(t.Context(), "http://"+p.traces.address, slog.String("service.name", "command"))
	must.Do(t, err)
	must.Do(t, os.Mkdir(p.path("warm/many"), 0o755))
	for n := range 3000 {
		must.Do(t, os.WriteFile(p.path(fmt.Sprintf("warm/many/f%04d", n)), []byte(strings.Repeat("x", n%500)), 0o644))
	}
	must.Do(t, os.WriteFile(p.path("warm/many/large"), make([]byte, 96<<20), 0o644))
	must.Do(t, os.Truncate(p.path("warm/many/large"), 96<<20))
	ctx, end := telemetry.Span(t.Context(), "command")
	task, err := p.SubmitTask(ctx, &datamovev1.SubmitTaskRequest{Spec: &datamovev1.TaskSpec{
		Kind: datamovev1.TaskKind_TASK_KIND_COPY, Source: "warm:many", Target: "warm:done",
		Options: &datamovev1.Options{BytesPerSecond: 16 << 20, NoReflink: true},
	}})
	must.Do(t, err)
	task, err = p.Wait(t.Context(), task.GetId(), nil)
	must.Do(t, err)
	end(nil)
	must.Do(t, shutdown(t.Context()))
	if task.GetState() != datamovev1.TaskState_TASK_STATE_DONE {
		t.Fatalf("%v", task)
	}
	trace := strings.Split(telemetry.Inject(ctx), "-")[1]
	if !strings.Contains(task.GetTraceParent(), trace) {
		t.Errorf("the task is part of %q, not of %s", task.GetTraceParent(), trace)
	}
	var all []*span
	p.eventually("all spans are there", func() bool {
		all = p.traces.of(trace)
		return len(named(all, "lead")) == 1 && len(named(all, "move")) == 1 && len(named(all, "batch")) > 0 && len(named(all, "unit")) > 3 &&
			!slices.ContainsFunc(all, func(s *span) bool { return strings.HasPrefix(path(all, s), "? > ") })
	})
	lead := "command > " + submitted + " > " + submitted + " > dispatch > lead"
	give := lead + " > datamove.agent.v1.LinkService/Give > datamove.agent.v1.LinkService/Give"
	for _, row := range []struct{ name, service, path string }{
		{"command", "command", "command"},
		{"dispatch", "datamoved", "command > " + submitted + " > " + submitted + " > dispatch"},
		{"lead", "datamoved", lead},
		{"move", "datamoved worker", lead + " > move"},
		{"batch", "datamoved worker", give + " > batch"},
		{"unit", "datamoved worker", ""},
		{"datamove.agent.v1.LinkService/Finish", "datamoved", ""},
		{"datamove.agent.v1.LinkService/Confirm", "datamoved", ""},
		{"datamove.agent.v1.LinkService/Reply", "datamoved", ""},
	} {
		found := named(all, row.name)
		if len(found) == 0 {
			t.Errorf("there is no %s", row.name)
		}
		for _, s := range found {
			at := path(all, s)
			if s.service != row.service || row.path != "" && at != row.path || row.path == "" && !strings.HasPrefix(at, lead+" > ") {
				t.Errorf("%s of %s is at %s", s.GetName(), s.service, at)
			}
		}
	}
	events := p.metrics()
	for _, event := range []string{"given", "leased", "done"} {
		if sum(events, "datamove_batch_events_total", "event", event) == 0 {
			t.Errorf("no batch was %s", event)
		}
	}
	if led := named(all, "lead")[0].attrs; led["task"] != task.GetId() {
		t.Errorf("the lead is of %v", led)
	}
}
