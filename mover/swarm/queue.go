package swarm

import (
	"context"
	"slices"
	"sync"
	"time"
)

// queue has few pieces in work at a time, and those first that come first in the tree: of many that are read side by side none
// is there for long, and nobody has anything to give. How many are few is the same for all homes, or one would take the source from
// the others, and all would wait for those; more are read of a source that is quick.
type queue struct {
	ofAll, least, limit int // at a time: by all homes together, by one in any case, and by one at most

	mu      sync.Mutex
	more    int // at a time than among, because they are quick; guarded by mu, as all below
	among   int // homes
	inside  int
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

// most is how many there may be at a time. mu is held.
func (q *queue) most() int {
	return min(max(q.ofAll/max(q.among, 1), q.least)+q.more, q.limit)
}

// turn is leave to read a piece: done is called when it is read, or pass when nothing was.
type turn struct {
	queue *queue
	begun time.Time
}

// enter waits for the turn of a piece, at one of so many homes.
func (q *queue) enter(ctx context.Context, index, homes int) (*turn, error) {
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
			q.leave()
		}
		return nil, context.Cause(ctx)
	}
	return &turn{q, time.Now()}, nil
}

// call has those go whose turn it is. mu is held.
func (q *queue) call() {
	for q.inside < q.most() && len(q.waiting) > 0 {
		close(q.waiting[0].turn)
		q.waiting = q.waiting[1:]
		q.inside++
	}
}

// done ends a turn, and notes how long the read took.
func (t *turn) done() {
	q, took := t.queue, time.Since(t.begun)
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case took < readQuick && len(q.waiting) > 0:
		q.more = min(q.more+1, readsMost)
	case took > readLong:
		q.more = max(q.more-1, 0)
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

// lines are the questions that wait to be asked, of each member: those first that come first in the tree, or what is read next would
// wait behind all that is read later.
type lines struct {
	mu  sync.Mutex
	all map[line]*queue // guarded by mu
}

type line struct {
	member string
	atHome bool // those questions wait for the source, and the others do not
}

// AsksMost is how many questions of each kind one member is asked at a time, where there are few: so there is always something on the way. Of
// many members each is asked less, or all answers come at one time over one link.
const (
	AsksMost  = 8
	asksOfAll = 32
	asksLeast = 2
)

func (l *lines) of(x line) *queue {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all == nil {
		l.all = map[line]*queue{}
	}
	if l.all[x] == nil {
		l.all[x] = &queue{ofAll: asksOfAll, least: asksLeast, limit: AsksMost}
	}
	return l.all[x]
}
