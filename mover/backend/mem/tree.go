package mem

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"datamove.dev/mover"
)

// Tree is a medium in memory. Its methods are what a user of the machine does
// beside the mover: make files, change them underneath, look at them. They panic
// when the caller asks for what can not be, as a test should not go on then.
type Tree struct {
	dev   uint64 // of this tree only
	folds bool   // names are compared without case

	mu     sync.Mutex // guards all below
	root   *node
	ticks  int64 // changes so far: the clock
	inodes uint64
	temps  uint64 // temporary names given
	drafts map[mover.Token]*drafted
	locks  map[string]*lock // by the name of the entry; "" is the whole tree
}

// node is one name. The names of a hard link share an inode.
type node struct {
	*inode
	// children of a directory by their last segment, those of directories with '/'
	// behind it: sorted, they are in the order of a walk.
	children map[string]*node
	implied  bool // an object store's directory that has no object of its own
}

// inode is what names lead to.
type inode struct {
	entry   mover.Entry // without Name and Nlink
	blob    blob
	version uint64 // changes with the content
	links   uint32
}

var trees atomic.Uint64

// NewTree returns an empty tree.
func NewTree() *Tree {
	t := &Tree{dev: trees.Add(1), drafts: map[mover.Token]*drafted{}, locks: map[string]*lock{}}
	t.root = t.newNode(mover.Dir)
	t.root.links = 1
	return t
}

// Fold has the tree compare names without case, as exFAT does, and keep them as they were given. It is called before
// anything else.
func (t *Tree) Fold() *Tree {
	t.folds = true
	return t
}

// key is the key of a child, or of the one that the tree takes for it.
func (t *Tree) key(dir *node, key string) string {
	if dir.children[key] != nil || !t.folds {
		return key
	}
	for other := range dir.children {
		if strings.EqualFold(other, key) {
			return other
		}
	}
	return key
}

// child is the child that has a key.
func (t *Tree) child(dir *node, key string) *node { return dir.children[t.key(dir, key)] }

// namesake is an error when a new name would be taken for another one that is there.
func (t *Tree) namesake(dir *node, base string) error {
	for _, key := range []string{base, base + "/"} {
		if other := t.key(dir, key); other != key {
			return mover.Namesake(strings.TrimSuffix(other, "/"))
		}
	}
	return nil
}

// now moves the clock by a microsecond.
func (t *Tree) now() mover.Time {
	t.ticks++
	return mover.Time{Sec: 1_000_000_000 + t.ticks/1e6, Nsec: int32(t.ticks % 1e6 * 1e3)}
}

func (t *Tree) newNode(k mover.Kind) *node {
	t.inodes++
	now := t.now()
	in := &inode{version: t.inodes, entry: mover.Entry{
		Kind: k, Known: keepsAll&^mover.FactsOfObject | mover.FactCtime | mover.FactXattrs | mover.FactLinks,
		Mode: defaultMode(k), Mtime: now, Atime: now, Ctime: now,
		Dev: t.dev, Ino: t.inodes, Gen: 1,
	}}
	n := &node{inode: in}
	if k == mover.Dir {
		n.children = map[string]*node{}
	}
	if k == mover.File {
		in.entry.Known |= mover.FactHoles
	}
	return n
}

func defaultMode(k mover.Kind) uint32 {
	switch k {
	case mover.Dir:
		return 0o755
	case mover.Symlink:
		return 0o777
	}
	return 0o644
}

// setFacts gives in the facts of e that are known and kept.
func (t *Tree) setFacts(in *inode, e *mover.Entry, keeps mover.Facts) {
	copyFacts(&in.entry, e, e.Known&keeps)
	if in.entry.Kind == mover.Symlink {
		in.entry.Mode = 0o777
	}
	in.entry.Ctime = t.now()
}

// copyFacts gives to those facts of from that which names.
func copyFacts(to, from *mover.Entry, which mover.Facts) {
	to.Take(from, which&(mover.FactMode|mover.FactOwner|mover.FactGroup|mover.FactMtime|mover.FactAtime|mover.FactXattrs|mover.FactsOfObject))
	to.Xattrs = slices.Clone(to.Xattrs)
	to.Known |= which &^ (mover.FactHoles | mover.FactCRC)
}

// find returns the node of a name, nil when there is none. No symlink is followed.
func (t *Tree) find(name string) *node {
	if n := t.findKind(name, mover.File); n != nil {
		return n
	}
	return t.findDir(name)
}

func (t *Tree) findDir(name string) *node {
	n := t.root
	for seg := range strings.SplitSeq(name, "/") {
		if n == nil || name == "" {
			return n
		}
		n = t.child(n, seg+"/")
	}
	return n
}

// findKind returns the node of a directory, or of anything else.
func (t *Tree) findKind(name string, k mover.Kind) *node {
	if k == mover.Dir || name == "" {
		return t.findDir(name)
	}
	dir, base := mover.Parent(name)
	if n := t.findDir(dir); n != nil {
		return t.child(n, base)
	}
	return nil
}

// blocked reports whether some directory of the path is something else.
func (t *Tree) blocked(dir string) bool {
	for ; dir != ""; dir, _ = mover.Parent(dir) {
		if t.findKind(dir, mover.File) != nil {
			return true
		}
	}
	return false
}

// absent is why there is no such node.
func (t *Tree) absent(name string) error {
	if t.find(name) != nil {
		return fmt.Errorf("of another kind now: %w", mover.ErrChanged)
	}
	return mover.ErrNotExist
}

// imply returns the directory, which an object store need not have made.
func (t *Tree) imply(dir string) *node {
	if n := t.findDir(dir); n != nil {
		return n
	}
	above, base := mover.Parent(dir)
	n := t.newNode(mover.Dir)
	n.implied = true
	t.link(t.imply(above), base, n)
	return n
}

// link puts n into a directory, in place of what had its name.
func (t *Tree) link(parent *node, base string, n *node) {
	if n.entry.Kind == mover.Dir {
		base += "/"
	}
	if old := parent.children[base]; old != nil {
		old.links--
		old.entry.Ctime = t.now()
	}
	n.links++
	parent.children[base] = n
	t.touch(parent)
}

func (t *Tree) unlink(name string, n *node) {
	dir, base := mover.Parent(name)
	parent := t.findDir(dir)
	if n.entry.Kind == mover.Dir {
		base += "/"
	}
	delete(parent.children, t.key(parent, base))
	n.links--
	n.entry.Ctime = t.now()
	t.touch(parent)
	if parent.implied && len(parent.children) == 0 {
		t.unlink(dir, parent)
	}
}

// touch records that the contents of a directory changed.
func (t *Tree) touch(dir *node) {
	now := t.now()
	dir.entry.Mtime, dir.entry.Ctime = now, now
}
