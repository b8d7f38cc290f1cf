package queue

import (
	"container/heap"
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// Claim is the right to work on an id. It lasts until Done, Back, or Drop of its flow. After that its
// methods change nothing and return mover.ErrHeld.
type Claim struct {
	f  *flow
	it *item
}

// ID is what was taken.
func (c *Claim) ID() string { return c.it.id }

// Done ends the wait of an id. Refill must not find it any more.
func (c *Claim) Done() error {
	return c.use("done", func() { delete(c.f.here, c.it.id) })
}

// Back gives the id to the next taker, after a delay.
func (c *Claim) Back(delay time.Duration) error {
	return c.use("give back", func() {
		c.it.due = time.Now().Add(max(delay, 0))
		heap.Push(&c.f.back, c.it)
		c.f.waiting++
	})
}

var errLost = fmt.Errorf("%w: the claim is over", mover.ErrHeld)

// use ends a claim that is still one.
func (c *Claim) use(op string, end func()) error {
	if err := c.f.enter(context.Background()); err != nil { // no goroutine has the flow for long
		return err
	}
	defer c.f.leave()
	if c.f.gone || c.it.claim != c {
		return failed(op, c.f.name, errLost)
	}
	c.it.claim = nil
	end()
	return nil
}
