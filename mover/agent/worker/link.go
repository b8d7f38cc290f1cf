package worker

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/engine/transfer"
)

// maxMessage is the largest message between a worker and its agent: a batch.
const maxMessage = 64<<20 + 1<<20

// Window is how much either side sends before the other one has taken it. It is said once
// for all: gRPC would find it out, by two pings with every call.
const Window = 1 << 20

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
		grpc.WithTransportCredentials(insecure.NewCredentials()), // a socket pair: no other process is on it
		grpc.WithContextDialer(give),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(),
		grpc.WithStaticStreamWindowSize(Window), grpc.WithStaticConnWindowSize(Window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
	)
}

// agent is the agent as the worker sees it.
type agent struct {
	agentv1.WorkerServiceClient
	pass  *atomic.Int64 // unix nanoseconds until which no turn has to be asked for
	free  *atomic.Int64 // until which nothing has to be paid
	asked *sync.Map     // batch -> *asker
}

func newAgent(c agentv1.WorkerServiceClient) agent {
	return agent{c, new(atomic.Int64), new(atomic.Int64), new(sync.Map)}
}

// acquireSlot waits for a turn. shared says that what is read of the source is paid by pay.
func (a agent) acquireSlot(ctx context.Context, ask transfer.SlotRequest, shared bool) (transfer.Slot, error) {
	alone := transfer.Slot{Done: func(int64) {}, Alone: true}
	if time.Now().UnixNano() < a.pass.Load() {
		return alone, nil
	}
	t, err := a.Turn(ctx, &agentv1.TurnRequest{Bytes: ask.Bytes, Ops: ask.Ops, Most: int32(ask.Most), Fill: int32(ask.Fill), Shared: shared})
	if err != nil {
		return alone, FromAgent(ctx, err)
	}
	a.passes(t.GetPass())
	if t.GetTurn() == 0 {
		return alone, nil
	}
	return transfer.Slot{Done: func(moved int64) {
		_, _ = a.EndTurn(context.WithoutCancel(ctx), &agentv1.EndTurnRequest{Turn: t.GetTurn(), Moved: moved})
	}}, nil
}

// keys are the lines of the credentials of a tier as they are now.
func (a agent) keys(ctx context.Context, tier string) (string, error) {
	r, err := a.Keys(ctx, &agentv1.KeysRequest{Tier: tier})
	return r.GetKeys(), FromAgent(ctx, err)
}

// pay waits until so much may be read from the source.
func (a agent) pay(ctx context.Context, bytes int64) error {
	if now := time.Now().UnixNano(); now < a.pass.Load() || now < a.free.Load() {
		return nil
	}
	r, err := a.Pay(ctx, &agentv1.PayRequest{Bytes: bytes})
	if pass := r.GetPass(); pass != nil {
		a.free.Store(time.Now().Add(pass.AsDuration()).UnixNano())
	}
	return FromAgent(ctx, err)
}

// passes notes for how long no turn has to be asked for; nil says nothing of that.
func (a agent) passes(d *durationpb.Duration) {
	if d != nil {
		a.pass.Store(time.Now().Add(d.AsDuration()).UnixNano())
	}
}

// confirm asks whether a lead or a batch is still ours.
func (a agent) confirm(batch string, epoch uint64) func(context.Context) error {
	found, _ := a.asked.LoadOrStore(batch, new(asker))
	return func(ctx context.Context) error {
		return found.(*asker).ask(ctx, func(ctx context.Context) error {
			r, err := a.Mine(ctx, &agentv1.MineRequest{Batch: batch, Epoch: epoch})
			a.passes(r.GetPass())
			return FromAgent(ctx, err)
		})
	}
}

// forget lets go of what confirm keeps of a batch.
func (a agent) forget(batch string) { a.asked.Delete(batch) }

// asker makes one call for all callers that ask while another one is under way. An answer
// counts for callers that asked before its call began.
type asker struct {
	mu      sync.Mutex
	running bool
	next    *round // of the callers that wait for the call after this one; nil is none
}

type round struct {
	done chan struct{}
	err  error
}

func (a *asker) ask(ctx context.Context, call func(context.Context) error) error {
	a.mu.Lock()
	if a.next == nil {
		a.next = &round{done: make(chan struct{})}
	}
	r := a.next
	if !a.running {
		a.running = true
		go a.run(context.WithoutCancel(ctx), call)
	}
	a.mu.Unlock()
	select {
	case <-r.done:
		return r.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// run calls as long as callers wait. When the agent is gone, so is the process.
func (a *asker) run(ctx context.Context, call func(context.Context) error) {
	for {
		a.mu.Lock()
		r := a.next
		a.next = nil
		if a.running = r != nil; !a.running {
			a.mu.Unlock()
			return
		}
		a.mu.Unlock()
		r.err = call(ctx)
		close(r.done)
	}
}
