package checkpoint

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"datamove.dev/mover"
)

// op is one thing that a writer does to the disk.
type op struct {
	do   string // mkdir, create (which empties what is there), write, fsync, rename, unlink, rmdir, wait
	name string
	to   string // rename
	data []byte // write: what is added
	wait int64  // ns, before it
}

// script is what one writer does, and what it means sets to have: a state of a set is whole when it is one of these.
type script struct {
	ops   []op
	meant map[string][]content // by set: each save of it
}

// content is what files of a set have, by name in it.
type content map[string]string

func (s *script) do(do, name string) { s.ops = append(s.ops, op{do: do, name: name, wait: 20e6}) }
func (s *script) rename(name, to string) {
	s.ops = append(s.ops, op{do: "rename", name: name, to: to, wait: 20e6})
}
func (s *script) rest(ns int64) { s.ops = append(s.ops, op{do: "wait", wait: ns}) }
func (s *script) write(name string, b []byte) {
	s.ops = append(s.ops, op{do: "write", name: name, data: b, wait: 20e6})
}
func (s *script) whole(set string, c content) { s.meant[set] = append(s.meant[set], maps.Clone(c)) }
func newScript() *script                      { return &script{meant: map[string][]content{}} }
func (s *script) file(name string, b []byte, chunks int, sync bool) {
	s.do("create", name)
	for i := range chunks {
		s.write(name, b[i*len(b)/chunks:(i+1)*len(b)/chunks])
	}
	if sync {
		s.do("fsync", name)
	}
}

// torch is what torch.save writes: an archive of zip.
func torch(what string) []byte {
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	return append([]byte("PK\x03\x04"+strings.Repeat(what+"|", 12)), end...)
}

// torchSays is that of a dictionary with numbers, as pickle writes one with protocol 2, and then the storages.
func torchSays(what string, says ...any) []byte {
	var b bytes.Buffer
	b.WriteString("PK\x03\x04archive/data.pkl\x80\x02}q\x00(")
	for i := 0; i < len(says); i += 2 {
		key, n := says[i].(string), says[i+1].(int)
		fmt.Fprintf(&b, "X%s%sq%c", binary.LittleEndian.AppendUint32(nil, uint32(len(key))), key, byte(i+1))
		switch {
		case strings.HasPrefix(key, "use_"):
			b.WriteByte(byte(0x89 - n))
		case n < 256:
			b.Write([]byte{'K', byte(n)})
		default:
			b.Write([]byte{'M', byte(n), byte(n >> 8)})
		}
	}
	b.WriteString("u.PK\x03\x04archive/data/0" + strings.Repeat(what+"|", 12))
	end := make([]byte, 22)
	copy(end, "PK\x05\x06")
	return append(b.Bytes(), end...)
}

func safetensors(what string) []byte {
	data := strings.Repeat(what, 7)
	head := fmt.Sprintf(`{"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[%d],"data_offsets":[0,%d]}}`, len(data), len(data))
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head+data...)
}

func jsonOf(what string) []byte { return []byte(`{"what":"` + what + `","list":[1,2,3]}`) }

// pickled is the .metadata of a save with these shards.
func pickled(all files, save int) []byte {
	var names []string
	for _, f := range all {
		_, base := split(f.name)
		names = append(names, base)
	}
	of := fmt.Sprint("of save ", save)
	body := strings.TrimPrefix(strings.TrimSuffix(namesPickled(names...), "."), "\x80\x02") + "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(of)))) + of + "0."
	return append(append([]byte("\x80\x04\x95"), binary.LittleEndian.AppendUint64(nil, uint64(len(body)))...), body...)
}

// node is a file or a directory of the disk.
type node struct {
	dir               bool
	id                uint64
	data              []byte
	modified, changed int64
}

// disk is what some operations have made.
type disk struct {
	nodes map[string]*node
	now   int64
	ids   uint64
	lost  bool // some data
}

// lossy says what is left of data that no fsync has confirmed.
type lossy uint8

const (
	kept   lossy = iota // the process was killed, and no more
	none                // delayed allocation: the file is as long as what was synced
	half                // what was written back by chance
	zeroed              // the length came to the disk, and the data did not
)

// run does the first k ops. With a loss, names are those after the first meta of them: a journal keeps the order of what it has.
func run(ops []op, k, meta int, l lossy) *disk {
	d := &disk{nodes: map[string]*node{}, now: 1_700_000_000e9}
	synced := map[int]bool{} // writes that an fsync has confirmed
	if l == kept {
		meta = k
	} else {
		pending := map[string][]int{}
		for i, o := range ops[:k] {
			switch o.do {
			case "write":
				pending[o.name] = append(pending[o.name], i)
			case "fsync":
				for _, w := range pending[o.name] {
					synced[w] = true
				}
				meta = max(meta, i+1) // an fsync writes the journal
			}
		}
	}
	for i, o := range ops[:k] {
		d.now += o.wait
		if i < meta {
			d.apply(o, l == kept || synced[i], l)
		}
	}
	return d
}

