package swarm

import (
	"context"
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
	direct io.ReadCloser // of the source, from off on; the swarm has failed
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) {
	if r.off >= r.end {
		r.release()
		return 0, io.EOF
	}
	if r.direct == nil && len(r.data) == 0 {
		if err := r.next(); err != nil {
			return 0, err
		}
	}
	if r.direct != nil {
		n, err := r.direct.Read(p)
		r.off += int64(n)
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
	index, within := at.first, at.off+r.off
	if at.entry.Size > bytes { // it has pieces of its own
		index, within = at.first+int(r.off/bytes), r.off%bytes
	}
	if p, known := s.tree.piece(index); known {
		r.slot, err = s.get(r.ctx, p)
		s.prefetch(index)
		if err == nil {
			r.data = r.slot.data[within:]
			return nil
		}
		r.slot = nil
	}
	if r.ctx.Err() != nil {
		return context.Cause(r.ctx)
	}
	r.direct, err = r.content.direct(r.ctx, r.off, r.end-r.off)
	return err
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
