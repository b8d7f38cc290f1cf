package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/google.golang.org/grpc/otelgrpc"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// Spans that wait to be sent, what one may hold, and how long the end waits for a
// collector that does not answer.
const (
	maxSpans      = 4096
	maxSpanAttrs  = 64
	maxSpanText   = 1024
	shutdownAfter = 5 * time.Second
)

// Tracing sends spans to the OTLP collector at endpoint, http://host:port in plain
// text or https://host:port, with attrs (service.name and the like) on all of them,
// until shutdown, which sends what is left, also when its context has ended, and takes
// at most five seconds. An empty endpoint sends nothing. A server in a trace records
// it when its caller does; a trace that begins here is recorded. Headers, certificates
// and timeouts are taken from the usual OTEL_EXPORTER_OTLP_ variables.
//
// A collector that can not be reached costs a warning in the default log and the spans
// that do not fit into memory, never a task.
func Tracing(ctx context.Context, endpoint string, attrs ...slog.Attr) (shutdown func(context.Context) error, err error) {
	if endpoint == "" {
		return func(context.Context) error { return nil }, nil
	}
	if err := checkEndpoint(endpoint); err != nil {
		return nil, err
	}
	client := otlptracegrpc.NewClient(otlptracegrpc.WithEndpointURL(endpoint))
	end, err := tracing(ctx, client, attrs)
	if err != nil {
		return nil, fmt.Errorf("send traces to %s: %w", endpoint, err)
	}
	collecting.Store(&client)
	return func(ctx context.Context) error {
		collecting.Store(nil)
		return end(ctx)
	}, nil
}

// tracing has the spans of this process sent by a client.
func tracing(ctx context.Context, client otlptrace.Client, attrs []slog.Attr) (shutdown func(context.Context) error, err error) {
	about, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithHost(), resource.WithAttributes(attributes(attrs)...))
	if err != nil {
		return nil, fmt.Errorf("describe this process for traces: %w", err)
	}
	exporter, err := otlptrace.New(ctx, client)
	if err != nil {
		return nil, err
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithResource(about),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())),
		sdktrace.WithBatcher(exporter, sdktrace.WithMaxQueueSize(maxSpans)),
		sdktrace.WithRawSpanLimits(spanLimits()),
	)
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { slog.Warn("traces can not be sent", "err", err) }))
	otel.SetTracerProvider(provider)
	return func(ctx context.Context) error {
		otel.SetTracerProvider(tracenoop.NewTracerProvider())
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownAfter)
		defer cancel()
		return provider.Shutdown(ctx)
	}, nil
}

// checkEndpoint refuses what is no address. The text is not shown: it may hold a
// password.
func checkEndpoint(endpoint string) error {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return fmt.Errorf("the endpoint for traces must be http://host:port or https://host:port, without a user: %w", mover.ErrUsage)
	}
	return nil
}

func spanLimits() sdktrace.SpanLimits {
	l := sdktrace.NewSpanLimits()
	l.AttributeValueLengthLimit = maxSpanText
	l.AttributeCountLimit, l.EventCountLimit, l.LinkCountLimit = maxSpanAttrs, maxSpanAttrs, maxSpanAttrs
	return l
}

// carrier is how a trace travels: as W3C's traceparent, and nothing else of what the
// caller may say.
var carrier = propagation.TraceContext{}

// ServerOptions has a gRPC server make spans of its requests, as parts of the trace
// of the caller.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{grpc.StatsHandler(otelgrpc.NewServerHandler(grpcOptions()...))}
}

// DialOptions has a gRPC client make spans of its requests, and tell the server.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{grpc.WithStatsHandler(otelgrpc.NewClientHandler(grpcOptions()...))}
}

func grpcOptions() []otelgrpc.Option {
	return []otelgrpc.Option{
		otelgrpc.WithPropagators(carrier),
		otelgrpc.WithMeterProvider(metricnoop.NewMeterProvider()),
		otelgrpc.WithFilter(func(info *stats.RPCTagInfo) bool { return !standing[info.FullMethodName] }),
	}
}

// standing are conversations that last, of which a span would say nothing, and
// health checks.
var standing = map[string]bool{
	agentv1.LinkService_Attend_FullMethodName:       true,
	datamovev1.TaskService_WatchTask_FullMethodName: true,
	"/grpc.health.v1.Health/Check":                  true,
	"/grpc.health.v1.Health/Watch":                  true,
}
