package transfer

import (
	"context"
	"time"

	"datamove.dev/mover/engine/transfer/standstill"
)

// lull is how long the stream of actions may stand still before the cutter hands over what it holds: a listing waits for an answer, and what
// was listed before needs none.
const lull = standstill.After

// own has the caller go on with the cutter alone; disown ends that. A channel is waited for in virtual time, too.
func (c *cutter) own()    { c.owned <- struct{}{} }
func (c *cutter) disown() { <-c.owned }

// watch hands over what the cutter holds each time the stream stands still, until stop is called.
func (c *cutter) watch(ctx context.Context) (stop func() error) {
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		err := c.inLulls(ctx, over)
		if err != nil {
			c.r.queue.stop(err) // the stream may stand still for long
		}
		ended <- err
	}()
	return func() error {
		close(over)
		return <-ended
	}
}

func (c *cutter) inLulls(ctx context.Context, over <-chan struct{}) error {
	tick := time.NewTicker(lull)
	defer tick.Stop()
	for seen := int64(0); ; {
		select {
		case <-tick.C:
		case <-over:
			return nil
		}
		select {
		case c.owned <- struct{}{}:
		case <-over:
			return nil
		}
		var err error
		if c.seq == seen {
			err = c.inLull(ctx)
		}
		seen = c.seq
		c.disown()
		tick.Reset(lull) // also when it was the queue that was waited for
		if err != nil {
			return err
		}
	}
}

// inLull hands over what the cutter holds. Which of the directories around it go on is not known yet.
func (c *cutter) inLull(ctx context.Context) error {
	if len(c.batch) == 0 {
		return nil
	}
	c.r.log.InfoContext(ctx, "the listing stands still; what was listed before is moved meanwhile", "entries", len(c.batch), "last", c.batch[len(c.batch)-1].name())
	return c.flush(ctx, c.path[len(c.path)-1].it.Source.Name)
}
