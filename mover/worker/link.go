package worker

import (
	"context"
	"errors"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	agentv1 "datamove.dev/api/datamove/agent/v1"
)

// maxMessage is the largest message between a worker and its agent: a batch.
const maxMessage = 64<<20 + 1<<20

// dial makes a client of the one connection to the agent. There is no other: when it
// ends, so does the process.
func dial(conn net.Conn) (*grpc.ClientConn, error) {
	var once sync.Once
	give := func(context.Context, string) (net.Conn, error) {
		var c net.Conn
		once.Do(func() { c = conn })
		if c == nil {
			return nil, errors.New("the agent is gone")
		}
		return c, nil
	}
	return grpc.NewClient("passthrough:///agent",
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket pair: nobody else is on it
		grpc.WithContextDialer(give),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
}

// agent is the agent as the worker sees it.
type agent struct{ agentv1.WorkerServiceClient }

// turn waits for a turn. It is a transfer.Turn.
func (a agent) turn(ctx context.Context, bytes, ops int64) (func(int64), error) {
	t, err := a.Turn(ctx, &agentv1.TurnRequest{Bytes: bytes, Ops: ops})
	if err != nil {
		return nil, fromAgent(ctx, err)
	}
	return func(moved int64) {
		_, _ = a.EndTurn(context.WithoutCancel(ctx), &agentv1.EndTurnRequest{Turn: t.GetTurn(), Moved: moved})
	}, nil
}

// mine asks whether a lead or a batch is still ours.
func (a agent) mine(batch string, epoch uint64) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := a.Mine(ctx, &agentv1.MineRequest{Batch: batch, Epoch: epoch})
		return fromAgent(ctx, err)
	}
}
