package swarm

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue has few pieces read from the source at a time, and those first that come first in the tree: of many that are read side by side none
// is there for long, and nobody has anything to give. How many are few is the same for all homes, or one would take the source from
// the others, and all would wait for those; more are read of a source that is quick.
type queue struct {
	mu      sync.Mutex
	more    int // reads at a time than among, because they are quick; guarded by mu, as all below
	among   int // homes
	reading int
	waiting []*waiter // the one to go first in front
}

type waiter struct {
	index int
	turn  chan struct{} // closed when it is its turn
}

const (
	readsOfAll = 32
	readsLeast = 2
	readsMost  = 64
	readQuick  = 100 * time.Millisecond // a read that takes less leaves the source with nothing to do
	readLong   = 200 * time.Millisecond
)

// most is how many reads there may be at a time. mu is held.
func (q *queue) most() int {
	return min(max(readsOfAll/max(q.among, 1), readsLeast)+q.more, readsMost)
}

// enter waits for the turn of a piece, which is read by one of so many homes; leave is called when it is read.
func (q *queue) enter(ctx context.Context, index, homes int) (leave func(), err error) {
	w := &waiter{index, make(chan struct{})}
	q.mu.Lock()
	q.among = homes
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
			q.reading--
			q.call()
		}
		return nil, context.Cause(ctx)
	}
	begun := time.Now()
	return func() { q.done(time.Since(begun)) }, nil
}

// call has those read whose turn it is. mu is held.
func (q *queue) call() {
	for q.reading < q.most() && len(q.waiting) > 0 {
		close(q.waiting[0].turn)
		q.waiting = q.waiting[1:]
		q.reading++
	}
}

// done notes how long a read took.
func (q *queue) done(took time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case took < readQuick && len(q.waiting) > 0:
		q.more = min(q.more+1, readsMost)
	case took > readLong:
		q.more = max(q.more-1, 0)
	}
	q.reading--
	q.call()
}
