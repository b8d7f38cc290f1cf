package server

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"datamove.dev/mover"
)

// callers knows for each caller how many of its calls are open, and how often it
// called of late.
type callers struct {
	most int // that are remembered

	mu    sync.Mutex // guards all below
	of    map[string]*usage
	freed chan struct{} // closed when an answer has left
}

// usage is what one caller uses.
type usage struct {
	open   int
	unread int64         // bytes of answers
	bucket *rate.Limiter // nil before the first call that counts
}

// pace is how often a caller may call: per second, and at once.
type pace struct {
	rate  float64
	burst int
}

func newCallers(most int) *callers {
	return &callers{most: most, of: map[string]*usage{}, freed: make(chan struct{})}
}

// begin counts a call as open until end is called.
func (c *callers) begin(caller string, most int) (end func(), err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.get(caller)
	switch {
	case err != nil:
		return nil, err
	case u.open >= most:
		return nil, later("open calls", time.Second, "%s has %d open calls, and may have no more", caller, u.open)
	}
	u.open++
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		u.open--
	}), nil
}

// take takes a token out of the bucket of a caller.
func (c *callers) take(caller string, p pace) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	u, err := c.get(caller)
	if err != nil {
		return err
	}
	if u.bucket == nil {
		u.bucket = rate.NewLimiter(rate.Limit(p.rate), p.burst)
	}
	r := u.bucket.Reserve()
	wait := r.Delay()
	if wait == 0 {
		return nil
	}
	r.Cancel()
	return later("calls", wait, "%s calls more often than %g times a second", caller, p.rate)
}

// owe counts bytes of answers that were not read.
func (c *callers) owe(caller string, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.of[caller] == nil {
		c.of[caller] = &usage{}
	}
	c.of[caller].unread += bytes
	if bytes < 0 {
		close(c.freed)
		c.freed = make(chan struct{})
	}
}

// unread is how many bytes of answers a caller has not read.
func (c *callers) unread(caller string) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if u := c.of[caller]; u != nil {
		return u.unread
	}
	return 0
}

// room waits until a caller has read enough.
func (c *callers) room(ctx context.Context, caller string, most int64) error {
	for {
		c.mu.Lock()
		freed := c.freed
		c.mu.Unlock()
		if c.unread(caller) < most {
			return nil
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// get finds what a caller uses. It needs mu.
func (c *callers) get(caller string) (*usage, error) {
	if u := c.of[caller]; u != nil {
		return u, nil
	}
	if len(c.of) >= c.most {
		c.forget()
	}
	if len(c.of) >= c.most {
		return nil, later("callers", time.Second, "there are %d callers, and there may be no more", len(c.of))
	}
	u := &usage{}
	c.of[caller] = u
	return u, nil
}

// forget drops callers without a call and with a full bucket: a new bucket is
// full, too. It needs mu.
func (c *callers) forget() {
	for caller, u := range c.of {
		if u.open == 0 && u.unread == 0 && (u.bucket == nil || u.bucket.Tokens() >= float64(u.bucket.Burst())) {
			delete(c.of, caller)
		}
	}
}

// later refuses a caller for a while.
func later(of string, after time.Duration, format string, args ...any) error {
	return &mover.Error{Op: "limit", Location: of, Err: mover.Errorf(mover.ErrTransient, format, args...), After: max(after, time.Millisecond)}
}
