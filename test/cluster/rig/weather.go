package rig

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"datamove.dev/api"
)

// Weather is what happens to messages and calls on their way. It decides by what it is asked for, not by the order of goroutines, so that
// a seed means the same fate again. Methods are called by several goroutines.
type Weather interface {
	// Message is the fate of a message between the coordinator and an agent, or a caller, which is named "". The method is that of
	// gRPC; sent is on the way to the coordinator. A call has one fate for both of its ways.
	Message(agent, method string, sent bool) Fate
	// Call is how long a call of a worker to its backend takes: op is that of mover.Backend. "store" of the agent "" is a sync of the ledger. Also "begin", which is its start for a task, and
	// "hear", which is a message of its agent. A worker that dies does so at once, in the middle of what else it does.
	Call(agent string, pid int, op string) (takes time.Duration, dies bool)
}

// Fate is what happens to a message.
type Fate struct {
	Delay    time.Duration // before it arrives
	Lost     bool          // it does not arrive: a call fails, a stream breaks
	Answered bool          // with Lost: a call is done, and its answer lost
	Twice    bool          // a call arrives again, after its answer
}

// errLost is what a caller hears of what was lost.
var errLost = status.Error(codes.Unavailable, "lost on the way")

// fate is what the weather has for a message.
func (c *Cluster) fate(agentName, method string, sent bool) Fate {
	if w := c.weather.Load(); w != nil {
		return (*w).Message(agentName, method, sent)
	}
	return Fate{}
}

// SetWeather is the weather from now on; nil is fair.
func (c *Cluster) SetWeather(w Weather) {
	if w == nil {
		c.weather.Store(nil)
		return
	}
	c.weather.Store(&w)
}

// callThrough is a call in the weather.
func (c *Cluster) callThrough(ctx context.Context, agentName, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
	f := c.fate(agentName, method, true)
	if err := sleep(ctx, f.Delay); err != nil {
		return err
	}
	if f.Lost && !f.Answered {
		return errLost
	}
	err := call(ctx, method, req, reply, cc, o...)
	if f.Twice && err == nil {
		again := proto.Clone(reply.(proto.Message))
		proto.Reset(again)
		_ = call(ctx, method, req, again, cc, o...)
	}
	if f.Lost {
		return errLost
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// weatherStream is a stream in the weather. What is sent is on its way when SendMsg returns: a caller may hold a lock, and
// a goroutine that waits for a lock holds the clock.
type weatherStream struct {
	grpc.ClientStream
	fate func(sent bool) Fate
	ctx  context.Context    // of the caller; that of the stream ends with the last answer
	end  context.CancelFunc // breaks it for both ends

	arrivals chan arrival // nil before the first RecvMsg, of which there is one at a time

	mu     sync.Mutex
	queue  chan late // nil before the first that is late; guarded by mu, as broken
	broken bool
}

// streamBacklog is how many messages may be on their way.
const streamBacklog = 1024

func (s *weatherStream) isBroken(f Fate) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.Lost {
		s.broken = true
		s.end()
	}
	return s.broken
}

func (s *weatherStream) SendMsg(v any) error {
	f := s.fate(true)
	if s.isBroken(f) {
		return errLost
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil && f.Delay == 0 {
		return s.ClientStream.SendMsg(v)
	}
	if s.queue == nil {
		s.queue = make(chan late, streamBacklog)
		go s.forward()
	}
	select {
	case s.queue <- late{proto.Clone(v.(proto.Message)), time.Now().Add(f.Delay)}:
		return nil
	default:
		return errLost
	}
}

// CloseSend comes after what is late.
func (s *weatherStream) CloseSend() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		return s.ClientStream.CloseSend()
	}
	select {
	case s.queue <- late{}:
		return nil
	default:
		return errLost
	}
}

// late is a message, and when it arrives; without a message it is the end.
type late struct {
	m  proto.Message
	at time.Time
}

// forward sends what is late, in its order.
func (s *weatherStream) forward() {
	for {
		select {
		case l := <-s.queue:
			if l.m == nil {
				_ = s.ClientStream.CloseSend()
				return
			}
			if sleep(s.Context(), time.Until(l.at)) != nil || s.ClientStream.SendMsg(l.m) != nil {
				return
			}
		case <-s.Context().Done():
			return
		}
	}
}

// arrival is what came, and when it arrives.
type arrival struct {
	late
	err error
}

// arrive takes what comes as it comes: what is late holds nothing up.
func (s *weatherStream) arrive(like proto.Message) {
	for {
		m := like.ProtoReflect().New().Interface()
		a := arrival{err: s.ClientStream.RecvMsg(m)}
		if a.err == nil {
			f := s.fate(false)
			if s.isBroken(f) {
				a.err = errLost
			}
			a.late = late{m, time.Now().Add(f.Delay)}
		}
		select {
		case s.arrivals <- a:
		case <-s.ctx.Done():
			return
		}
		if a.err != nil {
			return
		}
	}
}

func (s *weatherStream) RecvMsg(v any) error {
	if s.isBroken(Fate{}) {
		return errLost
	}
	if s.arrivals == nil {
		s.arrivals = make(chan arrival, streamBacklog)
		go s.arrive(v.(proto.Message))
	}
	var a arrival
	select {
	case a = <-s.arrivals:
	case <-s.ctx.Done():
		a.err = status.FromContextError(s.ctx.Err()).Err()
	}
	if a.err == nil {
		a.err = sleep(s.ctx, time.Until(a.at))
	}
	if s.isBroken(Fate{}) {
		a.err = errLost
	}
	if a.err != nil {
		s.end()
		return a.err
	}
	proto.Merge(v.(proto.Message), a.m)
	return nil
}

// Caller is a client of the coordinator in the weather.
func (c *Cluster) Caller(patience time.Duration) (*api.Client, error) {
	return api.Dial(context.Background(), "memory", api.Options{Dialer: c.Connect, Patience: patience, More: []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, call grpc.UnaryInvoker, o ...grpc.CallOption) error {
			return c.callThrough(ctx, "", method, req, reply, cc, call, o...)
		}),
	}})
}
