package p2p

import (
	"sync"
	"time"
)

// marks is a set of indices of pieces.
type marks struct {
	mu   sync.Mutex
	bits []uint64 // guarded by mu
}

// marksMost bounds the indices that are remembered: 8 MiB.
const marksMost = 1 << 26

func (m *marks) add(i int) {
	if i >= marksMost {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for len(m.bits) <= i/64 {
		m.bits = append(m.bits, 0)
	}
	m.bits[i/64] |= 1 << (i % 64)
}

func (m *marks) has(i int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return i/64 < len(m.bits) && m.bits[i/64]&(1<<(i%64)) != 0
}

// recent are indices of pieces, each for a while.
type recent struct {
	mu sync.Mutex
	at map[int]time.Time // guarded by mu
}

// recentMost bounds what is remembered; of what is older than is asked for, nothing is.
const recentMost = 1 << 14

func (r *recent) add(i int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.at == nil || len(r.at) >= recentMost {
		r.at = map[int]time.Time{}
	}
	r.at[i] = time.Now()
}

// take forgets one, and returns for how long it has been there; false is none.
func (r *recent) take(i int) (time.Duration, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, ok := r.at[i]
	delete(r.at, i)
	return time.Since(at), ok
}
