package mem

import (
	"sort"

	"github.com/minio/crc64nvme"

	"datamove.dev/mover"
)

// blob is the content of a file: the stored runs of bytes in order, holes
// between them. It is never changed once it is made.
type blob struct {
	size int64
	runs []run
}

type run struct {
	off  int64
	data []byte
}

func (r run) end() int64 { return r.off + int64(len(r.data)) }

// bytesBlob is a content without holes.
func bytesBlob(data []byte) blob {
	if len(data) == 0 {
		return blob{}
	}
	return blob{int64(len(data)), []run{{0, data}}}
}

// readAt fills p from off; it returns fewer bytes only at the end.
func (b blob) readAt(p []byte, off int64) int {
	p = p[:min(int64(len(p)), max(0, b.size-off))]
	clear(p)
	for _, r := range b.runs[b.after(off):] {
		if r.off >= off+int64(len(p)) {
			break
		}
		if skip := off - r.off; skip > 0 {
			copy(p, r.data[skip:])
		} else {
			copy(p[-skip:], r.data)
		}
	}
	return len(p)
}

// after is the index of the first run that ends behind off.
func (b blob) after(off int64) int {
	return sort.Search(len(b.runs), func(i int) bool { return b.runs[i].end() > off })
}

// segment is the next run at or after off, joined with those it touches.
func (b blob) segment(off int64) mover.Segment {
	i := b.after(off)
	if i == len(b.runs) {
		return mover.Segment{Start: b.size, End: b.size}
	}
	s := mover.Segment{Start: max(off, b.runs[i].off), End: b.runs[i].end()}
	for _, r := range b.runs[i+1:] {
		if r.off > s.End {
			break
		}
		s.End = r.end()
	}
	return s
}

func (b blob) segments() []mover.Segment {
	var all []mover.Segment
	for off := int64(0); off < b.size; {
		s := b.segment(off)
		if s.Start < s.End {
			all = append(all, s)
		}
		off = s.End
	}
	return all
}

func (b blob) stored() int64 {
	var n int64
	for _, r := range b.runs {
		n += int64(len(r.data))
	}
	return n
}

// overwrite returns a blob with data at off, grown if need be.
func (b blob) overwrite(off int64, data []byte) blob {
	all := make([]byte, max(b.size, off+int64(len(data))))
	b.readAt(all, 0)
	copy(all[off:], data)
	return bytesBlob(all)
}

// truncate returns the first size bytes.
func (b blob) truncate(size int64) blob {
	all := make([]byte, min(size, b.size))
	b.readAt(all, 0)
	return bytesBlob(all)
}

func (b blob) crc() uint64 {
	h := crc64nvme.New()
	buf := make([]byte, 64<<10)
	for off := int64(0); off < b.size; {
		n := b.readAt(buf, off)
		h.Write(buf[:n])
		off += int64(n)
	}
	return h.Sum64()
}
