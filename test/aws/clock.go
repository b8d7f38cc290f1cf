package aws

import (
	"sync"
	"time"
)

// Clock is one that a test moves by hand: Options.Now of a server, and of who is its client.
type Clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewClock is one that stands at eight in the morning of the 2nd of November 2026, a Monday, in UTC.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 11, 2, 8, 0, 0, 0, time.UTC)} }

// Now is where it stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Pass moves it.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}
