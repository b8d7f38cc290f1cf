package posix

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sort"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// listBytes is the buffer of one getdents64. Network file systems fill it in one
// round trip; local ones take a call per some thousand names.
const listBytes = 256 << 10

var listBuffers = sync.Pool{New: func() any { return new([listBytes]byte) }}

// record is one name of a listing: where it is in the arena, and what the
// directory says that it is.
type record struct {
	off  uint32
	len  uint8
	kind mover.Kind
}

// listing is what one directory contains, in 8 bytes and the name for each entry, so
// that even a directory of a million names is some 30 MB.
type listing struct {
	arena   []byte // names, each with a terminating zero for the kernel
	records []record
	lazy    int  // flag of statx(2) for what servers need not be asked
	xattrs  bool // extended attributes are wanted
	place   *Backend
}

func (l *listing) name(r record) []byte { return l.arena[r.off : r.off+uint32(r.len)] }

func (l *listing) pointer(r record) *byte { return &l.arena[r.off] }

// compare is mover.CompareNames for two records.
func (l *listing) compare(a, b record) int {
	x, y := l.name(a), l.name(b)
	n := min(len(x), len(y))
	if c := bytes.Compare(x[:n], y[:n]); c != 0 {
		return c
	}
	switch {
	case len(x) < len(y):
		return shorterFirst(a.kind == mover.Dir, y[n])
	case len(x) > len(y):
		return -shorterFirst(b.kind == mover.Dir, x[n])
	}
	return 0
}

// shorterFirst compares a name with a longer one that begins with it and goes on
// with next. A directory goes on with a '/'.
func shorterFirst(dir bool, next byte) int {
	if dir && next < '/' {
		return 1
	}
	return -1
}

// direntKinds are the types of getdents64 (DT_*). DT_UNKNOWN is not among them.
var direntKinds = [16]mover.Kind{
	unix.DT_REG: mover.File, unix.DT_DIR: mover.Dir, unix.DT_LNK: mover.Symlink, unix.DT_FIFO: mover.FIFO,
	unix.DT_SOCK: mover.Socket, unix.DT_CHR: mover.CharDevice, unix.DT_BLK: mover.BlockDevice,
}

// list calls each for every name in the directory fd, but "." and "..". The name
// is valid during the call.
func list(fd int, each func(name []byte, kind mover.Kind) error) error {
	buffer := listBuffers.Get().(*[listBytes]byte)
	defer listBuffers.Put(buffer)
	for {
		n, err := unix.Getdents(fd, buffer[:])
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			return err
		}
		if err := parse(buffer[:n], each); err != nil {
			return err
		}
	}
}

// headBytes are the inode, offset, length and type before a name: struct
// linux_dirent64 in getdents(2).
const headBytes = 19

func parse(b []byte, each func(name []byte, kind mover.Kind) error) error {
	for len(b) > headBytes {
		length := int(binary.NativeEndian.Uint16(b[16:]))
		if length <= headBytes || length > len(b) {
			return unix.EUCLEAN // a file system, or its server, that is broken
		}
		name := b[headBytes:length]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		kind := direntKinds[b[18]&15]
		b = b[length:]
		if string(name) == "." || string(name) == ".." {
			continue
		}
		if len(name) == 0 || len(name) > 255 || bytes.IndexByte(name, '/') >= 0 {
			return unix.EUCLEAN // the kernel would follow it elsewhere
		}
		if err := each(name, kind); err != nil {
			return err
		}
	}
	return nil
}

// readNames returns all names in a directory.
func readNames(fd int) ([]string, error) {
	var names []string
	err := list(fd, func(name []byte, _ mover.Kind) error {
		names = append(names, string(name))
		return nil
	})
	return names, err
}

// add appends a name.
func (l *listing) add(name []byte, kind mover.Kind) error {
	if len(l.arena)+len(name) >= math.MaxUint32 {
		return fmt.Errorf("%w: 4 GiB of names in one directory", mover.ErrUnsupported)
	}
	l.records = append(l.records, record{uint32(len(l.arena)), uint8(len(name)), kind})
	l.arena = append(append(l.arena, name...), 0)
	return nil
}

// tell finds out what the entries are of which the directory did not say it: the
// order depends on it. Those that are gone are left out.
func (l *listing) tell(fd int) error {
	var st unix.Statx_t
	kept := l.records[:0]
	for _, r := range l.records {
		if r.kind == 0 {
			err := kernel.StatxAt(fd, l.pointer(r), unix.AT_STATX_DONT_SYNC, &st) // kinds do not change
			if err == unix.ENOENT {
				continue
			}
			if err != nil {
				return err
			}
			r.kind = kernel.KindOf(st.Mode)
		}
		kept = append(kept, r)
	}
	l.records = kept
	return nil
}

