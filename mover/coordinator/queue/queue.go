// Package queue says who works on what next. It is disposable: what is to be done is
// in the ledger, and a queue that is gone is filled from there.
//
// Its words: a flow is a line of ids, in their bytewise order at first; a window is what
// is here of a flow, the rest is where [Options.Refill] finds it; to take an id is to
// have a [Claim] on it for a while; who is done with it says so, who does not say
// anything in time loses it to the next.
//
// Promises:
//
//   - Concurrency: everything may be called from many goroutines. While a claim lasts
//     nobody else gets its id, and once it is done nobody gets it again, unless it is offered anew.
//   - Every id that Refill would return is taken in the end, however many there are;
//     a flow has at most Options.Window of them waiting here, and at most Options.Flows
//     flows are here at a time.
//   - After a crash a queue is empty, and that is no loss.
//
// There are two: [NewMemory] is a few lists, [NewJetStream] is NATS JetStream in this
// process, which listens to nobody. Waiting is the caller's business: Take does not.
// What an id means, and who has the right to publish anything, are the ledger's and
// the service's: whoever takes an id looks there whether it still waits. TestContract is
// this text, for both.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/mover"
)

// Queue is a queue of either kind.
type Queue interface {
	// Offer puts an id at the end of a flow. It must be where Refill finds it already:
	// when the window is full it is left there. One that is here is not put twice; one
	// that Refill found, and that is done by now, is.
	Offer(ctx context.Context, flow, id string) error
	// Take claims the next id of a flow, if there is one now.
	Take(ctx context.Context, flow string) (c *Claim, ok bool, err error)
	// Drop forgets a flow and its claims. Refill must not find anything of it any more.
	Drop(flow string) error
	// Len is how many ids of a flow wait here; there may be more in the ledger.
	Len(flow string) int
	// Close ends the use of the queue and forgets everything.
	Close() error
}

// Options says how a queue is kept. The zero value has no ledger behind it.
type Options struct {
	Window int // ids of a flow that wait here; 0 means 1,024
	Flows  int // flows that are here at a time; 0 means 256
	// AckWait is how long a claim lasts; 0 means 30 s.
	AckWait time.Duration
	// Refill returns up to n ids of a flow that wait for somebody, in bytewise order,
	// beginning after one; fewer than n are the last ones. nil means that
	// there are no others than those offered, and a full window is mover.ErrFull.
	Refill func(ctx context.Context, flow, after string, n int) ([]string, error)
	Logger *slog.Logger // nil means no log
}

func (o Options) defaults() Options {
	o.Window = cmp.Or(o.Window, 1024)
	o.Flows = cmp.Or(o.Flows, 256)
	o.AckWait = cmp.Or(o.AckWait, 30*time.Second)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return o
}

// nameBytes bounds ids and names of flows.
const nameBytes = 4 << 10

// engine keeps lanes: one for each flow, with nothing but what is in the window.
type engine interface {
	lane(ctx context.Context) (lane, error)
	close() error
}

// lane is a list of ids. It gives one to a taker until that has acknowledged it or
// AckWait is over, and then first of all to the next.
type lane interface {
	// push puts ids at the end and returns a number for each.
	push(ctx context.Context, ids []string) (sequences []uint64, err error)
	pull(ctx context.Context) (ticket, bool, error)
	drop() error
}

// ticket is an id in the hands of a taker.
type ticket interface {
	id() string
	sequence() uint64
	ack() error
	back(time.Duration) error
}

// queue is what both kinds have in common: flows, windows and claims.
type queue struct {
	o      Options
	engine engine

	claims atomic.Uint64 // that there were

	mu     sync.Mutex // guards all below, and flow.used
	flows  map[string]*flow
	clock  uint64 // counts uses of flows
	closed bool
}

func newQueue(o Options, e engine) *queue {
	return &queue{o: o, engine: e, flows: map[string]*flow{}}
}

