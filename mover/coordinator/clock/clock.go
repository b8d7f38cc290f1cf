// Package clock tells the time by which leases and pins end. Setting the clock of the machine ends no lease and revives none.
package clock

import (
	"sync"
	"time"
)

// JumpLeast is how far the clock of the machine has to be from where it is expected
// before it has jumped; a smaller step is taken over.
const JumpLeast = time.Minute

// Clock goes on as time passes, and does not follow the clock of the machine when that jumps.
type Clock struct {
	wall   func() time.Time     // the clock of the machine
	steady func() time.Duration // since the service began; nothing moves it but time

	mu   sync.Mutex
	last time.Time     // what was told last; guarded by mu, as all below
	at   time.Duration // when that was, by steady
	off  time.Duration // how far the machine's was ahead then
}

// New returns a clock that has not begun. Nil functions are those of the machine.
func New(wall func() time.Time, steady func() time.Duration) *Clock {
	c := &Clock{wall: wall, steady: steady}
	if wall == nil {
		c.wall = time.Now
	}
	if steady == nil {
		started := time.Now()
		c.steady = func() time.Duration { return time.Since(started) }
	}
	return c
}

// Wall is the clock of the machine.
func (c *Clock) Wall() time.Time { return c.wall() }

// Steady is the time that has passed since the service began.
func (c *Clock) Steady() time.Duration { return c.steady() }

// Begin continues from the time that was stored last. For the time without a coordinator it
// relies on the clock of the machine.
func (c *Clock) Begin(stored time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.at = Forward(stored, c.wall().Round(0)), c.steady()
}

// Now is the time by which leases and pins end.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady, wall := c.steady(), c.wall().Round(0)
	expected := c.last.Add(steady - c.at)
	if c.off = wall.Sub(expected); c.off.Abs() < JumpLeast {
		expected = Forward(c.last, wall)
	}
	c.last, c.at = expected, steady
	return c.last
}

// Ahead is how far the clock of the machine has jumped; 0 when it is where it should be.
func (c *Clock) Ahead() time.Duration {
	c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off.Abs() < JumpLeast {
		return 0
	}
	return c.off
}

// Forward returns the time of the ledger after last, where a wall clock shows wall:
// a clock that is set back does not take it along, so what has expired stays so.
// The ledger keeps the result with the change that it was used for.
func Forward(last, wall time.Time) time.Time {
	if wall.Before(last) {
		return last
	}
	return wall
}
