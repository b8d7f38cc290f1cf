package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	common "go.opentelemetry.io/proto/otlp/common/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// receiver is an OTLP collector that keeps what it gets.
type receiver struct {
	collector.UnimplementedTraceServiceServer

	mu     sync.Mutex // guards all below
	spans  map[string]*tracepb.Span
	shared map[string]string // attributes of the process
}

func (r *receiver) Export(_ context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, process := range req.ResourceSpans {
		r.shared = texts(process.Resource.Attributes)
		for _, part := range process.ScopeSpans {
			for _, span := range part.Spans {
				r.spans[span.Kind.String()+" "+span.Name] = span
			}
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

func texts(attrs []*common.KeyValue) map[string]string {
	all := map[string]string{}
	for _, a := range attrs {
		all[a.Key] = a.Value.GetStringValue()
		if a.Value.GetStringValue() == "" {
			all[a.Key] = a.Value.String()
		}
	}
	return all
}

// collect runs what makes spans, and returns the collector after the last of them came.
func collect(t *testing.T, attrs []slog.Attr, work func()) *receiver {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &receiver{spans: map[string]*tracepb.Span{}}
	s := grpc.NewServer()
	collector.RegisterTraceServiceServer(s, r)
	var served sync.WaitGroup
	served.Go(func() {
		must.Tell(t, s.Serve(l))
	})
	shutdown := must.Get(Tracing(t.Context(), "http://"+l.Addr().String(), attrs...))(t)
	work()
	must.Tell(t, shutdown(context.Background()))
	s.GracefulStop()
	served.Wait()
	return r
}

const (
	client = "SPAN_KIND_CLIENT "
	server = "SPAN_KIND_SERVER "
	inner  = "SPAN_KIND_INTERNAL "
	get    = "datamove.v1.TaskService/GetTask"
	watch  = "datamove.v1.TaskService/WatchTask"
)

// A command asks the service, whose agent has a worker process: one trace.
func TestATraceIsOne(t *testing.T) {
	r := collect(t, []slog.Attr{slog.String("service.name", "datamoved")}, func() {
		t.Run("call", func(t *testing.T) {
			var handed string
			service := connect(t, ServerOptions(), func(ctx context.Context) { handed = Inject(ctx) }, DialOptions()...)
			ctx, end := Span(t.Context(), "submit", slog.String("task", "17"), slog.Duration("wait", 1500*time.Millisecond),
				slog.Any("key", valued{}), slog.Group("size", slog.Int("files", 3), slog.Uint64("bytes", 1<<40)))
			_, err := service.GetTask(ctx, &datamovev1.GetTaskRequest{Id: "there"})
			end(err)
			worker := Extract(context.Background(), handed) // another process
			_, end = Span(worker, "move", slog.String("name", "not \xff UTF-8"))
			end(&mover.Error{Op: "read", Name: "\xff", Err: mover.ErrCorrupt})
		})
	})
	submit, call, answer, move := r.spans[inner+"submit"], r.spans[client+get], r.spans[server+get], r.spans[inner+"move"]
	if submit == nil || call == nil || answer == nil || move == nil || len(r.spans) != 4 {
		t.Fatalf("spans: %v", r.spans)
	}
	for _, pair := range [][2]*tracepb.Span{{submit, call}, {call, answer}, {answer, move}} {
		if string(pair[0].SpanId) != string(pair[1].ParentSpanId) || string(pair[0].TraceId) != string(pair[1].TraceId) {
			t.Errorf("%s is not in %s", pair[1].Name, pair[0].Name)
		}
	}
	if len(submit.ParentSpanId) != 0 {
		t.Error("the trace begins before the command")
	}
	attrs := texts(submit.Attributes)
	if attrs["task"] != "17" || attrs["wait"] != "double_value:1.5" || attrs["key"] != shown || attrs["size.files"] != "int_value:3" {
		t.Errorf("attributes: %v", attrs)
	}
	if move.Status.GetCode() != tracepb.Status_STATUS_CODE_ERROR || !strings.Contains(move.Status.Message, "checksum mismatch") {
		t.Errorf("status: %v", move.Status)
	}
	if answer.Status.GetCode() == tracepb.Status_STATUS_CODE_ERROR || r.shared["service.name"] != "datamoved" || r.shared["host.name"] == "" {
		t.Errorf("status %v, process %v", answer.Status, r.shared)
	}
}

// A stream that lasts for days has no span, and what happens below it has one.
func TestStandingStreamsHaveNoSpan(t *testing.T) {
	r := collect(t, nil, func() {
		t.Run("watch", func(t *testing.T) {
			service := connect(t, ServerOptions(), nil, DialOptions()...)
			ctx, end := Span(t.Context(), "wait")
			defer func() { end(nil) }()
			stream := must.Get(service.WatchTask(ctx, &datamovev1.WatchTaskRequest{}))(t)
			if _, err := stream.Recv(); err == nil {
				t.Error("a task that is not there")
			}
		})
	})
	if len(r.spans) != 1 || r.spans[inner+"wait"] == nil {
		t.Errorf("spans: %v", r.spans)
	}
}

// Who is called records what the caller records.
func TestTheCallerDecides(t *testing.T) {
	r := collect(t, nil, func() {
		for _, parent := range []string{
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00", // not recorded
			"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01",
		} {
			_, end := Span(Extract(context.Background(), parent), "called by "+parent)
			end(nil)
		}
	})
	if len(r.spans) != 1 || r.spans[inner+"called by 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203332-01"] == nil {
		t.Errorf("spans: %v", r.spans)
	}
}

func TestInjectedAndExtracted(t *testing.T) {
	for _, text := range []string{"", "nonsense", "00-0-0-0", strings.Repeat("0", 1<<16), "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		if back := Inject(Extract(context.Background(), text)); back != "" {
			t.Errorf("%.60q is a trace: %s", text, back)
		}
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx := Extract(context.Background(), parent)
	if back := Inject(ctx); back != parent {
		t.Errorf("%s came back as %q", parent, back)
	}
	log, lines := logged(t, "json", slog.LevelInfo)
	log.With("task", "17").InfoContext(ctx, "led")
	if all := lines(); !strings.Contains(all[0], `"trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"`) {
		t.Errorf("log: %s", all)
	}
}

// Without an endpoint nothing is sent, and nothing is recorded.
func TestTracingIsOff(t *testing.T) {
	shutdown := must.Get(Tracing(t.Context(), ""))(t)
	ctx, end := Span(t.Context(), "nothing", slog.String("task", "17"))
	if Inject(ctx) != "" {
		t.Error("a span without tracing")
	}
	end(errors.New("told nobody"))
	must.Tell(t, shutdown(t.Context()))
}

func TestEndpointsThatAreNone(t *testing.T) {
	for _, endpoint := range []string{"localhost:4317", "ftp://host", "http://", "http://bob:hunter2@host:4317", "http://host:a b"} {
		shutdown, err := Tracing(t.Context(), endpoint)
		if !errors.Is(err, mover.ErrUsage) || shutdown != nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v", endpoint, err)
		}
	}
}

// A collector that is not there costs a warning.
func TestACollectorThatIsNotThere(t *testing.T) {
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "100") // ms; without it we would wait for longer
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	l.Close() // nobody listens there
	log, lines := logged(t, "text", slog.LevelInfo)
	before := slog.Default()
	slog.SetDefault(log)
	defer slog.SetDefault(before)
	shutdown := must.Get(Tracing(t.Context(), "http://"+l.Addr().String()))(t)
	_, end := Span(t.Context(), "told nobody")
	end(nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // as on SIGTERM
	must.Tell(t, shutdown(ctx))
	if all := lines(); len(all) == 0 || !strings.Contains(all[0], "traces can not be sent") {
		t.Errorf("log: %q", all)
	}
}

// What a process relays is sent on by another one, as if it could reach the collector
// itself, and not without end.
func TestRelayed(t *testing.T) {
	var sent [][]byte
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	shutdown, err := Relay(t.Context(), func(_ context.Context, spans []byte) error {
		sent = append(sent, spans)
		return nil
	}, slog.String("service.name", "worker"))
	must.Do(t, err)
	ctx, end := Span(Extract(t.Context(), parent), "move")
	_, endUnit := Span(ctx, "unit")
	endUnit(nil)
	end(nil)
	if err := shutdown(t.Context()); err != nil || len(sent) != 1 {
		t.Fatalf("%d packets, %v", len(sent), err)
	}
	if n, err := Forward(t.Context(), sent[0], 100); n != 0 || err != nil {
		t.Errorf("without tracing: %d, %v", n, err)
	}
	r := collect(t, []slog.Attr{slog.String("service.name", "agent")}, func() {
		if n, err := Forward(t.Context(), sent[0], 1); n != 0 || !errors.Is(err, mover.ErrRefused) {
			t.Errorf("too many: %d, %v", n, err)
		}
		if n, err := Forward(t.Context(), []byte("no spans"), 100); n != 0 || !errors.Is(err, mover.ErrUsage) {
			t.Errorf("no spans: %d, %v", n, err)
		}
		if n, err := Forward(t.Context(), sent[0], 2); n != 2 || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	})
	move, unit := r.spans[inner+"move"], r.spans[inner+"unit"]
	if move == nil || unit == nil || string(unit.ParentSpanId) != string(move.SpanId) || r.shared["service.name"] != "worker" {
		t.Errorf("spans %v of %v", r.spans, r.shared)
	}
}

// valued is logged as another value than it is.
type valued struct{}

func (valued) LogValue() slog.Value { return slog.StringValue(shown) }

const shown = "[shown]"
