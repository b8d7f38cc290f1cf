package transfer

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
)

// unit is what a worker does at once: a batch, a large file to be opened, or one
// part of an open large file. A taker, which gives it away, gets some parts.
type unit struct {
	batch []item
	large *large // to be opened; or with a part to move when part >= 0
	part  int
	parts []int
}

// unitOf is one item by itself.
func unitOf(it item, inParts bool) unit {
	if inParts {
		return unit{large: &large{it: it}, part: -1}
	}
	return unit{batch: []item{it}, part: -1}
}

// queue hands units to workers. Parts of open files go first: they hold memory
// and handles. It is bounded, so the walk waits when the workers are behind.
// It lets only as many workers be busy as the gate finds good; the others sleep. A worker
// that takes a unit wakes one more when there is work for it. A worker that is done comes for
// the next unit itself. Takers give units to other processes: they count apart, and
// while they wait for units, there is room for more.
type queue struct {
	mu      sync.Mutex
	room    sync.Cond // put waits for it
	work    sync.Cond // workers wait for it
	away    sync.Cond // takers wait for it
	limit   int
	width   func(alone bool) int // how many workers may be busy now; alone: no other process takes units
	units   []unit               // guarded by mu, as all below; at most limit
	open    []*large             // open files with parts that are free to take
	offered map[*large]bool      // open files with parts that are not done
	busy    int                  // workers that may still add parts
	hung    int                  // of them, those with a hung call that another worker stands in for
	takers  int                  // that wait for a unit
	given   int                  // units that are given away
	others  int                  // processes that take units, as last reported
	closed  bool                 // nothing more will be put
	stopped error                // why all workers end
}

func newQueue(limit int, width func(alone bool) int) *queue {
	q := &queue{limit: limit, width: width, offered: map[*large]bool{}}
	q.room.L, q.work.L, q.away.L = &q.mu, &q.mu, &q.mu
	return q
}

// put waits for room. It returns false when the queue was stopped.
func (q *queue) put(u unit) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.units) >= q.limit+q.takers && q.stopped == nil {
		q.room.Wait()
	}
	if q.stopped != nil {
		return false
	}
	q.units = append(q.units, u)
	q.wake()
	return true
}

// wake lets one more worker come, and one more taker, if there is work for them.
func (q *queue) wake() {
	if len(q.open)+len(q.units) == 0 {
		return
	}
	if q.free() {
		q.work.Signal()
	}
	if q.takers > 0 {
		q.away.Signal()
	}
}

// putBack returns a unit that was taken. It does not wait.
func (q *queue) putBack(u unit) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.units = slices.Insert(q.units, 0, u)
	q.wake()
}

// reoffer offers l again, when parts of it came back.
func (q *queue) reoffer(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	l.mu.Lock()
	claimable := l.claimable() && !l.lost
	l.mu.Unlock()
	if claimable && !slices.Contains(q.open, l) {
		q.open = append(q.open, l)
	}
	q.wake()
}

// withdraw takes l off the offer: no worker takes another part of it.
func (q *queue) withdraw(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = slices.DeleteFunc(q.open, func(o *large) bool { return o == l })
}

// offer lets every worker take parts of l. It does not wait.
func (q *queue) offer(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.open = append(q.open, l)
	q.offered[l] = true
	q.wake()
}

// offerAway is offer by a taker, which gets some parts before any worker.
func (q *queue) offerAway(l *large) (parts []int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	parts, more := q.some(l)
	if more {
		q.open = append(q.open, l)
	}
	q.offered[l] = true
	q.wake()
	return parts
}

// forget drops an offered file with all parts done, or given up.
func (q *queue) forget(l *large) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.offered, l)
}

// left returns the offered files that were not dropped by forget.
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
		if q.free() {
			if u, ok := q.take(); ok {
				q.busy++
				q.wake()
				return u, true
			}
			if q.over() {
				q.work.Broadcast()
				return unit{}, false
			}
		}
		q.work.Wait()
	}
	return unit{}, false
}

// free says whether one more worker may be busy.
func (q *queue) free() bool {
	alone := q.given+q.takers == 0
	busy := q.busy - q.hung
	return busy < q.width(alone) && (alone || busy < min(q.even(), q.most()))
}

// even is how many units this process may have beside others: no more than each of them
// has. Where one link is the narrowest, all units that are in work on it end late. At the end
// the run waits for the process with the most units, while the others are idle.
func (q *queue) even() int {
	if q.others == 0 {
		return math.MaxInt32
	}
	return max((q.given+q.others-1)/q.others, fewAtLeast)
}

// fewAtLeast keep a process busy while the next unit is on its way to it.
const fewAtLeast = 4

// most is how many units one process may have at a time. When all units are known and
// other processes take them too, that is half of its share of the free ones. A process with
// many units at the end finishes last. (Guided self-scheduling: C. D. Polychronopoulos
// and D. J. Kuck, IEEE Transactions on Computers C-36, 1987.)
func (q *queue) most() int {
	if !q.closed || q.others == 0 {
		return math.MaxInt32
	}
	left := len(q.units)
	for _, l := range q.open {
		left += l.unclaimed()
	}
	return max(left/(2*(q.others+1)), fewAtLeast)
}

// over says that there will be no more units. It is asked when there are none.
func (q *queue) over() bool { return q.closed && q.busy == 0 && q.given == 0 }

func (q *queue) take() (unit, bool) {
	if len(q.open) > 0 {
		l := q.open[0]
		i, more := l.take()
		if !more {
			q.open = q.open[1:]
		}
		return unit{large: l, part: i}, true
	}
	return q.takeUnit()
}

// nextAway gives a taker its next unit; false when there will be none. The taker
// calls back when it has been dealt with. others is how many processes there are for which
// units are taken.
func (q *queue) nextAway(others int) (unit, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.others = others
	for q.stopped == nil {
		if q.others == 0 || q.given < q.others*q.most() {
			if u, ok := q.takeAway(); ok {
				q.given++
				q.wake()
				return u, true
			}
		}
		if q.over() {
			return unit{}, false
		}
		q.takers++
		q.room.Signal()
		q.away.Wait()
		q.takers--
	}
	return unit{}, false
}

// takeAway gives several parts of an open file, fewer towards its end, so that all
// are done at about the same time.
func (q *queue) takeAway() (unit, bool) {
	if len(q.open) == 0 {
		return q.takeUnit()
	}
	l := q.open[0]
	parts, more := q.some(l)
	if !more {
		q.open = q.open[1:]
	}
	return unit{large: l, part: -1, parts: parts}, true
}

func (q *queue) some(l *large) (parts []int, more bool) {
	return l.takeSome(2 * (q.busy + q.given + q.takers + 1))
}

// back ends what nextAway gave.
func (q *queue) back() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.given--
	q.wake() // perhaps all is ours again
	if q.over() {
		q.work.Broadcast()
		q.away.Broadcast()
	}
}

func (q *queue) takeUnit() (unit, bool) {
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
	if q.takers > 0 && q.over() {
		q.away.Broadcast()
	}
}

// hangs is told of a worker with a call that does not return. Another one takes its place, unless too many hang.
func (q *queue) hangs() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.hung == hungMost {
		return false
	}
	q.hung++
	return true
}

// returns is done for a worker of which hangs was told. It does not come for the next unit.
func (q *queue) returns() {
	q.mu.Lock()
	q.hung--
	q.mu.Unlock()
	q.done()
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.over() {
		q.work.Broadcast()
	}
}

// close says that nothing more will be put.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.work.Broadcast()
	q.away.Broadcast()
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
	q.away.Broadcast()
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
