package agent

import "sync"

// turn is a lock that may be held while a call is answered. What waits for it waits for a channel: in virtual time a wait for a mutex would stop the clock
// that its holder waits for. The zero turn is free.
type turn struct {
	mu    sync.Mutex
	taken chan struct{} // closed when it is free again; nil is free. Guarded by mu
}

// Lock takes it, and waits until it is free.
func (t *turn) Lock() {
	for {
		t.mu.Lock()
		taken := t.taken
		if taken == nil {
			t.taken = make(chan struct{})
			t.mu.Unlock()
			return
		}
		t.mu.Unlock()
		<-taken
	}
}

// Unlock gives it back.
func (t *turn) Unlock() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.taken)
	t.taken = nil
}
