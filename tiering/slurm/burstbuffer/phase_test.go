package burstbuffer

import (
	"context"
	"runtime"
	"sync"

	"google.golang.org/grpc"

	"datamove.dev/api"
)

// phase is one that is at work: a goroutine where Slurm has a process. At its n-th step something happens: it may die, and does nothing more then. A
// step is a request, an answer before it is seen, or the change of a record.
type phase struct {
	happened chan struct{} // closed at the n-th step
	ended    chan struct{} // closed when it has ended, or is dead
	err      error         // how it has ended

	ctx     context.Context // over when it is dead
	kill    context.CancelFunc
	happens func()

	mu    sync.Mutex
	steps int // guarded by mu
	at    int // n; 0 is never. Guarded by mu
}

// phase begins one.
func (w *world) phase(at int, happens func(*phase), do func(context.Context, *Controller) error) *phase {
	p := &phase{happened: make(chan struct{}), ended: make(chan struct{}), at: at}
	p.ctx, p.kill = context.WithCancel(w.Context())
	p.happens = func() { close(p.happened); happens(p) }
	c := *w.Controller
	c.Step = p.step
	c.Dial = func(ctx context.Context) (*api.Client, error) {
		p.step()
		step := func() {} // a connection is made at once
		client, err := w.dial(ctx, grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, ask, answer any, conn *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			step()
			defer step()
			return call(ctx, method, ask, answer, conn, o...)
		}), grpc.WithChainStreamInterceptor(func(ctx context.Context, d *grpc.StreamDesc, conn *grpc.ClientConn, method string, open grpc.Streamer, o ...grpc.CallOption) (grpc.ClientStream, error) {
			step()
			s, err := open(ctx, d, conn, method, o...)
			return stepped{s, p}, err
		}))
		if step = p.step; err == nil {
			context.AfterFunc(p.ctx, func() { _ = client.Close() }) // as the kernel does
		}
		return client, err
	}
	go func() {
		defer close(p.ended)
		defer p.kill()
		p.err = do(p.ctx, &c)
	}()
	return p
}

// step ends the goroutine of a phase that is dead. What it has put off till then does no more than the kernel: it closes files and connections.
func (p *phase) step() {
	p.mu.Lock()
	p.steps++
	now := p.steps == p.at
	p.mu.Unlock()
	if now {
		p.happens()
	}
	if p.dead() {
		runtime.Goexit()
	}
}

// dead says whether it was killed; one that has ended is, too.
func (p *phase) dead() bool { return p.ctx.Err() != nil }

// stepped is a stream each of whose messages is a step.
type stepped struct {
	grpc.ClientStream
	p *phase
}

func (s stepped) RecvMsg(m any) error {
	defer s.p.step()
	return s.ClientStream.RecvMsg(m)
}

// die is what may happen to a phase; live lets it go on.
func die(p *phase) { p.kill() }
func live(*phase)  {}

// slurms is the process of a phase that Slurm knows. It is a First.
type slurms struct {
	run      string
	deserted bool // its slurmctld ends with it
	gone     context.Context
	end      context.CancelFunc
}

// first is a process of Slurm's for a phase of a job that begins now.
func (w *world) first(job uint32, deserted bool) *slurms {
	f := &slurms{deserted: deserted}
	if x, err := w.Controller.Run(job); err == nil {
		f.run = x.RunID()
	}
	f.gone, f.end = context.WithCancel(context.Background())
	return f
}

func (f *slurms) Run() string            { return f.run }
func (f *slurms) Ended() <-chan struct{} { return f.gone.Done() }
func (f *slurms) Gone() bool             { return f.gone.Err() != nil }
func (f *slurms) Deserted() bool         { return f.deserted }

// outliving is a phase that outlives that process.
func outliving(f *slurms, job uint32, do func(*Controller, context.Context, uint32) error) func(context.Context, *Controller) error {
	return func(ctx context.Context, c *Controller) error {
		return c.Outlive(ctx, job, f, func(work context.Context, job uint32) error {
			work, stop := context.WithCancel(work)
			defer context.AfterFunc(ctx, stop)() // a goroutine that waits is to hear that it is dead
			return do(c, work, job)
		})
	}
}
