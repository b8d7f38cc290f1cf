package transfer

import (
	"sync"
	"time"
)

// InWork knows the names that are in work, so that a person can be told what is
// slow. Only large files and the first name of a batch are noted.
type InWork struct {
	mu    sync.Mutex
	since map[string]time.Time // guarded by mu; bounded by the number of workers
}

func (w *InWork) begin(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since == nil {
		w.since = map[string]time.Time{}
	}
	w.since[name] = time.Now()
}

func (w *InWork) end(name string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.since, name)
}

// Oldest returns the name that has been in work for the longest time.
func (w *InWork) Oldest() (name string, age time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var since time.Time
	for n, t := range w.since {
		if since.IsZero() || t.Before(since) {
			name, since = n, t
		}
	}
	if name == "" {
		return "", 0
	}
	return name, time.Since(since)
}
