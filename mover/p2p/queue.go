package p2p

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue has few in work at a time, and those first that come first in the tree.
type queue struct {
	ofAll, least, limit int    // at a time: by all members together, by one in any case, and by one at most
	pace                *pace  // how many of those it is; nil is all
	beside              *queue // while that has something in work it is not more than that has; nil is none

	mu      sync.Mutex
	among   int // members; guarded by mu, as all below
	inside  int
	waiting []*waiter // the one to go first in front
}

type waiter struct {
	index int
	turn  chan struct{} // closed when it is its turn
}

// part is how many one of so many may have in work at a time. mu is held.
func (q *queue) part() int {
	return min(max(q.ofAll/max(q.among, 1), q.least), q.limit)
}

// most is how many there may be at a time. mu is held.
func (q *queue) most() int {
	if q.pace != nil {
		return min(q.pace.at(), q.limit)
	}
	if q.beside != nil {
		if n := q.beside.working(); n > 0 {
			return min(n, q.part())
		}
	}
	return q.part()
}

// working is how many there are in work.
func (q *queue) working() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.inside
}

// turn is leave to do something with a piece: done is called when that is done, or pass when nothing was.
type turn struct {
	queue *queue
	begun time.Time
}

// enter waits for the turn of a piece, at one of so many members.
func (q *queue) enter(ctx context.Context, index, among int) (*turn, error) {
	w := &waiter{index, make(chan struct{})}
	q.mu.Lock()
	q.among = among
	at, _ := slices.BinarySearchFunc(q.waiting, index, func(w *waiter, index int) int { return w.index - index })
	q.waiting = slices.Insert(q.waiting, at, w)
	q.call()
	q.mu.Unlock()
	select {
	case <-w.turn:
	case <-ctx.Done():
		q.mu.Lock()
		defer q.mu.Unlock()
		if i := slices.Index(q.waiting, w); i >= 0 {
			q.waiting = slices.Delete(q.waiting, i, i+1)
		} else {
			q.leave()
		}
		return nil, context.Cause(ctx)
	}
	return &turn{q, time.Now()}, nil
}

// call lets waiting callers in, in order, while there is room. mu is held.
func (q *queue) call() {
	for q.inside < q.most() && len(q.waiting) > 0 {
		close(q.waiting[0].turn)
		q.waiting = q.waiting[1:]
		q.inside++
	}
}

// done ends a turn, and notes how long it took.
func (t *turn) done() {
	q, took := t.queue, time.Since(t.begun)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.pace != nil {
		q.pace.took(took, q.part(), len(q.waiting) > 0)
	}
	q.leave()
}

// pass ends a turn that was not taken.
func (t *turn) pass() {
	t.queue.mu.Lock()
	defer t.queue.mu.Unlock()
	t.queue.leave()
}

// leave makes room for the next one. mu is held.
func (q *queue) leave() {
	q.inside--
	q.call()
}
