// Package queue orders the ids of what waits, in memory. It is disposable: the ledger
// has what is to be done, and an empty queue is filled from there.
//
// Its words: a flow is a line of ids, in their bytewise order at first; a window is the
// part of a flow that is here, and [Options.Refill] finds the rest; a [Claim] is the
// right to work on an id that was taken, until it is done or given back.
//
// Promises:
//
//   - Concurrency: everything may be called from many goroutines. A claimed id is given
//     to no other taker, and one that is done to none at all, unless it is offered anew.
//   - Order: ids are taken in the order in which they came. An id that was given back
//     comes before those that were never taken, as soon as its delay is over.
//   - Every id that Refill would return is taken in the end, however many there are;
//     a flow has at most Options.Window of them waiting here, and at most Options.Flows
//     flows are here at a time.
//   - After a crash a queue is empty, and that is no loss: an id is in the ledger until
//     the taker has recorded there what became of it.
//
// Waiting is the caller's business: Take does not. What an id means, and which process
// may publish anything, are decided in the ledger: a taker looks there whether the id
// still waits. TestContract shows each promise.
package queue

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"datamove.dev/mover"
)

// Options are how a queue is kept. The zero value has no ledger behind it.
type Options struct {
	Window int // ids of a flow that wait here; 0 means 1,024
	Flows  int // flows that are here at a time; 0 means 256
	// Refill returns up to n ids of a flow that wait, in bytewise order,
	// beginning after one; fewer than n are the last ones. nil means that
	// there are no others than those offered, and a full window is mover.ErrFull.
	Refill func(ctx context.Context, flow, after string, n int) ([]string, error)
	Logger *slog.Logger // nil means no log
}

// nameBytes bounds ids and names of flows.
const nameBytes = 4 << 10

// Queue is a set of flows.
type Queue struct {
	o Options

	mu    sync.Mutex // guards all below, and flow.used
	flows map[string]*flow
	clock uint64 // counts uses of flows
}

// New returns an empty queue.
func New(o Options) *Queue {
	o.Window = cmp.Or(o.Window, 1024)
	o.Flows = cmp.Or(o.Flows, 256)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	return &Queue{o: o, flows: map[string]*flow{}}
}

// Offer puts an id at the end of a flow. It must be where Refill finds it already:
// when the window is full it is left there. One that is here is not put twice; one
// that Refill found, and that is done by now, is.
func (q *Queue) Offer(ctx context.Context, name, id string) error {
	if err := checkNames(name, id); err != nil {
		return failed("offer", name, err)
	}
	f, err := q.find(ctx, name, q.o.Refill == nil)
	if err != nil {
		return failed("offer", name, err)
	}
	if f == nil {
		return nil // no taker has asked for this flow yet; Refill finds it then
	}
	defer f.leave()
	if err := f.offer(id); err != nil {
		return failed("offer", name, err)
	}
	return nil
}

// Take claims the next id of a flow, if there is one now.
func (q *Queue) Take(ctx context.Context, name string) (*Claim, bool, error) {
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

// Drop forgets a flow and its claims. What Refill still finds of it comes again.
func (q *Queue) Drop(name string) {
	f, _ := q.find(context.Background(), name, false) // it makes nothing, and waits for its turn
	if f == nil {
		return
	}
	defer f.leave()
	q.remove(f)
	f.end()
}

// find returns a flow that no other goroutine uses until leave, nil for none. It makes one
// where that is wanted.
func (q *Queue) find(ctx context.Context, name string, wanted bool) (*flow, error) {
	for {
		f, err := q.lookup(name, wanted)
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

// lookup returns a flow, for which another one may have to go.
func (q *Queue) lookup(name string, wanted bool) (*flow, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f := q.flows[name]
	if f == nil && wanted {
		if err := q.makeRoom(); err != nil {
			return nil, err
		}
		f = newFlow(q, name)
		q.flows[name] = f
	}
	if f != nil {
		q.clock++
		f.used = q.clock
	}
	return f, nil
}

// makeRoom forgets the flow that was used least lately, of those that can be spared,
// where there are as many as there may be. q.mu is held.
func (q *Queue) makeRoom() error {
	if len(q.flows) < q.o.Flows {
		return nil
	}
	for _, f := range slices.SortedFunc(maps.Values(q.flows), func(a, b *flow) int { return cmp.Compare(a.used, b.used) }) {
		if !f.tryEnter() {
			continue
		}
		spare := f.spare()
		if spare {
			delete(q.flows, f.name)
			f.end()
		}
		f.leave()
		if spare {
			return nil
		}
	}
	return fmt.Errorf("%w: all %d flows of the queue are in use", mover.ErrFull, q.o.Flows)
}

// remove takes a flow off the list, if it is still there.
func (q *Queue) remove(f *flow) {
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

// failed names the operation and the flow of an error.
func failed(op, flow string, err error) error {
	return &mover.Error{Op: op, Location: "queue", Name: flow, Err: err}
}
