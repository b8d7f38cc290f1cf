package transfer

import (
	"context"
	"maps"
	"slices"
	"sync"
)

// unit is what a worker does at once: a batch, a large file that is to be opened,
// or one part of a large file that is open.
type unit struct {
	batch []item
	large *large // to be opened; or whose part is to be moved when part >= 0
	part  int
}

// unitOf is one item by itself.
func unitOf(it item, inParts bool) unit {
	if inParts {
		return unit{large: &large{it: it}, part: -1}
	}
	return unit{batch: []item{it}, part: -1}
}

// queue hands units to workers. Parts of open files go first: they hold memory
// and handles. It is bounded, so the walk waits when the workers are behind, and
// it lets only as many workers be busy as the gate finds good. The others sleep: who
// takes a unit wakes one more when there is work for it, and who is done comes for
// the next unit itself.
type queue struct {
	mu      sync.Mutex
	room    sync.Cond // who puts waits for it
	work    sync.Cond // workers wait for it
	limit   int
	width   func() int      // how many workers may be busy now
	units   []unit          // guarded by mu, as all below; at most limit
	open    []*large        // open files with parts that nobody has taken
	offered map[*large]bool // open files with parts that are not done
	busy    int             // workers that may still add parts
	closed  bool            // nothing more will be put
	stopped error           // everybody goes home
}

func newQueue(limit int, width func() int) *queue {
	q := &queue{limit: limit, width: width, offered: map[*large]bool{}}
	q.room.L, q.work.L = &q.mu, &q.mu
	return q
}

// put waits for room. It returns false when the queue was stopped.
func (q *queue) put(u unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.units) >= q.limit && q.stopped == nil {
		q.room.Wait()
	}
	if q.stopped != nil {
		return false
	}
	q.units = append(q.units, u)
	q.wake()
	return true
}

// wake lets one more worker come, if there is work for it.
func (q *queue) wake() {
	if len(q.open)+len(q.units) > 0 && q.busy < q.width() {
		q.work.Signal()
	}
}

// offer lets every worker take parts of l. It does not wait.
func (q *queue) offer(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, l)
	q.offered[l] = true
	q.wake()
}

// forget is told of an offered file whose parts are all done, or given up.
func (q *queue) forget(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.offered, l)
}

// left returns the offered files that nobody told forget of.
func (q *queue) left() []*large {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Collect(maps.Keys(q.offered))
}

// next gives a worker its next unit; false when there will be none. The worker
// calls done when it has finished the unit, and next again.
func (q *queue) next() (unit, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.stopped == nil {
		if q.busy < q.width() {
			if u, ok := q.take(); ok {
				q.busy++
				q.wake()
				return u, true
			}
			if q.closed && q.busy == 0 {
				q.work.Broadcast()
				return unit{}, false
			}
		}
		q.work.Wait()
	}
	return unit{}, false
}

func (q *queue) take() (unit, bool) {
	if len(q.open) > 0 {
		l := q.open[0]
		i, more := l.take()
		if !more {
			q.open = q.open[1:]
		}
		return unit{large: l, part: i}, true
	}
	if len(q.units) == 0 {
		return unit{}, false
	}
	u := q.units[0]
	q.units[0] = unit{}
	q.units = q.units[1:]
	q.room.Signal()
	return u, true
}

func (q *queue) done() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.busy--
}

// close says that nothing more will be put.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.work.Broadcast()
}

// stop sends everybody home. The first reason counts.
func (q *queue) stop(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.stopped == nil {
		q.stopped = why
	}
	q.room.Broadcast()
	q.work.Broadcast()
}

// why is the reason of stop.
func (q *queue) why() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.stopped
}

// stopOn stops the queue when ctx ends; the returned function ends the watch.
func (q *queue) stopOn(ctx context.Context) func() bool {
	return context.AfterFunc(ctx, func() { q.stop(context.Cause(ctx)) })
}
