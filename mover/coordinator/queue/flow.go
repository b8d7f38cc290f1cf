package queue

import (
	"context"
	"fmt"
	"sync/atomic"

	"datamove.dev/mover"
)

// flow is what is here of a flow.
type flow struct {
	q       *queue
	name    string
	used    uint64       // guarded by q.mu
	waiting atomic.Int64 // ids that nobody has

	turn chan struct{} // holds one token: whoever uses the flow; guards all below
	lane lane          // nil until there is something to put there
	here map[string]place
	// What Refill has not yet been asked for. It goes from the cursor to the end, and
	// once more from the beginning when something was left out before the cursor.
	cursor string
	whole  bool // nothing: all is here
	again  bool // something before the cursor too
	gone   bool // the flow is not this one any more
}

// place is where an id is.
type place struct {
	sequence uint64 // in the lane; a copy with another one is not meant
	claim    uint64 // that has it; 0 is nobody
}

func newFlow(q *queue, name string) *flow {
	return &flow{q: q, name: name, turn: make(chan struct{}, 1), here: map[string]place{}, whole: q.o.Refill == nil}
}

func (f *flow) enter(ctx context.Context) error {
	select {
	case f.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (f *flow) tryEnter() bool {
	select {
	case f.turn <- struct{}{}:
		return true
	default:
		return false
	}
}

func (f *flow) leave() { <-f.turn }

// spare reports whether the flow could go and come back with nothing lost.
func (f *flow) spare() bool {
	claimed := len(f.here) - int(f.waiting.Load())
	return claimed == 0 && (f.q.o.Refill != nil || len(f.here) == 0)
}

// end forgets a flow that is off the list, and leaves it.
func (f *flow) end() error {
	defer f.leave()
	f.gone = true
	f.here = nil
	f.waiting.Store(0)
	if f.lane == nil {
		return nil
	}
	return f.lane.drop()
}

// offer puts an id at the end, or leaves it to Refill.
func (f *flow) offer(ctx context.Context, id string) error {
	if _, here := f.here[id]; here {
		return nil
	}
	full := int(f.waiting.Load()) >= f.q.o.Window
	switch {
	case full && f.q.o.Refill == nil:
		return fmt.Errorf("%w: %d ids wait already", mover.ErrFull, f.q.o.Window)
	case !f.whole && id > f.cursor:
		return nil // it is found on the way
	case full:
		f.again = f.again || id <= f.cursor
		f.whole = false
		return nil
	}
	if err := f.put(ctx, []string{id}); err != nil {
		return err
	}
	f.cursor = max(f.cursor, id)
	return nil
}

// put makes ids wait here.
func (f *flow) put(ctx context.Context, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	if f.lane == nil {
		l, err := f.q.engine.lane(ctx)
		if err != nil {
			return err
		}
		f.lane = l
	}
	sequences, err := f.lane.push(ctx, ids)
	if err != nil {
		return err // what came through is not here, and is passed over
	}
	for i, id := range ids {
		f.here[id] = place{sequence: sequences[i]}
	}
	f.waiting.Add(int64(len(ids)))
	return nil
}

// refill asks for more where few are left.
func (f *flow) refill(ctx context.Context) error {
	for !f.whole && int(f.waiting.Load()) <= f.q.o.Window/4 {
		want := f.q.o.Window - int(f.waiting.Load())
		ids, err := f.q.o.Refill(ctx, f.name, f.cursor, want)
		if err != nil {
			return err
		}
		if err := f.inOrder(ids, want); err != nil {
			return err
		}
		if err := f.put(ctx, f.strangers(ids)); err != nil {
			return err
		}
		switch {
		case len(ids) == want:
			f.cursor = ids[len(ids)-1]
		case f.again:
			f.cursor, f.again = "", false
		default:
			f.whole = true
			if len(ids) > 0 {
				f.cursor = ids[len(ids)-1]
			}
		}
	}
	return nil
}

// inOrder refuses an answer of Refill with which no end could be reached.
func (f *flow) inOrder(ids []string, want int) error {
	last := f.cursor
	for _, id := range ids {
		if err := checkNames(f.name, id); err != nil {
			return err
		}
		if id <= last {
			return fmt.Errorf("%w: a refill with %q behind %q", mover.ErrUsage, id, last)
		}
		last = id
	}
	if len(ids) > want {
		return fmt.Errorf("%w: a refill with %d ids where %d were wanted", mover.ErrUsage, len(ids), want)
	}
	return nil
}

// strangers returns the ids that are not here.
func (f *flow) strangers(ids []string) []string {
	var others []string
	for _, id := range ids {
		if _, here := f.here[id]; !here {
			others = append(others, id)
		}
	}
	return others
}

// take claims the next id; nil is none.
func (f *flow) take(ctx context.Context) (*Claim, error) {
	short := f.refill(ctx)
	c, err := f.next(ctx)
	if c != nil && short != nil {
		f.q.o.Logger.WarnContext(ctx, "queue not refilled, what is there goes on", "flow", f.name, "err", short)
	}
	if c != nil || err != nil {
		return c, err
	}
	if f.lane == nil {
		f.gone = true // it was made for nothing
		f.q.remove(f)
	}
	return nil, short
}

// next takes ids off the lane until one is meant.
func (f *flow) next(ctx context.Context) (*Claim, error) {
	for f.lane != nil {
		t, ok, err := f.lane.pull(ctx)
		if err != nil || !ok {
			return nil, err
		}
		p, here := f.here[t.id()]
		if !here || p.sequence != t.sequence() {
			if err := t.ack(); err != nil {
				return nil, err
			}
			continue
		}
		if p.claim == 0 {
			f.waiting.Add(-1)
		}
		p.claim = f.q.claims.Add(1)
		f.here[t.id()] = p
		return &Claim{f: f, t: t, number: p.claim}, nil
	}
	return nil, nil
}