// Offer implements Queue.
func (q *queue) Offer(ctx context.Context, name, id string) error {
	if err := checkNames(name, id); err != nil {
		return failed("offer", name, err)
	}
	f, err := q.find(ctx, name, q.o.Refill == nil)
	if err != nil {
		return failed("offer", name, err)
	}
	if f == nil {
		return nil // nobody has asked for this flow yet; Refill finds it then
	}
	defer f.leave()
	if err := f.offer(ctx, id); err != nil {
		return failed("offer", name, err)
	}
	return nil
}

// Take implements Queue.
func (q *queue) Take(ctx context.Context, name string) (*Claim, bool, error) {
	if err := checkNames(name, "-"); err != nil {
		return nil, false, failed("take", name, err)
	}
	f, err := q.find(ctx, name, q.o.Refill != nil)
	if err != nil {
		return nil, false, failed("take", name, err)
	}
	if f == nil {
		return nil, false, nil
	}
	defer f.leave()
	c, err := f.take(ctx)
	if err != nil {
		return nil, false, failed("take", name, err)
	}
	return c, c != nil, nil
}

// Drop implements Queue.
func (q *queue) Drop(name string) error {
	f, err := q.find(context.Background(), name, false)
	if f == nil || err != nil {
		return err
	}
	q.remove(f)
	if err := f.end(); err != nil {
		return failed("drop", name, err)
	}
	return nil
}

// Len implements Queue.
func (q *queue) Len(name string) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if f := q.flows[name]; f != nil {
		return int(f.waiting.Load())
	}
	return 0
}

// Close implements Queue.
func (q *queue) Close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil
	}
	q.closed = true
	q.flows = nil
	return q.engine.close()
}

// open refuses what comes after Close.
func (q *queue) open() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return errClosed
	}
	return nil
}

// find returns a flow that nobody else uses until leave, nil for none. It makes one
// where that is wanted.
func (q *queue) find(ctx context.Context, name string, wanted bool) (*flow, error) {
	for {
		f, spared, err := q.lookup(name, wanted)
		if spared != nil {
			err = errors.Join(err, spared.end())
		}
		if f == nil || err != nil {
			return nil, err
		}
		if err := f.enter(ctx); err != nil {
			return nil, err
		}
		if !f.gone {
			return f, nil
		}
		f.leave() // it went while we waited
	}
}

// lookup returns a flow, and one that had to go for it; the caller ends that.
func (q *queue) lookup(name string, wanted bool) (f, spared *flow, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, nil, errClosed
	}
	f = q.flows[name]
	if f == nil && wanted {
		if spared, err = q.makeRoom(); err != nil {
			return nil, nil, err
		}
		f = newFlow(q, name)
		q.flows[name] = f
	}
	if f != nil {
		q.clock++
		f.used = q.clock
	}
	return f, spared, nil
}

var errClosed = fmt.Errorf("%w: the queue is closed", mover.ErrUsage)

// makeRoom takes the flow that was used least lately, of those that can be spared, off
// the list, where there are as many as there may be.
func (q *queue) makeRoom() (*flow, error) {
	if len(q.flows) < q.o.Flows {
		return nil, nil
	}
	for _, f := range slices.SortedFunc(maps.Values(q.flows), func(a, b *flow) int { return cmp.Compare(a.used, b.used) }) {
		if !f.tryEnter() {
			continue
		}
		if f.spare() {
			delete(q.flows, f.name)
			return f, nil
		}
		f.leave()
	}
	return nil, fmt.Errorf("%w: all %d flows of the queue are in use", mover.ErrFull, q.o.Flows)
}

// remove takes a flow off the list, if it is still there.
func (q *queue) remove(f *flow) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.flows[f.name] == f {
		delete(q.flows, f.name)
	}
}

func checkNames(flow, id string) error {
	if flow == "" || len(flow) > nameBytes || id == "" || len(id) > nameBytes {
		return fmt.Errorf("%w: a flow of %d bytes and an id of %d, where 1 to %d are allowed", mover.ErrUsage, len(flow), len(id), nameBytes)
	}
	return nil
}

// failed says what failed with which flow.
func failed(op, flow string, err error) error {
	return &mover.Error{Op: op, Place: "queue", Name: flow, Err: err}
}
