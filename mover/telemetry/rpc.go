package telemetry

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// ServerOption has a gRPC server count its requests.
func (m *Metrics) ServerOption() grpc.ServerOption {
	if m == nil {
		return grpc.EmptyServerOption{}
	}
	return grpc.StatsHandler(requests{m})
}

// requests counts what a gRPC server does. It sees more than an interceptor: also
// requests that could not be read.
type requests struct{ m *Metrics }

// request is one that is open.
type request struct {
	method string
	stream atomic.Bool
}

type requestKey struct{}

// TagRPC implements stats.Handler.
func (requests) TagRPC(ctx context.Context, info *stats.RPCTagInfo) context.Context {
	return context.WithValue(ctx, requestKey{}, &request{method: strings.TrimPrefix(info.FullMethodName, "/")})
}

// HandleRPC implements stats.Handler.
func (h requests) HandleRPC(ctx context.Context, s stats.RPCStats) {
	r, ok := ctx.Value(requestKey{}).(*request)
	if !ok {
		return
	}
	switch s := s.(type) {
	case *stats.Begin:
		r.stream.Store(s.IsClientStream || s.IsServerStream)
		h.m.shift(rowInFlight, 1, r.method)
	case *stats.End:
		h.m.shift(rowInFlight, -1, r.method)
		h.end(r, s.EndTime.Sub(s.BeginTime), s.Error)
	}
}

func (h requests) end(r *request, took time.Duration, err error) {
	h.m.add(rowRequests, 1, r.method, status.Code(err).String())
	if !r.stream.Load() {
		h.m.observe(rowRequestTime, took, r.method)
	}
}

// TagConn implements stats.Handler.
func (requests) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (requests) HandleConn(context.Context, stats.ConnStats) {}
