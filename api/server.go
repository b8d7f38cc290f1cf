package api

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// ServerOptions are what a service has to agree on with its clients: sizes of
// messages, how often one may ask whether the other is alive, and errors. The service
// adds which clients may connect, and how often.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.MaxRecvMsgSize(MaxMessageBytes),
		grpc.MaxSendMsgSize(MaxMessageBytes),
		grpc.ConnectionTimeout(connectTime),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: leastPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingEvery + 10*time.Second, Timeout: pingTimeout}),
		grpc.ChainUnaryInterceptor(unaryStatus),
		grpc.ChainStreamInterceptor(streamStatus),
	}
}

func unaryStatus(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, req)
	return answer, ToStatus(err)
}

func streamStatus(service any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
	return ToStatus(handle(service, s))
}
