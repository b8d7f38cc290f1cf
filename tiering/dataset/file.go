package dataset

import (
	"math"

	"datamove.dev/mover"
)

// File is what is known of one name in a tier: what the catalog keeps, and what policies decide by. Names are raw
// bytes, and hostile.
type File struct {
	Dir, Base string // its directory below the root of the tier, and its last segment
	Kind      mover.Kind
	Known     mover.Facts // which of the fields below are facts; Size, Stored and Seen are always

	Size   int64 // bytes of content; 0 unless a file
	Stored int64 // bytes that are allocated
	Mode   uint32
	UID    uint32
	GID    uint32
	Links  uint32 // names of its inode
	Ino    uint64

	// ns since 1970, the nearest that there is. Of Atime whole seconds are kept.
	Mtime, Atime, Ctime int64

	Seen int64  // s since 1970: when it was first seen
	ETag string // of an object
}

// Name is the whole name, from the root of the tier.
func (f *File) Name() string { return mover.Join(f.Dir, f.Base) }

// kept are the facts that a File has.
const kept = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime | mover.FactCtime | mover.FactLinks

// FileOf is what is kept of an entry that was seen at a time, in s since 1970.
func FileOf(e *mover.Entry, seen int64) File {
	f := File{Kind: e.Kind, Known: e.Known & kept, Size: e.Size, Stored: e.Stored, Mode: e.Mode, UID: e.UID, GID: e.GID,
		Links: e.Nlink, Ino: e.Ino, Mtime: Nanos(e.Mtime), Atime: Nanos(e.Atime), Ctime: Nanos(e.Ctime), Seen: seen, ETag: e.ETag}
	f.Dir, f.Base = mover.Parent(e.Name)
	f.Atime -= f.Atime % 1e9
	return f
}

// Proven is a file without times that are no facts. A listing has the time at which an object came. A look at the single object may not have it.
func (f File) Proven() File {
	if !f.Known.Has(mover.FactMtime) {
		f.Mtime = 0
	}
	if !f.Known.Has(mover.FactAtime) {
		f.Atime = 0
	}
	if !f.Known.Has(mover.FactCtime) {
		f.Ctime = 0
	}
	return f
}

const second = int64(1e9) // ns

// Nanos is a time in ns since 1970; what is out of range becomes the nearest that is in it (1678 to 2262).
func Nanos(t mover.Time) int64 {
	switch {
	case t.Sec >= math.MaxInt64/second:
		return math.MaxInt64
	case t.Sec <= math.MinInt64/second:
		return math.MinInt64
	}
	return t.Sec*second + int64(t.Nsec)
}
