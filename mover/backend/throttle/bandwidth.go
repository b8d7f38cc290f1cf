// Package throttle holds a transfer to a bandwidth.
//
// [Source] wraps a source so that its contents are read within a [Bandwidth], all readers together. The rate can change at
// any time. A Bandwidth may be used from many goroutines and starts none. TestBandwidthHolds shows it at work.
package throttle

import (
	"context"
	"sync"
	"time"
)

// Bandwidth is so many bytes per second for all callers together, first come first, or so many of what else is
// counted. Nil is no limit.
type Bandwidth struct {
	mu      sync.Mutex // guards all below
	rate    int64
	asked   int64         // bytes so far, with those of waiting callers
	paid    float64       // of these, what the rate has given until at
	at      time.Time     // when that was
	waited  time.Duration // summed over all callers that did
	changed chan struct{} // closed when the rate is another one
}

// NewBandwidth returns a bandwidth; at 0 or less it is none.
func NewBandwidth(bytesPerSec int64) *Bandwidth {
	if bytesPerSec <= 0 {
		return nil
	}
	return &Bandwidth{rate: bytesPerSec, at: time.Now(), changed: make(chan struct{})}
}

// SetRate changes the rate, also for those that wait. What is owed is owed still.
func (b *Bandwidth) SetRate(bytesPerSec int64) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	if rate := max(bytesPerSec, 1); rate != b.rate {
		b.rate = rate
		close(b.changed)
		b.changed = make(chan struct{})
	}
}

// Passed is how many bytes were asked for so far.
func (b *Bandwidth) Passed() int64 {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.asked
}

// Waited is how long all callers have waited, summed over them.
func (b *Bandwidth) Waited() time.Duration {
	if b == nil {
		return 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.waited
}

// stepMost bounds what passes at once, so that the flow is even.
const stepMost = 1 << 20

// step is the most that passes at once, and what may pass ahead of its time.
func (b *Bandwidth) step() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.stepNow()
}

func (b *Bandwidth) stepNow() int64 { return min(max(b.rate/8, 1), stepMost) }

// settle pays what the rate has given until now. Bandwidth.mu is held.
func (b *Bandwidth) settle() {
	now := time.Now()
	b.paid = min(b.paid+now.Sub(b.at).Seconds()*float64(b.rate), float64(b.asked))
	b.at = now
}

// Wait pays for bytes that have passed and returns when the next ones may, with the time
// that it took. They stay paid for if ctx ends before: they have passed.
func (b *Bandwidth) Wait(ctx context.Context, n int64) (waited time.Duration, err error) {
	if b == nil {
		return 0, nil
	}
	begun := time.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.settle()
	b.asked += n
	end := float64(b.asked)
	for {
		b.settle()
		lacks := end - float64(b.stepNow()) - b.paid
		if lacks <= 0 {
			break
		}
		if err = b.pause(ctx, time.Duration(lacks/float64(b.rate)*float64(time.Second))+1); err != nil {
			break
		}
	}
	waited = time.Since(begun)
	b.waited += waited
	return waited, err
}

// pause waits for a time, or for another rate. Bandwidth.mu is held, but for the wait.
func (b *Bandwidth) pause(ctx context.Context, d time.Duration) error {
	changed := b.changed
	b.mu.Unlock()
	defer b.mu.Lock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}
