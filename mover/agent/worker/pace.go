package worker

import (
	"context"
	"sync"
	"time"
)

// pace holds operations to a rate. The zero one holds nothing.
type pace struct {
	every time.Duration // of one operation; 0 has no rate

	mu   sync.Mutex
	next time.Time // guarded by mu: when the next may begin
}

// newPace is one of so many operations in a second; 0 is as many as there are.
func newPace(perSecond int64) *pace {
	if perSecond <= 0 {
		return &pace{}
	}
	return &pace{every: max(1, time.Second/time.Duration(perSecond))}
}

// paceBurst is how much of the time in which nothing was asked for is made up for.
const paceBurst = 100 * time.Millisecond

// wait waits until so many operations may begin.
func (p *pace) wait(ctx context.Context, n int64) error {
	if p.every == 0 || n <= 0 {
		return ctx.Err()
	}
	p.mu.Lock()
	now := time.Now()
	if first := now.Add(-paceBurst); p.next.Before(first) {
		p.next = first
	}
	begin := p.next
	p.next = p.next.Add(time.Duration(n) * p.every)
	p.mu.Unlock()
	pause := time.NewTimer(begin.Sub(now))
	defer pause.Stop()
	select {
	case <-pause.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
