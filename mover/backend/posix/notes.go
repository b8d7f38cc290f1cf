package posix

import (
	"slices"
	"sync"

	"datamove.dev/mover"
)

var _ mover.Warner = (*Backend)(nil)

// notes is what the user of a place should be told: what is not as it could be, and
// no error.
type notes struct {
	mu    sync.Mutex
	texts []string // guarded by mu
}

// notesMost bounds them: each is told once.
const notesMost = 16

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.texts) < notesMost && !slices.Contains(n.texts, text) {
		n.texts = append(n.texts, text)
	}
}

// Notes implements mover.Warner.
func (p *Backend) Notes() []string {
	p.notes.mu.Lock()
	texts := slices.Clone(p.notes.texts)
	p.notes.mu.Unlock()
	if n, ok := p.fs.(mover.Warner); ok {
		texts = append(texts, n.Notes()...)
	}
	return texts
}
