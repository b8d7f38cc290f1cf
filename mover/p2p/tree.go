package p2p

import (
	"sync"

	"datamove.dev/mover"
)

// spotsMost bounds the files that are remembered of a walk and were not opened: what is there already is never opened.
const spotsMost = 1 << 18

// tree is what is known of the pieces: those that the walk has come to, and that are not done with.
type tree struct {
	mu     sync.Mutex
	spots  map[string]*placed // by the names of files; guarded by mu, as all below
	pieces map[int]*known
	oldest int // no piece before it is known
	cut    int // pieces so far
}

type known struct {
	piece Piece
	files []string // that begin in it
}

// placed is a file, and where it is.
type placed struct {
	position
	taken bool // it was opened once
}

func (t *tree) forget() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.spots, t.pieces, t.oldest, t.cut = map[string]*placed{}, map[int]*known{}, 0, 0
}

// learn takes over what a walk has come to.
func (t *tree) learn(c cutting) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, p := range c.pieces {
		t.pieces[p.Index] = &known{piece: p}
		t.cut = p.Index + 1
	}
	for _, s := range c.spots {
		t.spots[s.entry.Name] = &placed{position: s}
		if k := t.pieces[s.first]; k != nil {
			k.files = append(k.files, s.entry.Name)
		}
	}
	for len(t.spots) > spotsMost && t.oldest < t.cut {
		t.drop(t.oldest)
		t.oldest++
	}
}

// drop forgets a piece and the files that begin in it. mu is held.
func (t *tree) drop(index int) {
	k := t.pieces[index]
	if k == nil {
		return
	}
	for _, name := range k.files {
		if s := t.spots[name]; s != nil && !s.taken {
			delete(t.spots, name)
		}
	}
	delete(t.pieces, index)
}

// open finds the pieces of a file, once: a second open reads the source.
func (t *tree) open(name string) *position {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spots[name]
	if s == nil || s.taken {
		return nil
	}
	s.taken = true
	return &s.position
}

// close forgets a file that was opened, and its pieces when no other file is in them.
func (t *tree) close(s *position) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.spots, s.entry.Name)
	k := t.pieces[s.first]
	if k == nil {
		return
	}
	for _, name := range k.files {
		if t.spots[name] != nil {
			return
		}
	}
	for i := s.first; t.pieces[i] != nil && t.pieces[i].piece.Segments[0].Name == k.piece.Segments[0].Name; i++ {
		delete(t.pieces, i)
	}
}

// piece returns one that is known.
func (t *tree) piece(index int) (*Piece, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.pieces[index]
	if k == nil {
		return nil, false
	}
	return &k.piece, true
}

// entry is a file as the walk has yielded it.
func (t *tree) entry(name string) (mover.Entry, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.spots[name]; s != nil {
		return s.entry, true
	}
	return mover.Entry{}, false
}
