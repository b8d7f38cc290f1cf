package daemon

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"datamove.dev/api"
	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/server/authz"
	"datamove.dev/mover/telemetry"
)

// How an agent keeps its connection to the coordinator.
const (
	pingEvery   = 20 * time.Second
	pingTimeout = 10 * time.Second
	firstPause  = 100 * time.Millisecond
	maxPause    = 3 * time.Second // between tries to connect
	connectTime = 10 * time.Second
)

// newLink is a connection to the coordinator, which need not be there: it is tried
// again and again. It passes errors on unchanged, so that a caller behind this process gets
// the error of the coordinator. Without TLS it does not leave this process.
func newLink(name string, secure *tls.Config, dial func(context.Context) (net.Conn, error)) (*grpc.ClientConn, error) {
	creds := insecure.NewCredentials()
	if secure != nil {
		creds = credentials.NewTLS(secure)
	}
	o := append(telemetry.DialOptions(),
		grpc.WithTransportCredentials(creds), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(), grpc.WithDisableRetry(), grpc.WithIdleTimeout(0),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return dial(ctx) }),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(api.MaxMessageBytes), grpc.MaxCallSendMsgSize(api.MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstPause, Multiplier: 1.6, Jitter: 0.2, MaxDelay: maxPause},
			MinConnectTimeout: connectTime,
		}),
	)
	return grpc.NewClient("passthrough:///"+name, o...)
}

// near is the connection of the agent beside the coordinator. What a worker asks before
// everything that it publishes takes no way over a pipe: the service is asked at once.
type near struct {
	*grpc.ClientConn
	service agentv1.LinkServiceServer
	agent   string
}

// Invoke implements grpc.ClientConnInterface.
func (n near) Invoke(ctx context.Context, method string, args, reply any, o ...grpc.CallOption) error {
	r, ours := args.(*agentv1.ConfirmRequest)
	if !ours || method != agentv1.LinkService_Confirm_FullMethodName {
		return n.ClientConn.Invoke(ctx, method, args, reply, o...)
	}
	_, err := n.service.Confirm(authz.With(ctx, authz.Caller{Via: authz.Agent, Agent: n.agent}), r)
	return api.ToStatus(err) // a yes has nothing else in it
}

// toward dials a TCP address.
func toward(target string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, "tcp", target) }
}
