package worker

import (
	"context"
	"log/slog"
	"sync/atomic"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/telemetry"
)

// unitsTraced is how many units of one process have a span. A tree of a million
// directories has more of them than anybody looks at.
const unitsTraced = 5_000

// tracer makes the spans of a process. The zero value makes none.
type tracer struct {
	on    bool
	units atomic.Int64 // that have a span
}

// begin has spans made, and told to the agent, if the job is part of a trace. The
// context is that of the job; end sends what is left.
func (t *tracer) begin(ctx context.Context, a agent, job *agentv1.Job) (_ context.Context, end func(), err error) {
	if job.GetTraceParent() == "" {
		return ctx, func() {}, nil
	}
	flush, err := telemetry.Relay(ctx, func(ctx context.Context, spans []byte) error {
		_, err := a.Trace(ctx, &agentv1.TraceRequest{Spans: spans})
		return err
	}, slog.String("service.name", "datamoved worker"))
	if err != nil {
		return ctx, nil, err
	}
	t.on = true
	return telemetry.Extract(ctx, job.GetTraceParent()), func() { _ = flush(context.WithoutCancel(ctx)) }, nil
}

// unit begins the span of a unit.
func (t *tracer) unit(ctx context.Context, bytes, ops int64) (end func(error)) {
	if !t.on || t.units.Add(1) > unitsTraced {
		return func(error) {}
	}
	_, end = telemetry.Span(ctx, "unit", slog.Int64("bytes", bytes), slog.Int64("operations", ops))
	return end
}
