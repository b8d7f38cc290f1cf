package p2p

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math/bits"

	"datamove.dev/mover"
)

// Segment is a range of one file.
type Segment struct {
	Name        string // as in the walk
	Off, Length int64  // bytes; Length is more than 0
}

// Piece is what members give each other at once.
type Piece struct {
	Index    int       // in the order of the walk, from 0
	Segments []Segment // in the order of the walk
}

// Limits of a piece.
const (
	PieceMost    = 2 << 20 // bytes
	pieceMin     = 64 << 10
	segmentsMost = 512
	piecesMeant  = 8192 // of a tree that is neither small nor large
	indexMost    = 1 << 32
)

// PieceBytes is how large the pieces of a tree of so many bytes are, but for the last one of a file: small enough
// that each of many members is the home of some, large enough that few of them have to be asked for.
func PieceBytes(treeBytes int64) int64 {
	n := max(treeBytes/piecesMeant, 1)
	return min(max(int64(1)<<bits.Len64(uint64(n-1)), pieceMin), PieceMost)
}

// Bytes is how many there are in the piece.
func (p *Piece) Bytes() (n int64) {
	for _, s := range p.Segments {
		n += s.Length
	}
	return n
}

// Key tells pieces of one tree apart, also those of members that do not cut alike.
type Key struct {
	Index int
	Sum   uint64 // of the segments
}

// Key is that of the piece.
func (p *Piece) Key() Key {
	h := fnv.New64a()
	var b [16]byte
	for _, s := range p.Segments {
		_, _ = h.Write([]byte(s.Name))
		binary.LittleEndian.PutUint64(b[:], uint64(s.Off))
		binary.LittleEndian.PutUint64(b[8:], uint64(s.Length))
		_, _ = h.Write(b[:])
	}
	return Key{p.Index, h.Sum64()}
}

// twin is that of the same piece, which comes another way.
func (k Key) twin() Key { return Key{k.Index, ^k.Sum} }

// Check says what is wrong with a piece that another member asks for.
func (p *Piece) Check() error {
	if p.Index < 0 || p.Index > indexMost || len(p.Segments) == 0 || len(p.Segments) > segmentsMost {
		return fmt.Errorf("%w: a piece of %d segments at %d", mover.ErrUsage, len(p.Segments), p.Index)
	}
	left := int64(PieceMost)
	for _, s := range p.Segments {
		if s.Name == "" || !mover.ValidName(s.Name) || s.Off < 0 || s.Length <= 0 || s.Length > left || s.Off > 1<<62 {
			return fmt.Errorf("%w: a piece with %d bytes at %d of %s", mover.ErrUsage, s.Length, s.Off, mover.Printable(s.Name))
		}
		left -= s.Length
	}
	return nil
}