func (d *disk) parent(name string) {
	if dir, _ := split(name); dir != "" {
		d.nodes[dir].modified, d.nodes[dir].changed = d.now, d.now
	}
}

func (d *disk) apply(o op, whole bool, l lossy) {
	n := d.nodes[o.name]
	switch o.do {
	case "mkdir":
		if n == nil {
			d.ids++
			d.nodes[o.name] = &node{dir: true, id: d.ids, modified: d.now, changed: d.now}
			d.parent(o.name)
		}
	case "create":
		if n == nil {
			d.ids++
			n = &node{id: d.ids}
			d.nodes[o.name] = n
			d.parent(o.name)
		}
		n.data, n.modified, n.changed = nil, d.now, d.now
	case "write":
		data := o.data
		d.lost = d.lost || !whole
		switch {
		case whole:
		case l == none:
			data = nil
		case l == half:
			data = data[:len(data)/2]
		case l == zeroed:
			data = make([]byte, len(data))
		}
		n.data = append(slices.Clone(n.data), data...)
		n.modified, n.changed = d.now, d.now
	case "rename":
		for _, name := range slices.Sorted(maps.Keys(d.nodes)) {
			if name == o.name || strings.HasPrefix(name, o.name+"/") {
				d.nodes[o.to+name[len(o.name):]] = d.nodes[name]
				delete(d.nodes, name)
			}
		}
		d.nodes[o.to].changed = d.now
		d.parent(o.to)
	case "unlink", "rmdir":
		delete(d.nodes, o.name)
		d.parent(o.name)
	}
}

// tree is what a look at the disk sees.
func (d *disk) tree() Tree {
	t := Tree{Texts: map[string]string{}, Commits: map[string]Commit{}}
	for name, n := range d.nodes {
		if _, base := split(name); strings.HasPrefix(base, mover.TempPrefix) {
			continue
		}
		e := Entry{Name: name, Kind: File, Size: int64(len(n.data)), Inode: n.id, Modified: n.modified, Changed: n.changed}
		if n.dir {
			e.Kind = Dir
		} else if set, base := split(name); set == "" && tracks(name) {
			t.Texts[name] = string(n.data)
		} else if base == Committed && !strings.Contains(set, "/") {
			t.Commits[set] = ParseCommit(n.data)
		}
		t.Entries = append(t.Entries, e)
	}
	slices.SortFunc(t.Entries, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	return t
}

// folder is the disk, as what looks at checkpoints sees it.
type folder struct {
	*disk
	seen Tree
}

func (d *disk) folder() folder { return folder{d, d.tree()} }

func (f folder) Top(ctx context.Context) (Tree, error) { return f.Deep(ctx, Tree{}) }
func (f folder) Deep(_ context.Context, top Tree, names ...string) (Tree, error) {
	t := f.seen
	t.looks, t.Entries = top.looks, nil
	for _, e := range f.seen.Entries {
		set, _, below := strings.Cut(e.Name, "/")
		if !below || slices.Contains(names, set) || top.has(e.Name) {
			t.Entries = append(t.Entries, e)
		}
	}
	return t, nil
}

func (t Tree) has(name string) bool {
	_, is := slices.BinarySearchFunc(t.Entries, name, func(e Entry, name string) int { return strings.Compare(e.Name, name) })
	return is
}
func (f folder) Own(_ context.Context, t Tree, _ string) (Tree, error) { return t, nil }
func (f folder) Peek(name string, off int64, p []byte) (int, error)    { return f.peek(name, off, p) }
func (f folder) Saved(_ context.Context, p Profile, _ Tree, set string) (int64, error) {
	_, when := f.seen.savedAt(p, set)
	return when, nil
}

func (d *disk) peek(name string, off int64, p []byte) (int, error) {
	n := d.nodes[name]
	if n == nil || n.dir {
		return 0, fs.ErrNotExist
	}
	return bytes.NewReader(n.data).ReadAt(p, off)
}

// has is what is in the files of a set.
func (d *disk) has(set string) content {
	c := content{}
	if n := d.nodes[set]; n != nil && !n.dir {
		return content{"": string(n.data)}
	}
	for name, n := range d.nodes {
		if rest, in := strings.CutPrefix(name, set+"/"); in && !n.dir {
			c[rest] = string(n.data)
		}
	}
	return c
}
