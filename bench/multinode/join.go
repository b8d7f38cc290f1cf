package multinode

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/mover"
)

// Guest says how a host joins a run.
type Guest struct {
	Address string // of the conductor: host:port
	Secret  Secret
	Name    string // of this node; "" is that of the host
	Version string // of this program: all nodes have the same
	Open    loadgen.Opener
	Wait    time.Duration // for the conductor, until it answers; 0 means 2 minutes

	now func() time.Time // the time of day; nil is that of the host
}

// dialAgain is how long a node waits before it calls the conductor again.
const dialAgain = 500 * time.Millisecond

// Join takes part in a run until it ends. What this node has made is removed then, also when the conductor is lost.
func Join(ctx context.Context, g Guest) error {
	conn, err := g.dial(ctx)
	if err != nil {
		return err
	}
	w := newWire(conn)
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	node := &local{open: g.Open, name: g.Name}
	s := &session{wire: w, node: node, ctx: ctx, now: time.Now}
	if g.now != nil {
		s.now = g.now
	}
	err = w.send(&message{Say: sayHello, Hello: &hello{g.Version, node.About()}})
	if err == nil {
		quiet := w.still(s.still)
		err = s.serve()
		quiet()
	}
	switch {
	case err == nil: // the conductor has had everything removed
	case ctx.Err() != nil:
		err = errors.Join(context.Cause(ctx), node.Clean(context.WithoutCancel(ctx)))
	default:
		err = errors.Join(fmt.Errorf("%w: the leader at %s is lost: %w", mover.ErrUnreachable, g.Address, err), node.Clean(ctx))
	}
	return errors.Join(err, node.End())
}

// dial calls the conductor until it answers.
func (g *Guest) dial(ctx context.Context) (net.Conn, error) {
	config, err := g.Secret.tls()
	if err != nil {
		return nil, err
	}
	within, stop := context.WithTimeout(ctx, cmp.Or(g.Wait, 2*time.Minute))
	defer stop()
	for {
		d := tls.Dialer{Config: config}
		conn, err := d.DialContext(within, "tcp", g.Address)
		if err == nil {
			return conn, nil
		}
		if stranger(err) {
			return nil, fmt.Errorf("%w: the leader at %s has another secret", mover.ErrPermission, g.Address)
		}
		select {
		case <-time.After(dialAgain):
		case <-within.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%w: no leader answers at %s: %w", mover.ErrUnreachable, g.Address, err)
		}
	}
}

// began is when this process began: its clock counts from then, and runs evenly.
var began = time.Now()

// session is a node that does what it is told.
type session struct {
	wire *wire
	node *local
	ctx  context.Context
	now  func() time.Time

	working chan struct{} // closed when what was begun has ended; nil where nothing was
	stop    context.CancelCauseFunc
}

// still says that this node is there.
func (s *session) still() *message { return &message{Say: sayStill} }

var errTold = errors.New("stopped by the leader")

// serve does what comes, until the end.
func (s *session) serve() error {
	defer s.wait()
	for {
		m, err := s.wire.receive()
		if err != nil {
			return err
		}
		switch m.Say {
		case sayStill:
		case sayStop:
			if s.stop != nil {
				s.stop(errTold)
			}
		case sayEnd:
			return nil
		case sayBegin:
			s.begin(m)
		default:
			s.wait()
			if err := s.wire.send(s.answer(m)); err != nil {
				return err
			}
		}
	}
}

// wait has what was begun end.
func (s *session) wait() {
	if s.working != nil {
		s.stop(errTold)
		<-s.working
		s.working, s.stop = nil, nil
	}
}

// begin works beside, so that it can be stopped.
func (s *session) begin(m *message) {
	s.wait()
	ctx, stop := context.WithCancelCause(s.ctx)
	working := make(chan struct{})
	s.working, s.stop = working, stop
	go func() {
		defer close(working)
		defer stop(nil)
		if s.node.node == nil {
			_ = s.wire.send(&message{Say: sayAnswer, Kind: mover.KindName(mover.ErrUsage), Failed: "there is nothing to begin"})
			return
		}
		quiet := s.wire.still(func() *message {
			bytes, ops := s.node.Done()
			return &message{Say: sayStill, Bytes: bytes, Ops: ops}
		})
		r, _ := s.node.Begin(ctx, began.Add(time.Duration(m.At)))
		quiet()
		_ = s.wire.send(&message{Say: sayAnswer, Result: &r}) // the reader of the connection sees that it is broken
	}()
}

// answer does what is asked.
func (s *session) answer(m *message) *message {
	out := &message{Say: sayAnswer}
	switch {
	case m.Say == sayClock:
		out.Clock, out.Wall = int64(time.Since(began)), s.now().UnixNano()
	case m.Say == sayOpen && m.Setup != nil && s.node.node == nil:
		out.fault(s.node.Open(s.ctx, *m.Setup))
	case m.Say == sayPrepare && m.Work != nil && s.node.node != nil:
		out.fault(s.node.Prepare(s.ctx, *m.Work))
	case m.Say == sayForget && s.node.node != nil:
		out.fault(s.node.Forget(s.ctx, m.Tree))
	case m.Say == sayClean:
		out.fault(s.node.Clean(s.ctx))
	default:
		out.fault(fmt.Errorf("%w: %.40q can not be done now", mover.ErrUsage, m.Say))
	}
	return out
}
