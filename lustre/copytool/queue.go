package copytool

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
)

// identity names an action: each MDT counts its cookies by itself, from the time when it was
// started, so those of two MDTs meet; a file is on one.
type identity struct {
	file   lustre.FID
	cookie uint64
}

func identityOf(i *uapi.ActionItem) identity { return identity{i.FID, i.Cookie} }

// action is one that was handed out.
type action struct {
	item   uapi.ActionItem
	system string // name of the file system
	note   string // the file by which the next process knows of it; "" is none. Of the reader, then of its worker
	since  time.Time
	size   int64        // of the file, in bytes; of its worker
	moved  atomic.Int64 // bytes

	telling sync.Mutex // held while the MDT is told something of it; guards told
	told    int64      // bytes that the MDT knows of

	ctx    context.Context // of the work; nil while it waits. Guarded by queue.mu, as stop
	stop   context.CancelCauseFunc
	copied uapi.Copy // what its end is told with; of its worker
}

// queue holds what waits and what is in work. Restores go first, and one worker takes
// nothing else, unless there is only one.
type queue struct {
	jobs, most int

	mu       sync.Mutex
	changed  *sync.Cond           // all below has changed
	restores []*action            // guarded by mu, as all below
	others   []*action            //
	all      map[identity]*action // those in work too
	working  int                  //
	busy     int                  // working on others
	closed   bool
}

func newQueue(jobs, most int) *queue {
	q := &queue{jobs: jobs, most: most, all: map[identity]*action{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// add waits until there is room. It reports false for an action that is there already, or
// when the queue is closed.
func (q *queue) add(a *action) (added, known bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.restores)+len(q.others) >= q.most && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return false, false
	}
	id := identityOf(&a.item)
	if q.all[id] != nil {
		return false, true
	}
	q.all[id] = a
	if a.item.Action == uapi.CopyRestore {
		q.restores = append(q.restores, a)
	} else {
		q.others = append(q.others, a)
	}
	q.changed.Broadcast()
	return true, false
}

// next waits for an action to work on, and gives it a context; false when the queue is closed.
func (q *queue) next(ctx context.Context) (*action, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		if q.closed {
			return nil, false
		}
		if a := q.take(); a != nil {
			a.ctx, a.stop = context.WithCancelCause(ctx)
			q.changed.Broadcast()
			return a, true
		}
		q.changed.Wait()
	}
}

// take takes what may begin now; mu is held.
func (q *queue) take() (a *action) {
	switch {
	case len(q.restores) > 0:
		a, q.restores = q.restores[0], q.restores[1:]
	case len(q.others) > 0 && q.busy < max(q.jobs-1, 1):
		a, q.others = q.others[0], q.others[1:]
		q.busy++
	default:
		return nil
	}
	q.working++
	return a
}

// ending forgets the identity of an action. It comes before the MDT hears of the end: after
// that it may hand the same action out again, and that one is another.
func (q *queue) ending(a *action) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if id := identityOf(&a.item); q.all[id] == a {
		delete(q.all, id)
	}
}

// done makes room for another action.
func (q *queue) done(a *action) {
	a.stop(nil)
	q.ending(a)
	q.mu.Lock()
	defer q.mu.Unlock()
	q.working--
	if a.item.Action != uapi.CopyRestore {
		q.busy--
	}
	q.changed.Broadcast()
}

// cancel ends an action: one in work by its context; one that waits is
// returned, and its end is the caller's to tell. It reports whether there is one.
func (q *queue) cancel(id identity) (waited *action, found bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	a := q.all[id]
	if a == nil {
		return nil, false
	}
	switch {
	case a.stop != nil:
		a.stop(errCancelled)
		return nil, true
	case q.closed: // close has returned it: its end is told already
		return nil, true
	}
	delete(q.all, id)
	q.restores, q.others = without(q.restores, a), without(q.others, a)
	q.changed.Broadcast()
	return a, true
}

func without(list []*action, a *action) []*action {
	for i := range list {
		if list[i] == a {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// waiting is what waits.
func (q *queue) waiting() []*action {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Concat(q.restores, q.others)
}

// waits reports whether an action does.
func (q *queue) waits(a *action) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.all[identityOf(&a.item)] == a && a.ctx == nil
}

// close lets nothing more begin, and returns what waits.
func (q *queue) close() (left []*action) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	left = append(q.restores, q.others...)
	q.restores, q.others = nil, nil
	q.changed.Broadcast()
	return left
}

func (q *queue) counts() (waiting, working int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.restores) + len(q.others), q.working
}
