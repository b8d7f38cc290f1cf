package authz

import "context"

type callerKey struct{}

// With returns a context of a request by that caller. Whoever lets requests in puts
// it there, before anything else sees them.
func With(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// From returns who asks. A context that says nobody gives the zero Caller, who may nothing.
func From(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
