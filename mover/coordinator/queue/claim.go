package queue

import (
	"context"
	"fmt"
	"time"

	"datamove.dev/mover"
)

// Claim is the right to work on an id. It lasts for Options.AckWait, and then until
// somebody else takes the id. After that its methods change nothing and return mover.ErrHeld.
type Claim struct {
	f      *flow
	t      ticket
	number uint64
}

// ID is what was taken.
func (c *Claim) ID() string { return c.t.id() }

// Done says that the id is through. Refill must not find it any more.
func (c *Claim) Done() error {
	return c.use("done", func() error {
		if err := c.t.ack(); err != nil {
			return err
		}
		delete(c.f.here, c.ID())
		return nil
	})
}

// Back gives the id to the next who takes, after a delay.
func (c *Claim) Back(delay time.Duration) error {
	return c.use("give back", func() error {
		if err := c.t.back(max(delay, 0)); err != nil {
			return err
		}
		p := c.f.here[c.ID()]
		p.claim = 0
		c.f.here[c.ID()] = p
		c.f.waiting.Add(1)
		return nil
	})
}

var errLost = fmt.Errorf("%w: the claim is over", mover.ErrHeld)

// use does something with a claim that is still one.
func (c *Claim) use(op string, do func() error) error {
	if err := c.f.enter(context.Background()); err != nil { // nobody has the flow for long
		return err
	}
	defer c.f.leave()
	if err := c.f.q.open(); err != nil {
		return failed(op, c.f.name, err)
	}
	if c.f.gone || c.f.here[c.ID()].claim != c.number {
		return failed(op, c.f.name, errLost)
	}
	if err := do(); err != nil {
		return failed(op, c.f.name, err)
	}
	return nil
}
