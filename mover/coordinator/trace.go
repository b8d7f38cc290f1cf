package coordinator

import (
	"context"
	"log/slog"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/telemetry"
)

// dispatched makes a span of a task that is given to an agent, as a part of the trace
// that the task was submitted in, and returns it for the agent. It lasts for a moment:
// how long the task has waited is in it, and what the agent does is the agent's to tell.
func dispatched(t *pb.Task) (span string) {
	if t.GetTraceParent() == "" {
		return ""
	}
	ctx, end := telemetry.Span(telemetry.Extract(context.Background(), t.GetTraceParent()), "dispatch",
		slog.String("task", t.GetId()), slog.String("agent", t.GetAgent()), slog.Uint64("epoch", t.GetEpoch()),
		slog.Int("tries", int(t.GetTries())), slog.Duration("waited", t.GetStartTime().AsTime().Sub(t.GetCreateTime().AsTime())))
	end(nil)
	return telemetry.Inject(ctx)
}
