package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

// MaxMessageBytes is the largest message that clients and services take.
const MaxMessageBytes = 16 << 20

const (
	connectTime  = 10 * time.Second // to find out whether a service answers
	pingEvery    = 20 * time.Second // on a connection with calls under way
	pingTimeout  = 10 * time.Second
	leastPing    = pingEvery / 2 // a service takes a peer that pings more often for broken
	callTime     = 30 * time.Second
	patience     = time.Minute
	longestPause = 3 * time.Second // between tries
)

// Options says how to reach a service. The zero value is for a unix socket.
type Options struct {
	// TLS authenticates the service and this client. tcp:// needs it; a unix socket,
	// where the kernel knows both, goes without.
	TLS *tls.Config

	// Patience is how long Submit, Once and Wait go on without an answer; 0 means
	// a minute.
	Patience time.Duration

	// Dialer connects, as to a listener in memory; the address is only a name then,
	// and TLS is used if it is there. nil means to dial the address.
	Dialer func(context.Context) (net.Conn, error)

	More []grpc.DialOption // what else gRPC is to do, as a stats handler for traces
}

// Client is a connection to a service, with its public services on it. Their
// methods return errors of the kinds of mover.
type Client struct {
	datamovev1.TaskServiceClient
	datamovev1.DatasetServiceClient
	datamovev1.TierServiceClient
	datamovev1.AgentServiceClient
	datamovev1.CatalogServiceClient
	datamovev1.PolicyServiceClient
	datamovev1.BurstServiceClient
	datamovev1.UsageServiceClient
	datamovev1.AdminServiceClient

	conn     *grpc.ClientConn
	patience time.Duration
}

// Dial connects to a service at unix:///path or tcp://host:port, and fails when
// no service answers. Afterwards the connection reconnects by itself.
func Dial(ctx context.Context, address string, o Options) (*Client, error) {
	l, err := newLink(address, o)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient("passthrough:///"+l.name, append(l.options(), o.More...)...)
	if err != nil {
		return nil, &mover.Error{Op: "reach", Location: address, Err: fmt.Errorf("%w: %w", mover.ErrUsage, err)}
	}
	if err := connect(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	c := newClient(conn)
	if c.patience = o.Patience; c.patience <= 0 {
		c.patience = patience
	}
	return c, nil
}

func newClient(conn *grpc.ClientConn) *Client {
	return &Client{
		TaskServiceClient:    datamovev1.NewTaskServiceClient(conn),
		DatasetServiceClient: datamovev1.NewDatasetServiceClient(conn),
		TierServiceClient:    datamovev1.NewTierServiceClient(conn),
		AgentServiceClient:   datamovev1.NewAgentServiceClient(conn),
		CatalogServiceClient: datamovev1.NewCatalogServiceClient(conn),
		PolicyServiceClient:  datamovev1.NewPolicyServiceClient(conn),
		BurstServiceClient:   datamovev1.NewBurstServiceClient(conn),
		UsageServiceClient:   datamovev1.NewUsageServiceClient(conn),
		AdminServiceClient:   datamovev1.NewAdminServiceClient(conn),
		conn:                 conn,
	}
}

// Conn is the connection, for a Gateway, and for other services on it: their calls
// are not repeated, and have no deadline but that of their context.
func (c *Client) Conn() *grpc.ClientConn { return c.conn }

// Close ends the connection and what is under way on it.
func (c *Client) Close() error { return c.conn.Close() }

// connect waits until the connection is there, or has failed once.
func connect(ctx context.Context, conn *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	conn.Connect()
	state := conn.GetState()
	for state != connectivity.Ready && state != connectivity.TransientFailure && conn.WaitForStateChange(ctx, state) {
		state = conn.GetState()
	}
	if state == connectivity.Ready {
		return nil
	}
	// Only a call says why: any one will do.
	err := conn.Invoke(ctx, grpc_health_v1.Health_Check_FullMethodName, &grpc_health_v1.HealthCheckRequest{}, &grpc_health_v1.HealthCheckResponse{})
	if ctx.Err() != nil || unanswered(err) {
		return err
	}
	return nil
}

// options are what every connection to a service has.
func (l *link) options() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(l.credentials()),
		grpc.WithContextDialer(l.dial),
		grpc.WithNoProxy(),
		grpc.WithChainUnaryInterceptor(l.unary),
		grpc.WithChainStreamInterceptor(l.stream),
		grpc.WithDisableServiceConfig(), // of a resolver: ours it is
		grpc.WithDefaultServiceConfig(serviceConfig()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(MaxMessageBytes), grpc.MaxCallSendMsgSize(MaxMessageBytes)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingEvery, Timeout: pingTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: longestPause},
			MinConnectTimeout: connectTime,
		}),
	}
}
