package transfer

import (
	"context"
	"sync"
)

// inTurn does a unit when it is its turn.
func (w *worker) inTurn(ctx context.Context, u unit) (err error) {
	leave, err := w.enter(ctx, u.cost())
	if err != nil {
		return err
	}
	w.leave = leave
	defer func() { leave(w.leaves(err)) }()
	w.unit = true
	w.r.room.Begin()
	return w.do(ctx, u)
}

// leaving is what a unit has come to when its turn ends.
type leaving struct {
	work, bytes int64
	err         error
}

func (w *worker) leaves(err error) leaving { return leaving{w.work(), w.bytes, err} }

// handedOver ends a unit at its turn's end: it holds no draft any more.
func (w *worker) handedOver() {
	if w.unit && !w.spare {
		w.r.room.End()
	}
	w.unit = false
}

// enter waits until a unit may be done: until it has a turn among all runs of this
// node, and the gate lets it pass. A unit that waits for a turn has passed no gate, and the gate learns
// nothing while other runs decide how much gets done.
// A second call of leave does nothing.
func (w *worker) enter(ctx context.Context, c cost) (leave func(leaving), err error) {
	r := w.r
	w.begun()
	turn, err := r.turn(ctx, c)
	if err != nil {
		return nil, err
	}
	acquire, release := r.gate.Acquire, func(l leaving) { r.gate.Release(l.work, l.err) }
	if !turn.Alone {
		acquire, release = r.gate.AcquireGiven, func(l leaving) { r.gate.ReleaseGiven(l.err) }
	}
	if err := acquire(ctx); err != nil {
		turn.Done(0)
		return nil, err
	}
	r.n.InFlight.Add(1)
	var once sync.Once
	return func(l leaving) {
		once.Do(func() {
			r.n.InFlight.Add(-1)
			release(l)
			turn.Done(l.bytes)
		})
	}, nil
}

// cost is how many bytes and operations of ours and of other tasks a unit weighs.
type cost struct{ bytes, ops int64 }

func (u *unit) cost() (c cost) {
	switch {
	case u.large == nil:
		for i := range u.batch {
			moved, _ := u.batch[i].Moves()
			c.bytes += moved
		}
		c.ops = int64(len(u.batch))
	case u.part < 0:
		c.ops = 1
	default:
		c.bytes = cut(u.large.entry.Size, u.large.bytes, u.part).Length
	}
	return c
}

// turn waits for a turn.
func (r *run) turn(ctx context.Context, c cost) (Slot, error) {
	if r.o.AcquireSlot == nil {
		return Slot{Done: func(int64) {}, Alone: true}, nil
	}
	most, fill := r.fill()
	g, err := r.o.AcquireSlot(ctx, SlotRequest{Bytes: c.bytes, Ops: c.ops, Most: most, Fill: fill})
	if err == nil {
		r.crowded.Store(!g.Alone)
	}
	return g, err
}

// fill is how many units of ours may be in work beside other tasks, and how many would use
// all of the node. The gate may know that from when we were alone. If it does not, it is
// twice what it begins with, because it learns nothing while others want turns, except
// that an endpoint has enough.
func (r *run) fill() (most, fill int) {
	width := r.gate.Width()
	first, _ := bounds(r.from, r.to, 0)
	fill = max(width+beside(width), 2*first)
	switch {
	case r.gate.Pinned(): // the number of units is set from outside
		return width, fill
	case width < first:
		return width + beside(width), fill
	}
	return fill, fill
}

// beside is how many units are in work, at most, beside those that the gate finds good,
// while other runs want turns. Between the end of one and the beginning of the next there is
// a round trip to the giver of turns.
func beside(width int) int { return max(2, width/4) }

// inLine is how many units workers have, while other runs want turns, beside those that the
// gate finds good. Without one in line when a turn ends, the next turn goes to another run.
// Some of them are neither in line nor in work: what is moved is published, too, which waits
// for answers.
func (r *run) inLine(width int) int {
	if r.o.AcquireSlot == nil {
		return 0
	}
	return width + 2*beside(width)
}

// abreast is how many units workers may have now. With a service some are moved and wait
// for its answer to be published: while they do, as many as the gate finds good move. Beside
// other processes we take nothing ahead that one of them could begin now.
func (r *run) abreast(alone bool) int {
	width := r.gate.Width()
	switch {
	case r.crowded.Load():
		return width + r.inLine(width)
	case r.o.ConfirmLease != nil && alone:
		return width + beside(width)
	}
	return width
}
