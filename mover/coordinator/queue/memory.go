package queue

import (
	"container/heap"
	"context"
	"time"
)

// NewMemory returns a queue that is a few lists in memory.
func NewMemory(o Options) Queue {
	o = o.defaults()
	return newQueue(o, memory{o.AckWait})
}

// memory makes lanes that are lists.
type memory struct{ wait time.Duration }

func (m memory) lane(context.Context) (lane, error) { return &list{wait: m.wait}, nil }

func (m memory) close() error { return nil }

// list is a lane. Its flow sees to it that one goroutine at a time uses it.
type list struct {
	wait  time.Duration
	last  uint64 // sequence
	ready []*item
	out   dues // what somebody has, or what comes back later
}

// item is an id in a list, and a ticket for it.
type item struct {
	in   *list
	name string
	seq  uint64
	due  time.Time // when it goes to the next
	pos  int       // in the list's out
}

func (l *list) push(_ context.Context, ids []string) (sequences []uint64, err error) {
	for _, id := range ids {
		l.last++
		l.ready = append(l.ready, &item{in: l, name: id, seq: l.last})
		sequences = append(sequences, l.last)
	}
	return sequences, nil
}

// pull gives what is overdue first.
func (l *list) pull(context.Context) (ticket, bool, error) {
	now := time.Now()
	if len(l.out) > 0 && !l.out[0].due.After(now) {
		it := l.out[0]
		it.at(now.Add(l.wait))
		return it, true, nil
	}
	if len(l.ready) == 0 {
		return nil, false, nil
	}
	it := l.ready[0]
	l.ready[0] = nil
	l.ready = l.ready[1:]
	it.due = now.Add(l.wait)
	heap.Push(&l.out, it)
	return it, true, nil
}

func (l *list) drop() error { return nil }

// at moves an item that is out to another time.
func (it *item) at(t time.Time) {
	it.due = t
	heap.Fix(&it.in.out, it.pos)
}

func (it *item) id() string       { return it.name }
func (it *item) sequence() uint64 { return it.seq }
func (it *item) ack() error       { heap.Remove(&it.in.out, it.pos); return nil }

func (it *item) back(delay time.Duration) error {
	it.at(time.Now().Add(delay))
	return nil
}

// dues is a heap, soonest first.
type dues []*item

func (d dues) Len() int           { return len(d) }
func (d dues) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d dues) Swap(i, j int)      { d[i], d[j] = d[j], d[i]; d[i].pos, d[j].pos = i, j }
func (d *dues) Push(x any)        { it := x.(*item); it.pos = len(*d); *d = append(*d, it) }

func (d *dues) Pop() any {
	last := len(*d) - 1
	it := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	return it
}
