package telemetry

import (
	"context"
	"log/slog"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
)

// scope is the name of the instrumentation scope of our spans.
const scope = "datamove.dev/mover/telemetry"

// Span begins a part of the trace in ctx, or a trace, and returns what ends it with
// the error of its work. Without [Tracing] it does nothing. Attributes are those of the
// log, and as public.
//
//	ctx, end := telemetry.Span(ctx, "lead", slog.String("task", id))
//	defer func() { end(err) }()
func Span(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error)) {
	ctx, span := otel.Tracer(scope).Start(ctx, text(name))
	if !span.IsRecording() {
		return ctx, func(error) { span.End() }
	}
	span.SetAttributes(attributes(attrs)...)
	return ctx, func(err error) {
		if err != nil {
			span.SetStatus(codes.Error, text(err.Error()))
		}
		span.End()
	}
}

// traceparent is W3C's name for the place in a trace.
const traceparent = "traceparent"

// Inject returns the place in a trace as text, for a process that is not called by
// gRPC; "" when there is none.
func Inject(ctx context.Context) string {
	c := propagation.MapCarrier{}
	carrier.Inject(ctx, c)
	return c[traceparent]
}

// Extract goes on with the trace that Inject told. What it did not tell changes nothing.
func Extract(ctx context.Context, parent string) context.Context {
	return carrier.Extract(ctx, propagation.MapCarrier{traceparent: parent})
}

// text is s as a span can hold it. One name that is not UTF-8 would make all spans of
// its batch unsendable.
func text(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxSpanText)], "?") }

// attributes are those of a log line as OpenTelemetry wants them.
func attributes(attrs []slog.Attr) []attribute.KeyValue {
	var list []attribute.KeyValue
	for _, a := range attrs {
		list = append(list, flat(a.Key, a.Value.Resolve())...)
	}
	return list
}

func flat(name string, v slog.Value) []attribute.KeyValue {
	switch v.Kind() {
	case slog.KindGroup:
		var list []attribute.KeyValue
		for _, a := range v.Group() {
			list = append(list, flat(name+"."+a.Key, a.Value.Resolve())...)
		}
		return list
	case slog.KindBool:
		return []attribute.KeyValue{attribute.Bool(name, v.Bool())}
	case slog.KindInt64:
		return []attribute.KeyValue{attribute.Int64(name, v.Int64())}
	case slog.KindUint64:
		return []attribute.KeyValue{attribute.Int64(name, int64(min(v.Uint64(), math.MaxInt64)))}
	case slog.KindFloat64:
		return []attribute.KeyValue{attribute.Float64(name, v.Float64())}
	case slog.KindDuration:
		return []attribute.KeyValue{attribute.Float64(name, v.Duration().Seconds())}
	case slog.KindTime:
		return []attribute.KeyValue{attribute.String(name, v.Time().Format(time.RFC3339Nano))}
	}
	return []attribute.KeyValue{attribute.String(name, text(v.String()))}
}
