package checkpoint

import "time"

// Quiet is the default for how long nothing in a set has to change before it is copied.
const Quiet = 30 * time.Second

// Stability remembers since when things look as they do. The zero value has seen nothing.
type Stability struct{ seen map[string]observed }

type observed struct {
	print Print
	since time.Time
}

// Look takes in how things look now. Those that are not among them are forgotten.
func (s *Stability) Look(now time.Time, prints map[string]Print) {
	next := make(map[string]observed, len(prints))
	for name, p := range prints {
		if old, known := s.seen[name]; known && old.print == p {
			next[name] = old
		} else {
			next[name] = observed{p, now}
		}
	}
	s.seen = next
}

// Still says whether something has looked the same for a while, in two looks at least.
func (s *Stability) Still(name string, now time.Time, quiet time.Duration) bool {
	x, known := s.seen[name]
	return known && now.After(x.since) && now.Sub(x.since) >= quiet
}

// Same says whether something looked like that when it was last looked at.
func (s *Stability) Same(name string, p Print) bool { return s.seen[name].print == p }