// sort brings the records into the order of the walk, each name once: a directory
// that is changed while it is read may be listed with a name twice.
func (l *listing) sort() {
	slices.SortFunc(l.records, l.compare)
	l.records = slices.CompactFunc(l.records, func(a, b record) bool {
		return bytes.Equal(l.name(a), l.name(b))
	})
}

// trim leaves only what comes behind the path after, relative to the directory.
// inner reports that the first record is the directory that after leads into, or
// is: it was walked before, but some of what it contains was not, namely what is
// behind rest.
func (l *listing) trim(after string) (rest string, inner bool) {
	seg, rest, dir := strings.Cut(after, "/")
	i := sort.Search(len(l.records), func(i int) bool {
		r := l.records[i]
		return mover.CompareNames(l.string(r), r.kind == mover.Dir, seg, dir) >= 0
	})
	l.records = l.records[i:]
	if len(l.records) == 0 || string(l.name(l.records[0])) != seg || (l.records[0].kind == mover.Dir) != dir {
		return "", false
	}
	if dir {
		return rest, true
	}
	l.records = l.records[1:]
	return "", false
}

// string is the name of r without a copy. It is valid as long as the arena is.
func (l *listing) string(r record) string {
	return unsafe.String(l.pointer(r), int(r.len))
}

// chunkLen is how many entries are examined at once. They share one string
// for their names, so it is also what one kept name may hold in memory.
const chunkLen = 256

// examine fills entries with what the records from lo on are. One that is gone by
// now is left without a kind.
func (l *listing) examine(fd int, dir string, lo int, entries []mover.Entry) error {
	records := l.records[lo : lo+len(entries)]
	names := l.paths(dir, records)
	var st unix.Statx_t
	for i, r := range records {
		n := len(dir) + int(r.len)
		if dir != "" {
			n++
		}
		e := &entries[i]
		*e = mover.Entry{Name: names[:n]}
		names = names[n:]
		err := kernel.StatxAt(fd, l.pointer(r), l.lazy, &st)
		if err == unix.ENOENT {
			continue
		}
		if err != nil {
			return err
		}
		kernel.Fill(e, &st)
		e.Elsewhere = l.place.elsewhere(&st)
		e.Brief = true // the extended attributes are one more call
		if (e.Kind == mover.Dir) != (r.kind == mover.Dir) {
			return fmt.Errorf("%w: %s was a %v and is a %v", mover.ErrChanged, mover.Printable(e.Name), r.kind, e.Kind)
		}
		if e.Kind == mover.Symlink {
			if err := l.follow(fd, r, e); err != nil {
				return err
			}
		}
		if l.xattrs && e.Kind != 0 {
			l.attributes(fd, r, e)
		}
	}
	return nil
}

// attributes reads the extended attributes of an entry; nearly all entries have none. After an error they stay unknown: a caller that
// needs them looks at the entry, and gets the error there.
func (l *listing) attributes(fd int, r record, e *mover.Entry) {
	var small [256]byte
	n, err := kernel.ListxattrAt(fd, l.pointer(r), small[:])
	if n > 0 || err != nil && err != unix.EOPNOTSUPP { // ENOSYS is of the call, and says nothing of the file system
		all, err := xattrs.Read(spot{fd: fd, base: l.string(r)}.attributes())
		if err != nil {
			return
		}
		e.SetXattrs(all)
	}
	e.Known |= mover.FactXattrs
}

// follow reads where a symlink leads.
func (l *listing) follow(fd int, r record, e *mover.Entry) (err error) {
	e.Target, err = kernel.Readlink(fd, l.string(r), e.Size)
	e.Size = 0
	if err == unix.ENOENT || err == unix.EINVAL { // gone, or no longer a symlink
		*e, err = mover.Entry{}, nil
	}
	return err
}

// paths joins the names of records to the directory, one behind the other.
func (l *listing) paths(dir string, records []record) string {
	size := 0
	for _, r := range records {
		size += len(dir) + 1 + int(r.len)
	}
	var b strings.Builder
	b.Grow(size)
	for _, r := range records {
		if dir != "" {
			b.WriteString(dir)
			b.WriteByte('/')
		}
		b.Write(l.name(r))
	}
	return b.String()
}
