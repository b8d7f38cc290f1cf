package queue

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// flow is what is here of a flow.
type flow struct {
	q    *Queue
	name string
	used uint64 // guarded by q.mu

	turn    chan struct{} // holds one token: that of the goroutine that uses the flow; guards all below
	here    map[string]*item
	waiting int     // ids in ready and in returned
	ready   []*item // never taken
	back    returned
	last    uint64 // number of an item

	// What Refill has not yet been asked for. It goes from the cursor to the end, and
	// once more from the beginning when something was left out before the cursor.
	cursor string
	whole  bool // nothing: all is here
	again  bool // something before the cursor too
	gone   bool // the flow is not this one any more
}

// item is an id that is here.
type item struct {
	id     string
	number uint64    // in the order in which they came
	claim  *Claim    // that has it; nil is none
	due    time.Time // of one that was given back: from when on it is taken
}

func newFlow(q *Queue, name string) *flow {
	return &flow{q: q, name: name, turn: make(chan struct{}, 1), here: map[string]*item{}, whole: q.o.Refill == nil}
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
	claimed := len(f.here) - f.waiting
	return claimed == 0 && (f.q.o.Refill != nil || len(f.here) == 0)
}

// end forgets a flow that is off the list.
func (f *flow) end() {
	f.gone = true
	f.here, f.waiting, f.ready, f.back = nil, 0, nil, nil
}

// offer puts an id at the end, or leaves it to Refill.
func (f *flow) offer(id string) error {
	if f.here[id] != nil {
		return nil
	}
	full := f.waiting >= f.q.o.Window
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
	f.put(id)
	f.cursor = max(f.cursor, id)
	return nil
}

// put has an id wait here.
func (f *flow) put(id string) {
	f.last++
	it := &item{id: id, number: f.last}
	f.here[id] = it
	f.ready = append(f.ready, it)
	f.waiting++
}

// refill asks for more where few are left.
func (f *flow) refill(ctx context.Context) error {
	for !f.whole && f.waiting <= f.q.o.Window/4 {
		want := f.q.o.Window - f.waiting
		ids, err := f.q.o.Refill(ctx, f.name, f.cursor, want)
		if err != nil {
			return err
		}
		if err := f.inOrder(ids, want); err != nil {
			return err
		}
		for _, id := range ids {
			if f.here[id] == nil {
				f.put(id)
			}
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

// take claims the next id; nil is none.
func (f *flow) take(ctx context.Context) (*Claim, error) {
	short := f.refill(ctx)
	if it := f.next(); it != nil {
		if short != nil {
			f.q.o.Logger.WarnContext(ctx, "queue not refilled, what is there goes on", "flow", f.name, "err", short)
		}
		f.waiting--
		it.claim = &Claim{f: f, it: it}
		return it.claim, nil
	}
	if f.last == 0 {
		f.gone = true // it was made for nothing
		f.q.remove(f)
	}
	return nil, short
}

// next takes an item off its list: first of all one that was given back.
func (f *flow) next() *item {
	if len(f.back) > 0 && !f.back[0].due.After(time.Now()) {
		return heap.Pop(&f.back).(*item)
	}
	if len(f.ready) == 0 {
		return nil
	}
	it := f.ready[0]
	f.ready[0] = nil
	f.ready = f.ready[1:]
	return it
}

// returned are items that were given back: a heap, soonest first.
type returned []*item

func (r returned) Len() int      { return len(r) }
func (r returned) Swap(i, j int) { r[i], r[j] = r[j], r[i] }
func (r *returned) Push(x any)   { *r = append(*r, x.(*item)) }

func (r returned) Less(i, j int) bool {
	if !r[i].due.Equal(r[j].due) {
		return r[i].due.Before(r[j].due)
	}
	return r[i].number < r[j].number
}

func (r *returned) Pop() any {
	last := len(*r) - 1
	it := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	return it
}
