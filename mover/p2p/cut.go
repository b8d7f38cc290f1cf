package p2p

import (
	"sync"

	"datamove.dev/mover"
)

// Cut cuts a walk into pieces, the same ones wherever the same walk is cut: files that are larger than a piece into parts
// of the size of one, and those that are not into groups of at most that size. What has no bytes is in no piece.
type Cut struct {
	bytes int64
	next  int // index

	group []position // of small files that have no piece yet
	size  int64      // of the group
	last  string     // the file before, of those that are in pieces
	in    *folder    // of that
}

// NewCut returns a cut into pieces of so many bytes.
func NewCut(pieceBytes int64) *Cut { return &Cut{bytes: pieceBytes} }

// position is where a file is in the pieces: it begins in the first one at off, and goes on in those behind it.
type position struct {
	entry mover.Entry
	first int
	off   int64 // of its first byte in that piece
	in    *folder
}

// folder is files that come one after the other, in one directory.
type folder struct {
	once sync.Once
	err  error // set by once
}

// open says whether ask, which the first one of its files calls, was without an error.
func (f *folder) open(ask func() error) bool {
	f.once.Do(func() { f.err = ask() })
	return f.err == nil
}

// cutting is what is new after an entry: pieces, and the files in them.
type cutting struct {
	pieces []Piece
	spots  []position
}

// add cuts the next entry of the walk. Pieces come when they are complete: of small files later than their entries.
func (c *Cut) add(e mover.Entry) (out cutting) {
	if e.Kind != mover.File || e.Size <= 0 {
		return out
	}
	if c.in == nil || !siblings(c.last, e.Name) {
		c.in = new(folder)
	}
	c.last = e.Name
	s := position{entry: e, in: c.in}
	switch {
	case e.Size > c.bytes:
		out = c.end() // groups end where a large file comes, so that pieces are in the order of the walk
		s.first = c.next
		out.spots = append(out.spots, s)
		for off := int64(0); off < e.Size; off += c.bytes {
			out.pieces = append(out.pieces, c.piece([]Segment{{e.Name, off, min(c.bytes, e.Size-off)}}))
		}
		return out
	case c.size+e.Size > c.bytes || len(c.group) == segmentsMost:
		out = c.end()
	}
	s.first, s.off = c.next, c.size
	c.group, c.size = append(c.group, s), c.size+e.Size
	return out
}

// siblings says that two names are in one directory.
func siblings(a, b string) bool {
	in, _ := mover.Parent(a)
	dir, _ := mover.Parent(b)
	return in == dir
}

// end completes the piece of the small files that wait for one.
func (c *Cut) end() (out cutting) {
	if len(c.group) == 0 {
		return out
	}
	segments := make([]Segment, 0, len(c.group))
	for _, s := range c.group {
		segments = append(segments, Segment{s.entry.Name, 0, s.entry.Size})
	}
	out.spots = c.group
	out.pieces = append(out.pieces, c.piece(segments))
	c.group, c.size = nil, 0
	return out
}

func (c *Cut) piece(s []Segment) Piece {
	c.next++
	return Piece{c.next - 1, s}
}
