package catalog

import (
	"encoding/binary"
	"fmt"

	"datamove.dev/mover"
)

// Keys begin with what they are. Numbers are big-endian, so that they sort.
const (
	keyFormat = 'a' // -> the format of the store
	keyNumber = 'b' // -> the first number that no folder has been given yet
	keyTree   = 't' // name -> State
	keyMark   = 'm' // tree, feed -> mark
	keyChild  = 'c' // parent folder, name -> folder
	keyFolder = 'd' // folder, part -> the part of it
	keyGone   = 'g' // folder -> nothing: it is in no tree any more, and its parts have to be removed still
)

// Parts of a folder. A page is named by its bound, the name that sorts last in it. So the first page with a bound that is not
// before a name is where that name is, or has to go. The last page has no bound.
const (
	partRecord = iota
	partBounded
	partLast
)

// number is that of a folder; 0 is none.
type number uint64

func numbered(what byte, n number, more int) []byte {
	return binary.BigEndian.AppendUint64(append(make([]byte, 0, 9+more), what), uint64(n))
}

func goneKey(n number) []byte { return numbered(keyGone, n, 0) }

func childKey(parent number, base string) []byte {
	return append(numbered(keyChild, parent, len(base)), base...)
}

func recordKey(n number) []byte { return append(numbered(keyFolder, n, 1), partRecord) }

func pageKey(n number, b bound) []byte {
	if b.last {
		return append(numbered(keyFolder, n, 1), partLast)
	}
	return append(append(numbered(keyFolder, n, 1+len(b.name)), partBounded), b.name...)
}

func numberOf(key []byte) number { return number(binary.BigEndian.Uint64(key[1:9])) }

// bound is up to which name a page goes.
type bound struct {
	name string // as it sorts
	last bool   // there is none
}

func boundOf(key []byte) bound {
	if key[9] == partLast {
		return bound{last: true}
	}
	return bound{name: string(key[10:])}
}

// holds reports whether a name, as it sorts, is not behind the bound.
func (b bound) holds(name string) bool { return b.last || name <= b.name }

// sorting is a name as it sorts in its folder: that of a directory ends in '/'. See mover.Compare.
func sorting(base string, kind mover.Kind) string {
	if kind == mover.Dir {
		return base + "/"
	}
	return base
}

// record says where a folder is. That of a root has no parent, and its tree as its name; that of one that is gone has neither.
type record struct {
	parent number
	base   string
	// unread says that the directory was found, and what is in it not read to its end.
	unread bool
}

func (r record) bytes() []byte {
	n := uint64(r.parent) << 1
	if r.unread {
		n |= 1
	}
	return append(binary.AppendUvarint(nil, n), r.base...)
}

func readRecord(b []byte) (record, error) {
	n, size := binary.Uvarint(b)
	if size <= 0 {
		return record{}, fmt.Errorf("%w: a record of a folder of %d bytes", mover.ErrCorrupt, len(b))
	}
	return record{number(n >> 1), string(b[size:]), n&1 != 0}, nil
}
