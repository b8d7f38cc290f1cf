package csi

import (
	"fmt"
	"sync"
	"time"

	"datamove.dev/mover"
)

// busy remembers what is under way, so that two calls for one thing are not at work at once. It
// does not block: the second caller gets an error, and calls again.
type busy struct {
	mu  sync.Mutex
	now map[string]work // guarded by mu
}

// work is one call.
type work struct {
	what  string
	since time.Time
}

// begin marks a thing as being worked on. Call done when it is over.
func (b *busy) begin(thing, what string) (done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if w, ok := b.now[thing]; ok {
		return nil, fmt.Errorf("%w: %s of it has been under way for %s", mover.ErrHeld, w.what, time.Since(w.since).Round(time.Second))
	}
	if b.now == nil {
		b.now = map[string]work{}
	}
	b.now[thing] = work{what, time.Now()}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.now, thing)
	}, nil
}

// oldest is for how long the oldest call has been under way, and how many there are.
func (b *busy) oldest() (age time.Duration, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, w := range b.now {
		age = max(age, time.Since(w.since))
	}
	return age, len(b.now)
}
