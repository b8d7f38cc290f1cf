package dataset

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// Places finds records by where they are. A change takes hardly longer among a million of
// them than among ten.
type Places[K cmp.Ordered] struct {
	chunks [][]place[K] // in order, none of them empty
}

// place is a record that lies at an address.
type place[K cmp.Ordered] struct {
	Address
	key K
}

func (p place[K]) compare(other place[K]) int {
	return cmp.Or(comparePaths(p.path, other.path), cmp.Compare(p.node, other.node), cmp.Compare(p.key, other.key))
}

// comparePaths orders paths so that what lies in a directory follows it at once.
func comparePaths(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return cmp.Compare(rank(a, n), rank(b, n))
}

// rank is what a letter of a path sorts as: its end first, and then what separates.
func rank(path string, i int) int {
	switch {
	case i == len(path):
		return -2
	case path[i] == '/':
		return -1
	}
	return int(path[i])
}

// chunkMost is how many places are moved when one is added.
const chunkMost = 512

// Add notes that a record lies at an address. It may say so again.
func (p *Places[K]) Add(at Address, key K) {
	x := place[K]{at, key}
	c := p.chunk(x)
	if c == len(p.chunks) {
		if c == 0 {
			p.chunks = [][]place[K]{{x}}
			return
		}
		c-- // behind all others
	}
	i, there := slices.BinarySearchFunc(p.chunks[c], x, place[K].compare)
	if there {
		return
	}
	p.chunks[c] = slices.Insert(p.chunks[c], i, x)
	if all := p.chunks[c]; len(all) > chunkMost {
		half := len(all) / 2
		if i == len(all)-1 {
			half = i // they come in order: leave the chunk full
		}
		p.chunks = slices.Insert(p.chunks, c+1, append(make([]place[K], 0, chunkMost+1), all[half:]...))
		clear(all[half:])
		p.chunks[c] = all[:half]
	}
}

// chunk is the first one that does not lie before x.
func (p *Places[K]) chunk(x place[K]) int {
	i, _ := slices.BinarySearchFunc(p.chunks, x, func(c []place[K], x place[K]) int { return c[len(c)-1].compare(x) })
	return i
}

// Meeting yields the records that may be at an address, above it, or below it.
func (p *Places[K]) Meeting(at Address) iter.Seq[K] {
	return func(yield func(K) bool) {
		for up := strings.LastIndexByte(at.path, '/'); up >= 0; up = strings.LastIndexByte(at.path[:up], '/') {
			for x := range p.from(at.path[:up]) {
				if x.path != at.path[:up] {
					break
				}
				if x.meets(at) && !yield(x.key) {
					return
				}
			}
		}
		for x := range p.from(at.path) {
			if !within(x.path, at.path) || x.meets(at) && !yield(x.key) {
				return
			}
		}
	}
}

// from yields what lies at a path or behind it.
func (p *Places[K]) from(path string) iter.Seq[place[K]] {
	return func(yield func(place[K]) bool) {
		before := func(x place[K], path string) int {
			if comparePaths(x.path, path) < 0 {
				return -1
			}
			return 1
		}
		c, _ := slices.BinarySearchFunc(p.chunks, path, func(c []place[K], path string) int { return before(c[len(c)-1], path) })
		if c == len(p.chunks) {
			return
		}
		i, _ := slices.BinarySearchFunc(p.chunks[c], path, before)
		for ; c < len(p.chunks); c, i = c+1, 0 {
			for _, x := range p.chunks[c][i:] {
				if !yield(x) {
					return
				}
			}
		}
	}
}
