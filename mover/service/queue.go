package service

import (
	"context"
	"sync"
	"time"
)

// Queue holds lines of ids of queued tasks. It may lose everything: it asks for the
// ids of a line again when it runs low.
type Queue interface {
	Offer(ctx context.Context, flow, id string) error
	Take(ctx context.Context, flow string) (c Claim, ok bool, err error)
	Drop(flow string)
	Len(flow string) int
	Close() error
}

// Claim is an id that was taken and not yet given back or done with.
type Claim interface {
	ID() string
	Done() error
	Back(after time.Duration) error
}

// Refill returns up to n ids of a flow behind after, in order.
type Refill func(ctx context.Context, flow, after string, n int) ([]string, error)

// window is how many ids of a line are held; the rest is in the ledger.
const window = 1024

// memory is a Queue in memory.
type memory struct {
	refill Refill

	mu    sync.Mutex
	lines map[string]*memoryLine // guarded by mu
}

type memoryLine struct {
	ids   []string
	known map[string]bool // in ids or claimed
	last  string          // the greatest that was ever in ids
	more  bool            // the ledger may have others
}

// NewMemory returns a queue in memory.
func NewMemory(refill Refill) Queue { return &memory{refill: refill, lines: map[string]*memoryLine{}} }

func (m *memory) line(flow string) *memoryLine {
	l := m.lines[flow]
	if l == nil {
		l = &memoryLine{known: map[string]bool{}, more: true}
		m.lines[flow] = l
	}
	return l
}

func (l *memoryLine) add(id string) {
	if !l.known[id] {
		l.known[id] = true
		l.ids = append(l.ids, id)
	}
	l.last = max(l.last, id)
}

func (m *memory) Offer(_ context.Context, flow, id string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.line(flow)
	if len(l.ids) >= window || l.more && len(l.ids) == 0 || id < l.last {
		l.more = true // it is found in the ledger when it is its turn
		if id < l.last {
			l.last = "" // it came back: begin anew
		}
		return nil
	}
	l.add(id)
	return nil
}

func (m *memory) Take(ctx context.Context, flow string) (Claim, bool, error) {
	m.mu.Lock()
	l := m.line(flow)
	ask, after := len(l.ids) == 0 && l.more, l.last
	m.mu.Unlock()
	if ask {
		ids, err := m.refill(ctx, flow, after, window)
		if err != nil {
			return nil, false, err
		}
		m.mu.Lock()
		l.more = len(ids) == window
		for _, id := range ids {
			l.add(id)
		}
		m.mu.Unlock()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(l.ids) == 0 {
		return nil, false, nil
	}
	id := l.ids[0]
	l.ids = l.ids[1:]
	return &memoryClaim{m, flow, id}, true, nil
}

func (m *memory) Drop(flow string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.lines, flow)
}

func (m *memory) Len(flow string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	if l := m.lines[flow]; l != nil {
		return len(l.known)
	}
	return 0
}

func (m *memory) Close() error { return nil }

type memoryClaim struct {
	m    *memory
	flow string
	id   string
}

func (c *memoryClaim) ID() string { return c.id }

func (c *memoryClaim) Done() error {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	delete(c.m.line(c.flow).known, c.id)
	return nil
}

func (c *memoryClaim) Back(after time.Duration) error {
	time.AfterFunc(after, func() {
		c.m.mu.Lock()
		defer c.m.mu.Unlock()
		l := c.m.line(c.flow)
		if l.known[c.id] {
			l.ids = append([]string{c.id}, l.ids...)
		}
	})
	return nil
}
