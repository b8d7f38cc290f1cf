package backendtest

import (
	"bytes"
	"io"

	"github.com/minio/crc64nvme"

	"datamove.dev/mover"
)

// Feed is a mover.Feed over bytes in memory, with holes.
//
// Read stops before a hole once Hole was called, because then the target keeps
// holes; a target that never calls it reads zeros.
type Feed struct {
	data     []byte
	holes    []mover.Segment // in order, zeros in data
	off      int64
	sees     bool  // the target asks for holes
	breakAt  int64 // Read fails with breakErr here, when that is not nil
	breakErr error
}

var _ mover.Feed = (*Feed)(nil)

// NewFeed feeds data, in which the given segments are holes.
func NewFeed(data []byte, holes ...mover.Segment) *Feed { return &Feed{data: data, holes: holes} }

// BreakAt makes the feed fail with err at an offset, each time.
func (f *Feed) BreakAt(off int64, err error) *Feed {
	f.breakAt, f.breakErr = off, err
	return f
}

// Read implements mover.Feed.
func (f *Feed) Read(p []byte) (int, error) {
	end := int64(len(f.data))
	if f.breakErr != nil {
		end = min(end, f.breakAt)
	}
	if f.breakErr != nil && f.off >= end {
		return 0, f.breakErr
	}
	if f.off == end {
		return 0, io.EOF
	}
	if f.sees {
		end = min(end, f.nextHole())
	}
	n := copy(p, f.data[f.off:end])
	f.off += int64(n)
	return n, nil
}

// nextHole is where the next hole behind the current byte begins.
func (f *Feed) nextHole() int64 {
	for _, h := range f.holes {
		if h.Start > f.off {
			return h.Start
		}
	}
	return int64(len(f.data))
}

// Hole implements mover.Feed.
func (f *Feed) Hole() int64 {
	f.sees = true
	for _, h := range f.holes {
		if h.Start <= f.off && f.off < h.End {
			n := h.End - f.off
			f.off = h.End
			return n
		}
	}
	return 0
}

// Sum implements mover.Feed.
func (f *Feed) Sum() uint64 { return crc64nvme.Checksum(f.data[:f.off]) }

// Rewind implements mover.Feed.
func (f *Feed) Rewind() error {
	f.off = 0
	return nil
}

// sparse returns contents of size bytes that are zero outside data.
func sparse(size int64, data ...mover.Segment) []byte {
	all := make([]byte, size)
	for _, s := range data {
		copy(all[s.Start:s.End], bytes.ReplaceAll(Pattern(s.End-s.Start), []byte{0}, []byte{1}))
	}
	return all
}
