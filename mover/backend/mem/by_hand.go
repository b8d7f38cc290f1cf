package mem

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// Put makes an entry of any kind with the facts of e that are Known, and the
// directories above it. What had its name is replaced; a directory keeps what is
// in it. Size and identity are the tree's own. A file and a directory of one name
// do not replace each other, as in a bucket: Delete the one before.
func (t *Tree) Put(e mover.Entry, content []byte) *Tree {
	if !mover.ValidName(e.Name) {
		panic(fmt.Sprintf("mem: Put of the bad name %q", e.Name))
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.findKind(e.Name, e.Kind)
	if n == nil || e.Kind != mover.Dir {
		n = t.newNode(e.Kind)
		n.blob = bytesBlob(slices.Clone(content))
		n.entry.Size = n.blob.size
		n.entry.Target, n.entry.Rdev = e.Target, e.Rdev
		dir, base := mover.Parent(e.Name)
		t.link(t.makeDirs(dir), base, n)
	}
	t.setFacts(n.inode, &e, e.Known)
	return t
}

// Files makes files with the given contents; a name that ends in '/' makes a directory.
func (t *Tree) Files(contents map[string]string) *Tree {
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		content := contents[name]
		if dir, ok := strings.CutSuffix(name, "/"); ok {
			t.Put(mover.Entry{Name: dir, Kind: mover.Dir}, nil)
		} else {
			t.Put(mover.Entry{Name: name, Kind: mover.File}, []byte(content))
		}
	}
	return t
}

// Sparse makes a file of size bytes, all holes but for the given data by offset.
func (t *Tree) Sparse(name string, size int64, data map[int64]string) *Tree {
	b := blob{size: size}
	for off, d := range data {
		b.runs = append(b.runs, run{off, []byte(d)})
	}
	slices.SortFunc(b.runs, func(x, y run) int { return int(min(1, max(-1, x.off-y.off))) })
	t.Put(mover.Entry{Name: name, Kind: mover.File}, nil)
	t.change(name, func(n *node) { n.blob = b })
	return t
}

// Link makes another name of the file that old names.
func (t *Tree) Link(old, name string) *Tree {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.mustFind(old)
	dir, base := mover.Parent(name)
	t.link(t.makeDirs(dir), base, &node{inode: n.inode})
	n.entry.Ctime = t.now()
	return t
}

// Overwrite writes into an existing file in place, as a program does that has no
// regard for movers. It grows the file if need be.
func (t *Tree) Overwrite(name string, off int64, data string) {
	t.change(name, func(n *node) { n.blob = n.blob.overwrite(off, []byte(data)) })
}

// Truncate shortens a file in place.
func (t *Tree) Truncate(name string, size int64) {
	t.change(name, func(n *node) { n.blob = n.blob.truncate(size) })
}

// Delete removes a name and everything below it.
func (t *Tree) Delete(name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unlink(name, t.mustFind(name))
}

// Rename gives an entry another name, in place of what had it.
func (t *Tree) Rename(old, name string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.mustFind(old)
	t.unlink(old, n)
	dir, base := mover.Parent(name)
	t.link(t.makeDirs(dir), base, n)
}

// Content returns the bytes of a file, and whether there is such a file.
func (t *Tree) Content(name string) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.findKind(name, mover.File)
	if n == nil || n.entry.Kind != mover.File {
		return "", false
	}
	all := make([]byte, n.blob.size)
	n.blob.readAt(all, 0)
	return string(all), true
}

// Drafts returns the tokens of all drafts that were neither published nor dropped.
func (t *Tree) Drafts() []mover.Token {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []mover.Token
	for token := range t.drafts {
		all = append(all, token)
	}
	slices.Sort(all)
	return all
}

func (t *Tree) change(name string, do func(*node)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := t.mustFind(name)
	do(n)
	t.inodes++
	n.version = t.inodes
	n.entry.Size = n.blob.size
	t.touch(n)
}

func (t *Tree) mustFind(name string) *node {
	n := t.find(name)
	if n == nil {
		panic(fmt.Sprintf("mem: there is no %q", name))
	}
	return n
}

func (t *Tree) makeDirs(dir string) *node {
	if n := t.findDir(dir); n != nil {
		return n
	}
	above, base := mover.Parent(dir)
	n := t.newNode(mover.Dir)
	t.link(t.makeDirs(above), base, n)
	return n
}
