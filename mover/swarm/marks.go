package swarm

import "sync"

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

// take says whether it has one, and has it no more.
func (m *marks) take(i int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if i/64 >= len(m.bits) || m.bits[i/64]&(1<<(i%64)) == 0 {
		return false
	}
	m.bits[i/64] &^= 1 << (i % 64)
	return true
}
