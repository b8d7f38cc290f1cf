package server

import (
	"context"
	"fmt"
	"runtime/debug"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"datamove.dev/mover/server/authz"
)

// errNoVisit is the answer to a call without a request in its context: there is no way to make one.
var errNoVisit = status.Error(codes.Unauthenticated, "the caller is not known")

// unary lets a call through.
func (d *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (answer any, err error) {
	v := requestOf(ctx)
	if v == nil {
		return nil, errNoVisit
	}
	defer func() {
		if p := recover(); p != nil {
			answer, err = nil, d.panicked(ctx, v, p)
		}
	}()
	what := about(req)
	if err := d.enter(ctx, v, info.FullMethod, recorded(info.FullMethod), what); err != nil {
		return nil, err
	}
	if err := d.reads(ctx, v); err != nil {
		return nil, err
	}
	if err = understood(info.FullMethod, req); err == nil {
		answer, err = handle(authz.With(ctx, v.caller), req)
	}
	if err == nil {
		answer = d.answered(ctx, v, answer)
	}
	return answer, d.left(ctx, v, what, stopped(ctx, err))
}

// stream lets a stream through.
func (d *Server) stream(service any, s grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	ctx := s.Context()
	v := requestOf(ctx)
	if v == nil {
		return errNoVisit
	}
	defer func() {
		if p := recover(); p != nil {
			err = d.panicked(ctx, v, p)
		}
	}()
	if err := d.enter(ctx, v, info.FullMethod, recorded(info.FullMethod), subject{}); err != nil {
		return err
	}
	return d.left(ctx, v, subject{}, stopped(ctx, handle(service, &called{s, authz.With(ctx, v.caller), d, v})))
}

// called is a stream with the caller in its context.
type called struct {
	grpc.ServerStream
	ctx  context.Context
	door *Server
	v    *request
}

func (c *called) Context() context.Context { return c.ctx }

// SendMsg waits while the caller has too much that it does not read.
func (c *called) SendMsg(m any) error {
	counted := c.door.answered(c.ctx, c.v, m)
	if counted != m {
		if err := c.door.callers.room(c.ctx, c.v.key(), c.door.limits.Unread); err != nil {
			return err
		}
	}
	return c.ServerStream.SendMsg(counted)
}

// panicked makes an answer of a panic. The caller is not told what is in it.
func (d *Server) panicked(ctx context.Context, v *request, p any) error {
	d.log.ErrorContext(ctx, "a call has panicked", "method", v.method, "caller", v.caller.String(), "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return status.Error(codes.Internal, "the service has made a mistake; its log has the details")
}

// unknown answers methods of which no service is here.
func (d *Server) unknown(_ any, s grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(s)
	if d.o.Forward == nil {
		return status.Errorf(codes.Unimplemented, "%s is not served here", method)
	}
	return d.forward(s, method)
}
