package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"datamove.dev/mover"
)

// MaxForward is how many spans Forward takes of one process.
const MaxForward = 20_000

// collecting is where Tracing sends spans; nil sends none.
var collecting atomic.Pointer[otlptrace.Client]

// Relay sends spans by send, in the form that [Forward] takes, until shutdown, which
// sends what is left. It is for a process that reaches no collector, and may know none
// of the secrets that open one: a worker, which has its agent forward them. What send does not take
// is lost.
func Relay(ctx context.Context, send func(ctx context.Context, spans []byte) error, attrs ...slog.Attr) (shutdown func(context.Context) error, err error) {
	return tracing(ctx, relay{send}, attrs)
}

// relay is an otlptrace.Client.
type relay struct {
	send func(context.Context, []byte) error
}

// Start implements otlptrace.Client.
func (relay) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (relay) Stop(context.Context) error { return nil }

// UploadTraces implements otlptrace.Client.
func (r relay) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	b, err := proto.Marshal(&collector.ExportTraceServiceRequest{ResourceSpans: spans})
	if err != nil {
		return err
	}
	return r.send(ctx, b)
}

// Collecting says whether spans of this process go anywhere.
func Collecting() bool { return collecting.Load() != nil }

// Forward passes spans of another process on to the collector, and returns how many
// there were. More than most are refused with mover.ErrRefused. Without Tracing they go
// nowhere.
func Forward(ctx context.Context, spans []byte, most int) (n int, err error) {
	to := collecting.Load()
	if to == nil {
		return 0, nil
	}
	request := &collector.ExportTraceServiceRequest{}
	if err := proto.Unmarshal(spans, request); err != nil {
		return 0, fmt.Errorf("%w: these are no spans: %w", mover.ErrUsage, err)
	}
	for _, process := range request.GetResourceSpans() {
		for _, part := range process.GetScopeSpans() {
			n += len(part.GetSpans())
		}
	}
	if n > most {
		return 0, fmt.Errorf("%w: %d spans, where %d are left", mover.ErrRefused, n, most)
	}
	if n == 0 {
		return 0, nil
	}
	return n, (*to).UploadTraces(ctx, request.GetResourceSpans())
}
