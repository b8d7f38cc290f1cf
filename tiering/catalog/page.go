package catalog

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// A page is a run of entries of one folder, in the order of walks, as one value of the store. Each entry is written as what
// differs from the one before: in a folder names, owners, inodes and times resemble each other, and an entry takes some 30
// bytes beside what its name has of its own.
//
//	format, count, then for each entry:
//	flags, shared bytes of the name, other bytes of the name,
//	size [stored] [links] ino mtime ctime atime [known mode uid gid] [seen] [etag]

// pageFormat is the first byte of a page.
const pageFormat = 1

// pageEntries are in a page that a scan makes. What comes later makes pages grow; one that has twice as many is cut.
const pageEntries = 100

// flags of an entry; the lowest three bits are its kind.
const (
	kindBits   = 0x07
	flagOwner  = 1 << 3 // known, mode, uid, gid follow
	flagStored = 1 << 4 // stored follows: it is not the size in whole blocks
	flagLinks  = 1 << 5 // links follow: they are not 1
	flagSeen   = 1 << 6 // seen follows
	flagETag   = 1 << 7
	flagEnd    = 1 << 8
	storedUnit = 4096
	md5Bytes   = 16
	entryLeast = 8 // bytes that an entry takes at least
)

// blocks is what a file of a size takes, as most file systems store it.
func blocks(size int64) int64 { return (size + storedUnit - 1) / storedUnit * storedUnit }

// appendPage appends the page of some entries of one folder.
func appendPage(b []byte, files []dataset.File) []byte {
	b = append(b, pageFormat)
	b = binary.AppendUvarint(b, uint64(len(files)))
	var last dataset.File
	for i := range files {
		b = appendFile(b, &files[i], &last)
		last = files[i]
	}
	return b
}

func appendFile(b []byte, f, last *dataset.File) []byte {
	flags := uint64(f.Kind) & kindBits
	mark := func(flag uint64, is bool) {
		if is {
			flags |= flag
		}
	}
	mark(flagOwner, f.Known != last.Known || f.Mode != last.Mode || f.UID != last.UID || f.GID != last.GID)
	mark(flagStored, f.Stored != blocks(f.Size))
	mark(flagLinks, f.Links != 1)
	mark(flagSeen, f.Seen != last.Seen)
	mark(flagETag, f.ETag != "")
	b = binary.AppendUvarint(b, flags)

	shared := sharedPrefix(last.Base, f.Base)
	b = binary.AppendUvarint(b, uint64(shared))
	b = binary.AppendUvarint(b, uint64(len(f.Base)-shared))
	b = append(b, f.Base[shared:]...)

	b = binary.AppendUvarint(b, uint64(f.Size))
	if flags&flagStored != 0 {
		b = binary.AppendUvarint(b, uint64(f.Stored))
	}
	if flags&flagLinks != 0 {
		b = binary.AppendUvarint(b, uint64(f.Links))
	}
	b = binary.AppendVarint(b, int64(f.Ino-last.Ino))
	b = binary.AppendVarint(b, f.Mtime-last.Mtime)
	b = binary.AppendVarint(b, f.Ctime-f.Mtime)
	b = binary.AppendVarint(b, f.Atime/1e9-f.Mtime/1e9)
	if flags&flagOwner != 0 {
		for _, n := range []uint32{uint32(f.Known), f.Mode, f.UID, f.GID} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	if flags&flagSeen != 0 {
		b = binary.AppendVarint(b, f.Seen-last.Seen)
	}
	if flags&flagETag != 0 {
		b = appendETag(b, f.ETag)
	}
	return b
}

func sharedPrefix(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// readPage appends the entries of a page to files, each with dir as its directory. The page is not kept.
func readPage(files []dataset.File, page []byte, dir string) ([]dataset.File, error) {
	r := reader{b: page}
	if format := r.byte(); format != pageFormat {
		return files, fmt.Errorf("%w: a page of format %d", mover.ErrCorrupt, format)
	}
	count := r.uvarint()
	if count > uint64(len(page)/entryLeast) {
		return files, fmt.Errorf("%w: a page of %d bytes with %d entries", mover.ErrCorrupt, len(page), count)
	}
	first := len(files)
	files = slices.Grow(files, int(count))
	names := make([]byte, 0, 2*len(page))
	ends := make([]int32, 0, 2*pageEntries)
	last, start := dataset.File{Dir: dir}, 0
	for range count {
		end := len(names)
		names = r.file(&last, names, names[start:end])
		start = end
		ends = append(ends, int32(len(names)))
		files = append(files, last)
	}
	if r.bad || len(r.b) > 0 {
		return files[:first], fmt.Errorf("%w: a page that does not end where its entries do", mover.ErrCorrupt)
	}
	// One string holds all names of a page: a reference to one of them keeps all in memory.
	all, at := string(names), int32(0)
	for i, end := range ends {
		files[first+i].Base = all[at:end]
		at = end
	}
	return files, nil
}

// reader reads numbers; bad says that there was none.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	if len(r.b) == 0 {
		r.bad = true
		return 0
	}
	b := r.b[0]
	r.b = r.b[1:]
	return b
}

func (r *reader) uvarint() uint64 {
	if len(r.b) > 0 && r.b[0] < 0x80 { // most are
		v := r.b[0]
		r.b = r.b[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v := r.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

func (r *reader) bytes(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

// file reads an entry over the one before, and appends its name to names.
func (r *reader) file(f *dataset.File, names, before []byte) []byte {
	flags := r.uvarint()
	f.Kind = mover.Kind(flags & kindBits)
	shared, own := r.uvarint(), r.uvarint()
	if shared > uint64(len(before)) || f.Kind == 0 || flags >= flagEnd {
		r.bad = true
		return names
	}
	names = append(append(names, before[:shared]...), r.bytes(own)...)

	f.Size = int64(r.uvarint())
	f.Stored = blocks(f.Size)
	if flags&flagStored != 0 {
		f.Stored = int64(r.uvarint())
	}
	f.Links = 1
	if flags&flagLinks != 0 {
		f.Links = uint32(r.uvarint())
	}
	f.Ino += uint64(r.varint())
	f.Mtime += r.varint()
	f.Ctime = f.Mtime + r.varint()
	f.Atime = (f.Mtime/1e9 + r.varint()) * 1e9
	if flags&flagOwner != 0 {
		f.Known, f.Mode = mover.Facts(r.uvarint()), uint32(r.uvarint())
		f.UID, f.GID = uint32(r.uvarint()), uint32(r.uvarint())
	}
	if flags&flagSeen != 0 {
		f.Seen += r.varint()
	}
	f.ETag = ""
	if flags&flagETag != 0 {
		f.ETag = r.etag()
	}
	return names
}

// appendETag appends an ETag. Most are 32 hexadecimal digits, and take 16 bytes.
func appendETag(b []byte, etag string) []byte {
	if raw, err := hex.DecodeString(etag); err == nil && len(raw) == md5Bytes && hex.EncodeToString(raw) == etag {
		return append(append(b, 0), raw...)
	}
	b = binary.AppendUvarint(b, uint64(len(etag)))
	return append(b, etag...)
}

func (r *reader) etag() string {
	if n := r.uvarint(); n > 0 {
		return string(r.bytes(n))
	}
	return hex.EncodeToString(r.bytes(md5Bytes))
}
