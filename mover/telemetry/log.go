package telemetry

import (
	"context"
	"fmt"
	"io"
	"log/slog"

	"go.opentelemetry.io/otel/trace"

	"datamove.dev/mover"
)

// Logger writes a log to w from level on: as "json" for services, as "text" for
// people. Each line has the ids of the span in its context. What is said again and
// again is said less and less often, see [repeats].
func Logger(w io.Writer, format string, level slog.Leveler) (*slog.Logger, error) {
	o := &slog.HandlerOptions{Level: level}
	switch format {
	case "json":
		return slog.New(quiet(withIDs{slog.NewJSONHandler(w, o)})), nil
	case "text":
		return slog.New(quiet(withIDs{slog.NewTextHandler(w, o)})), nil
	}
	return nil, fmt.Errorf("log format %s is neither json nor text: %w", mover.Printable(format), mover.ErrUsage)
}

// withIDs adds trace_id and span_id to the lines of a span.
type withIDs struct{ slog.Handler }

// Handle implements slog.Handler.
func (h withIDs) Handle(ctx context.Context, r slog.Record) error {
	if span := trace.SpanContextFromContext(ctx); span.IsValid() {
		r = r.Clone()
		r.AddAttrs(slog.String("trace_id", span.TraceID().String()), slog.String("span_id", span.SpanID().String()))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h withIDs) WithAttrs(attrs []slog.Attr) slog.Handler {
	return withIDs{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler. The ids go into the group, too.
func (h withIDs) WithGroup(name string) slog.Handler { return withIDs{h.Handler.WithGroup(name)} }
