package transfer

import "sync"

// namesMost bounds the names that a set remembers, to a few MiB.
const namesMost = 1 << 15

// nameSet is a bounded set of names. One that has met too many says that it has
// every name, so it is for questions where yes is the careful answer.
type nameSet struct {
	mu    sync.Mutex
	names map[string]bool // guarded by mu, as all below
	many  bool            // more than are remembered
}

func (s *nameSet) add(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.names) >= namesMost {
		s.many = true
		return
	}
	if s.names == nil {
		s.names = map[string]bool{}
	}
	s.names[name] = true
}

func (s *nameSet) has(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.many || s.names[name]
}

// list returns the names.
func (s *nameSet) list() (names []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.names {
		names = append(names, name)
	}
	return names
}
