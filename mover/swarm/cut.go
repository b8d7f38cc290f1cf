package swarm

import "datamove.dev/mover"

// Cut cuts a walk into pieces, the same ones wherever the same walk is cut: files that are larger than a piece into parts
// of the size of one, and those that are not into groups of at most that size. What has no bytes is in no piece.
type Cut struct {
	bytes int64
	next  int // index

	group []mover.Entry // of small files that have no piece yet
	size  int64         // of the group
}

// NewCut returns a cut into pieces of so many bytes.
func NewCut(pieceBytes int64) *Cut { return &Cut{bytes: pieceBytes} }

// spot is where a file is in the pieces: it begins in the first one at off, and goes on in those behind it.
type spot struct {
	entry mover.Entry
	first int
	off   int64 // of its first byte in that piece
}

// cutting is what is new after an entry: pieces, and the files in them.
type cutting struct {
	pieces []Piece
	spots  []spot
}

// add cuts the next entry of the walk. Pieces come when they are complete: of small files later than their entries.
func (c *Cut) add(e mover.Entry) (out cutting) {
	switch {
	case e.Kind != mover.File || e.Size <= 0:
		return out
	case e.Size > c.bytes:
		out = c.end() // groups end where a large file comes, so that pieces are in the order of the walk
		out.spots = append(out.spots, spot{e, c.next, 0})
		for off := int64(0); off < e.Size; off += c.bytes {
			out.pieces = append(out.pieces, c.piece([]Segment{{e.Name, off, min(c.bytes, e.Size-off)}}))
		}
		return out
	case c.size+e.Size > c.bytes || len(c.group) == segmentsMost:
		out = c.end()
	}
	c.group, c.size = append(c.group, e), c.size+e.Size
	return out
}

// end completes the piece of the small files that wait for one.
func (c *Cut) end() (out cutting) {
	if len(c.group) == 0 {
		return out
	}
	segments, off := make([]Segment, 0, len(c.group)), int64(0)
	for _, e := range c.group {
		segments = append(segments, Segment{e.Name, 0, e.Size})
		out.spots = append(out.spots, spot{e, c.next, off})
		off += e.Size
	}
	out.pieces = append(out.pieces, c.piece(segments))
	c.group, c.size = nil, 0
	return out
}

func (c *Cut) piece(s []Segment) Piece {
	c.next++
	return Piece{c.next - 1, s}
}
