package agent

import (
	"context"
	"log/slog"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/telemetry"
)

// trace begins the span of a lead, if it is part of a trace: the process and what the
// agent says for it are part of that.
func (p *process) trace(parent string) {
	if parent == "" {
		return
	}
	ctx, end := telemetry.Span(telemetry.Extract(context.Background(), parent), "lead",
		slog.String("task", p.task.GetId()), slog.Uint64("epoch", p.epoch), slog.String("agent", p.agent.o.Name))
	p.span, p.endSpan = telemetry.Inject(ctx), end
	p.relay(p.span)
}

// relay has the process make spans as a part of one, if they go anywhere from here.
func (p *process) relay(span string) {
	if telemetry.Collecting() {
		p.job.TraceParent = span
	}
}

// untrace ends the span.
func (p *process) untrace(err error) {
	if p.endSpan != nil {
		p.endSpan(err)
	}
}

// traced is ctx as a part of the trace of a lead or a batch of this process.
func (p *process) traced(ctx context.Context, batch string) context.Context {
	span := p.span
	if batch != "" {
		p.mu.Lock()
		if s := p.batches[batch]; s != nil {
			span = s.span
		}
		p.mu.Unlock()
	}
	if span == "" {
		return ctx
	}
	return telemetry.Extract(ctx, span)
}

// Trace implements agentv1.WorkerServiceServer: it passes spans on, so many and no more.
func (p *process) Trace(ctx context.Context, r *agentv1.TraceRequest) (*agentv1.TraceResponse, error) {
	p.spans.Lock() // one after the other, so that none passes that has no room
	defer p.spans.Unlock()
	n, err := telemetry.Forward(ctx, r.GetSpans(), telemetry.MaxForward-p.sent)
	p.sent += n
	return &agentv1.TraceResponse{}, err
}
