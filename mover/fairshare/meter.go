package fairshare

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// burst is how long a meter that was idle may be ahead of its rate: timers are late by
// less than that, and so cost nothing.
const burst = 100 * time.Millisecond

// farAhead bounds what one charge takes, so that no sum of times overflows.
const farAhead = 365 * 24 * time.Hour

// meter holds what passes to a rate per second. A charge passes when what passed before
// it is paid for, in whole and first come first; then it is the debt of the next. It so
// may be larger than what the rate gives in a second. The zero value is unlimited.
type meter struct {
	mu      sync.Mutex // guards all below
	rate    int64      // per second; 0 is unlimited
	paid    time.Time  // when what passed is paid for
	waiting list.List  // of *charge
	timer   *time.Timer
}

// charge is one that passed or waits.
type charge struct {
	meter  *meter
	amount int64
	queued *list.Element // in the meter's waiting, until it passes
	passed chan struct{} // closed when it passes; nil did not wait
}

// join charges the meter now, or when it is time.
func (m *meter) join(amount int64) *charge {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &charge{meter: m, amount: amount}
	if now := time.Now(); m.waiting.Len() == 0 && m.open(now) {
		m.pass(c, now)
		return c
	}
	c.passed = make(chan struct{})
	c.queued = m.waiting.PushBack(c)
	m.admit()
	return c
}

// open reports whether the next one may pass.
func (m *meter) open(now time.Time) bool { return m.rate == 0 || !m.paid.After(now) }

// admit lets pass what may, and sees to it that it is called again for the rest.
func (m *meter) admit() {
	now := time.Now()
	for m.waiting.Len() > 0 && m.open(now) {
		c := m.waiting.Remove(m.waiting.Front()).(*charge)
		m.pass(c, now)
		close(c.passed)
	}
	switch {
	case m.waiting.Len() == 0 && m.timer != nil:
		m.timer.Stop()
	case m.waiting.Len() == 0:
	case m.timer == nil:
		m.timer = time.AfterFunc(m.paid.Sub(now), m.tick)
	default:
		m.timer.Reset(m.paid.Sub(now))
	}
}

func (m *meter) tick() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.admit()
}

func (m *meter) pass(c *charge, now time.Time) {
	c.queued = nil
	if m.rate == 0 {
		c.amount = 0 // nothing to take back
		return
	}
	if earliest := now.Add(-burst); m.paid.Before(earliest) {
		m.paid = earliest
	}
	m.paid = m.paid.Add(takes(float64(c.amount), m.rate))
}

// takes is the time in which the rate gives an amount.
func takes(amount float64, rate int64) time.Duration {
	seconds := amount / float64(rate)
	if seconds >= farAhead.Seconds() {
		return farAhead
	}
	return time.Duration(seconds * float64(time.Second))
}

// setRate changes the rate. What is owed stays the same amount.
func (m *meter) setRate(rate int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	was, now := m.rate, time.Now()
	m.rate = max(rate, 0)
	switch {
	case m.rate == 0 || m.rate == was:
	case was == 0:
		m.paid = now
	case m.paid.After(now):
		owed := m.paid.Sub(now).Seconds() * float64(was)
		m.paid = now.Add(takes(owed, m.rate))
	}
	m.admit()
}

// leave takes a charge back: nothing is moved for it.
func (c *charge) leave() {
	m := c.meter
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.queued != nil {
		m.waiting.Remove(c.queued)
		c.queued = nil
	} else if m.rate > 0 {
		m.paid = m.paid.Add(-takes(float64(c.amount), m.rate))
	}
	m.admit()
}

// waitAll waits until every charge has passed. Charges wait side by side, and none
// holds anything while it waits, so that those of several meters can not lock each
// other out. If ctx ends, all are taken back.
func waitAll(ctx context.Context, charges []*charge) (waited time.Duration, err error) {
	var since time.Time
	for _, c := range charges {
		if c.passed == nil {
			continue
		}
		if since.IsZero() {
			since = time.Now()
		}
		select {
		case <-c.passed:
		case <-ctx.Done():
			for _, c := range charges {
				c.leave()
			}
			return time.Since(since), context.Cause(ctx)
		}
	}
	if since.IsZero() {
		return 0, nil
	}
	return time.Since(since), nil
}
