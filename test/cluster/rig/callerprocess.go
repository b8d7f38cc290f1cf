package rig

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"datamove.dev/api"
)

// CallerProcess is a caller of the coordinator that may die: a goroutine where a host has a process. A step of it is a request, an answer before it is seen, and
// what else it says is one. At its n-th step something happens. What is dead does nothing more: its goroutines end at their next step.
type CallerProcess struct {
	Happened chan struct{} // closed at the n-th step
	Ended    chan struct{} // closed when it has ended, or is dead

	cluster *Cluster
	ctx     context.Context
	kill    context.CancelFunc
	happens func()

	mu      sync.Mutex
	steps   int           // guarded by mu
	at      int           // n; 0 is never. Guarded by mu
	err     error         // guarded by mu
	clients []*api.Client // guarded by mu
}

// callerPatience is how long its calls go on without an answer.
const callerPatience = 2 * time.Second

// CallerProcess begins one. What it does may begin goroutines: they are dead with it when the function has returned.
func (c *Cluster) CallerProcess(at int, happens func(*CallerProcess), do func(context.Context, *CallerProcess) error) *CallerProcess {
	p := &CallerProcess{Happened: make(chan struct{}), Ended: make(chan struct{}), cluster: c, at: at}
	p.ctx, p.kill = context.WithCancel(context.Background())
	p.happens = func() { close(p.Happened); happens(p) }
	go func() {
		defer close(p.Ended)
		defer p.Kill()
		err := do(p.ctx, p)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.err = err
	}()
	return p
}

// Err is how it has ended; nil of what was killed.
func (p *CallerProcess) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Kill kills it. Its connections end, as the kernel ends them.
func (p *CallerProcess) Kill() {
	p.kill()
	p.mu.Lock()
	clients := p.clients
	p.clients = nil
	p.mu.Unlock()
	for _, c := range clients {
		_ = c.Close()
	}
}

// Over is closed when it is dead.
func (p *CallerProcess) Over() <-chan struct{} { return p.ctx.Done() }

// Dead reports whether it was killed, or has ended.
func (p *CallerProcess) Dead() bool { return p.ctx.Err() != nil }

// Step ends the goroutine that calls it where the process is dead.
func (p *CallerProcess) Step() {
	p.mu.Lock()
	p.steps++
	now := p.steps == p.at
	p.mu.Unlock()
	if now {
		p.happens()
	}
	if p.Dead() {
		runtime.Goexit()
	}
}

// Dial is a client of the coordinator in the weather.
func (p *CallerProcess) Dial(ctx context.Context) (*api.Client, error) {
	p.Step()
	var dialed atomic.Bool // a connection is made at once: a client that Dial does not return could not be closed
	step := func() {
		if dialed.Load() {
			p.Step()
		}
	}
	c, err := api.Dial(ctx, "memory", api.Options{Dialer: p.cluster.Connect, Patience: callerPatience, More: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			step()
			defer step()
			return p.cluster.callThrough(ctx, "", method, req, reply, cc, call, o...)
		}),
		grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			step()
			s, err := open(ctx, d, cc, method, o...)
			return stepped{s, p}, err
		}),
	}})
	if err != nil {
		p.Step()
		return nil, err
	}
	p.mu.Lock()
	p.clients = append(p.clients, c)
	p.mu.Unlock()
	dialed.Store(true)
	if p.Dead() {
		_ = c.Close()
	}
	p.Step()
	return c, nil
}

// stepped is a stream of which each message is a step.
type stepped struct {
	grpc.ClientStream
	p *CallerProcess
}

func (s stepped) RecvMsg(m any) error {
	defer s.p.Step()
	return s.ClientStream.RecvMsg(m)
}
