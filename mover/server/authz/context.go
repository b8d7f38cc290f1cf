package authz

import "context"

type callerKey struct{}

// With returns a context of a request by that caller. The server puts
// it there, before anything else sees the request.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns the caller. A context without one gives the zero Caller, which may do nothing.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
