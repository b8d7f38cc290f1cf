package cli

import (
	"context"
	"regexp"

	"google.golang.org/grpc/metadata"
)

// traceparent is a place in a trace, as W3C writes it.
var traceparent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// inTrace tells a service that what is asked of it is part of the trace of the caller of
// this command: a pipeline, or a scheduler. What is none changes nothing.
func (a *App) inTrace(ctx context.Context) context.Context {
	if place := a.Env("TRACEPARENT"); traceparent.MatchString(place) {
		return metadata.AppendToOutgoingContext(ctx, "traceparent", place)
	}
	return ctx
}
