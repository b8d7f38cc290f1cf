package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strings"
)

// Kind is what an entry is.
type Kind uint8

// The kinds. What is a pipe, a socket, a device or another file system is Other.
const (
	Other Kind = iota
	File
	Dir
	Link
)

// Entry is something in a directory, as it looked.
type Entry struct {
	Name     string // with slashes, from the directory that was read
	Kind     Kind
	Size     int64
	Inode    uint64
	Modified int64 // ns
	Changed  int64 // ns; no call can set it
}

// Tree is what was in a directory.
type Tree struct {
	Entries []Entry           // sorted by name, bytewise
	Texts   map[string]string // the beginning of small files directly in it, and where links lead
	Commits map[string]Commit // by set: what its [Committed] says
	Loose   bool              // times of files are those of a store, when they came to be there

	looks bool // files of a set are looked into, too: they say of how many ranks it is, and not the names in another one
}

// under are the entries of something directly in the tree: itself, and what is in it.
func (t Tree) under(name string) []Entry {
	i, found := slices.BinarySearchFunc(t.Entries, name, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
	if !found {
		return nil
	}
	// "a", "a-b", "a/c": other names may stand between.
	below := name + "/"
	j, _ := slices.BinarySearchFunc(t.Entries, below, func(e Entry, name string) int { return cmp.Compare(e.Name, name) })
	k := j
	for k < len(t.Entries) && strings.HasPrefix(t.Entries[k].Name, below) {
		k++
	}
	return append([]Entry{t.Entries[i]}, t.Entries[j:k]...)
}

// top are the entries directly in the tree.
func (t Tree) top() (all []Entry) {
	for _, e := range t.Entries {
		if !strings.Contains(e.Name, "/") {
			all = append(all, e)
		}
	}
	return all
}

// Print is what a set looks like. That of nothing is the zero one.
type Print [16]byte

func (p Print) String() string { return hex.EncodeToString(p[:]) }

// Print is that of something directly in the tree, and of all that is in it.
func (t Tree) Print(name string) Print { return printOf(t.under(name), true) }

// printOf is the print of entries: of all that is known, or of the files alone without what a change of owner or rights changes, too.
func printOf(entries []Entry, all bool) (p Print) {
	if len(entries) == 0 {
		return p
	}
	h := sha256.New()
	for _, e := range entries {
		if !all && e.Kind == Dir {
			continue
		}
		if !all {
			e.Changed = 0
		}
		b := binary.AppendUvarint(nil, uint64(len(e.Name)))
		b = append(b, e.Name...)
		for _, n := range []uint64{uint64(e.Kind), uint64(e.Size), e.Inode, uint64(e.Modified), uint64(e.Changed)} {
			b = binary.BigEndian.AppendUint64(b, n)
		}
		h.Write(b)
	}
	copy(p[:], h.Sum(nil))
	return p
}

// Prints are those of everything directly in the tree.
func (t Tree) Prints() map[string]Print {
	all := map[string]Print{}
	for _, e := range t.top() {
		all[e.Name] = t.Print(e.Name)
	}
	return all
}

// Written is when something directly in the tree was written. ns.
func (t Tree) Written(name string) int64 {
	e := t.under(name)
	if e == nil {
		return 0
	}
	return e[0].Modified
}

// IsLink says whether a name in the tree is a link.
func (t Tree) IsLink(name string) bool {
	e := t.under(name)
	return e != nil && e[0].Kind == Link
}
