package p2p

import (
	"context"
	"hash/maphash"
	"io"
)

// reader reads a range of a file, piece by piece. It holds one piece at a time, and none while it asks for the next one.
type reader struct {
	ctx      context.Context
	content  *content
	off, end int64 // in the file

	slot   *slot
	taken  int           // bytes of it
	data   []byte        // of the slot, from off on
	direct io.ReadCloser // of the source, from off on: there is no member to ask, or the swarm has failed
	until  int64         // where to look again for other members; only with direct, as stop
	stop   int64         // it ends
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.off >= r.end {
		r.release()
		return 0, io.EOF
	}
	if r.direct != nil && r.off >= r.until {
		if err := r.turn(); err != nil {
			return 0, err
		}
	}
	if r.direct == nil && len(r.data) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	if r.direct != nil {
		n, err := r.direct.Read(p[:min(int64(len(p)), r.until-r.off)])
		r.off += int64(n)
		r.content.swarm.direct.Add(int64(n))
		return n, err
	}
	n := copy(p[:min(int64(len(p)), r.end-r.off)], r.data)
	r.data, r.off, r.taken = r.data[n:], r.off+int64(n), r.taken+n
	return n, nil
}

// next gets the piece that has the next byte, or turns to the source.
func (r *reader) next() (err error) {
	r.release()
	s, at := r.content.swarm, r.content.spot
	bytes := s.o.PieceBytes
	index, within := r.piece(), at.off+r.off
	if at.entry.Size > bytes {
		within = r.off % bytes
	}
	if p, known := s.tree.piece(index); known && !s.alone(r.ctx, index) {
		r.slot, err = s.get(r.ctx, p)
		s.prefetch(index)
		if err == nil {
			r.data = r.slot.data[within:]
			r.note(within)
			return nil
		}
		r.slot = nil
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.until = r.boundary(index)
	r.stop = r.end
	if r.content.inner == nil { // what a store has begun to send when others come is lost
		r.stop = min(r.until+(directMost-1)*bytes, r.end)
	}
	if err := s.o.Pay(r.ctx, r.until-r.off); err != nil {
		return err
	}
	r.direct, err = r.content.direct(r.ctx, r.off, r.stop-r.off)
	return err
}

// piece is the index of the one that has the next byte.
func (r *reader) piece() int {
	at, bytes := r.content.spot, r.content.swarm.o.PieceBytes
	if at.entry.Size > bytes { // it has pieces of its own
		return at.first + int(r.off/bytes)
	}
	return at.first
}

// note remembers which member gave what is read now, until the file is known to be what it should be.
func (r *reader) note(within int64) {
	if r.slot.from == "" {
		return
	}
	s, at := r.content.swarm, r.content.spot
	g, data := gift{from: r.slot.from, off: r.off - within}, r.slot.data // all of the piece is of this file
	if at.entry.Size <= s.o.PieceBytes {
		g.off, data = 0, data[at.off:at.off+at.entry.Size]
	}
	g.length, g.sum = int64(len(data)), maphash.Bytes(seed, data)
	s.trust.note(at.entry.Name, g)
}

// directMost is how many pieces are asked of a store at once.
const directMost = 4

// boundary is where the piece behind one begins in the file.
func (r *reader) boundary(index int) int64 {
	at, bytes := r.content.spot, r.content.swarm.o.PieceBytes
	if at.entry.Size <= bytes {
		return r.end
	}
	return min(int64(index-at.first+1)*bytes, r.end)
}

// turn goes on with what the source itself gives, as long as no other member is there.
func (r *reader) turn() error {
	if s := r.content.swarm; r.off < r.stop && s.alone(r.ctx, r.piece()) {
		r.until = min(r.until+s.o.PieceBytes, r.stop)
		return s.o.Pay(r.ctx, r.until-r.off)
	}
	_ = r.direct.Close() // nothing was lost
	r.direct = nil
	return nil
}

// release lets go of the piece.
func (r *reader) release() {
	if r.slot != nil {
		r.content.swarm.store.give(r.slot, r.taken)
		r.slot, r.data, r.taken = nil, nil, 0
	}
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.release()
	if r.direct == nil {
		return nil
	}
	return r.direct.Close()
}
