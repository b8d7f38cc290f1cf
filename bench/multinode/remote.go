package multinode

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"datamove.dev/bench/loadgen"
	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// remote is a node behind a connection.
type remote struct {
	wire    *wire
	about   result.Node
	answers chan *message
	lost    chan struct{} // closed when it is
	why     error         // set before
	clock   clock         // when it was looked at last
	targets int
	work    loadgen.Work // that is prepared
	bytes   atomic.Int64 // of the phase, as it said last
	ops     atomic.Int64
	quiet   func()
}

func newRemote(w *wire, about result.Node) *remote {
	r := &remote{wire: w, about: about, answers: make(chan *message, 1), lost: make(chan struct{})}
	r.quiet = w.still(func() *message { return &message{Say: sayStill} })
	go r.listen()
	return r
}

// listen reads what it says, until it is lost.
func (r *remote) listen() {
	for {
		m, err := r.wire.receive()
		switch {
		case err != nil:
			r.why = fmt.Errorf("%w: node %s is lost: %w", mover.ErrUnreachable, mover.Printable(r.about.Name), err)
			close(r.lost)
			return
		case m.Say == sayStill && m.Ops > 0:
			r.bytes.Store(m.Bytes)
			r.ops.Store(m.Ops)
		case m.Say == sayAnswer:
			select {
			case r.answers <- m:
			default: // the conductor has not asked so much
			}
		}
	}
}

// ask sends a message and waits for its answer.
func (r *remote) ask(ctx context.Context, m *message) (*message, error) {
	if err := r.wire.send(m); err != nil {
		<-r.closed()
		return nil, r.why
	}
	return r.answer(ctx)
}

// closed is r.lost, after the connection was closed: then it comes at once.
func (r *remote) closed() <-chan struct{} {
	_ = r.wire.conn.Close()
	return r.lost
}

func (r *remote) answer(ctx context.Context) (*message, error) {
	select {
	case m := <-r.answers:
		if err := m.err(); err != nil {
			return m, fmt.Errorf("node %s: %w", mover.Printable(r.about.Name), err)
		}
		return m, nil
	case <-r.lost:
		return nil, r.why
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// About implements member.
func (r *remote) About() result.Node { return r.about }

// Open implements member.
func (r *remote) Open(ctx context.Context, s loadgen.Setup) error {
	r.targets = len(s.Targets)
	_, err := r.ask(ctx, &message{Say: sayOpen, Setup: &s})
	return err
}

// looks are how often a clock is looked at; the one with the shortest round trip counts.
const looks = 7

// Clock implements member.
func (r *remote) Clock(ctx context.Context) (best clock, err error) {
	for i := range looks {
		sent := time.Now()
		m, err := r.ask(ctx, &message{Say: sayClock})
		if err != nil {
			return clock{}, err
		}
		half := time.Since(sent) / 2
		middle := sent.Add(half)
		if i == 0 || half < best.off {
			best = clock{ahead: time.Duration(m.Clock) - middle.Sub(began), wall: time.Unix(0, m.Wall).Sub(middle.Round(0)), off: half}
		}
	}
	r.clock = best
	return best, nil
}

// Prepare implements member.
func (r *remote) Prepare(ctx context.Context, w loadgen.Work) error {
	r.work = w
	r.bytes.Store(0)
	r.ops.Store(0)
	_, err := r.ask(ctx, &message{Say: sayPrepare, Work: &w})
	return err
}

// Begin implements member.
func (r *remote) Begin(ctx context.Context, at time.Time) (loadgen.Result, error) {
	if err := r.wire.send(&message{Say: sayBegin, At: int64(at.Sub(began) + r.clock.ahead)}); err != nil {
		<-r.closed()
		return loadgen.Result{}, r.why
	}
	m, err := r.answer(ctx)
	if err != nil && ctx.Err() != nil && r.wire.send(&message{Say: sayStop}) == nil { // it answers how far it came
		m, err = r.answer(context.WithoutCancel(ctx))
	}
	if err != nil {
		return loadgen.Result{}, err
	}
	if m.Result == nil || !m.Result.Of(&r.work, r.targets) {
		return loadgen.Result{}, fmt.Errorf("%w: node %s does not say what it did", mover.ErrUnreachable, mover.Printable(r.about.Name))
	}
	return *m.Result, nil
}

// Done implements member.
func (r *remote) Done() (bytes, ops int64) { return r.bytes.Load(), r.ops.Load() }

// Forget implements member.
func (r *remote) Forget(ctx context.Context, tree string) error {
	_, err := r.ask(ctx, &message{Say: sayForget, Tree: tree})
	return err
}

// Clean implements member.
func (r *remote) Clean(ctx context.Context) error {
	_, err := r.ask(ctx, &message{Say: sayClean})
	return err
}

// farewell is how long a node has to close its connection.
const farewell = 5 * time.Second

// End implements member.
func (r *remote) End() error {
	r.quiet()
	err := r.wire.send(&message{Say: sayEnd})
	select {
	case <-r.lost: // it has closed
	case <-time.After(farewell):
	}
	_ = r.wire.conn.Close()
	<-r.lost
	return err
}
