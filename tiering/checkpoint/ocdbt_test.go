package checkpoint

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// database writes as TensorStore does what Orbax has in one: each process its values and a leaf of the tree, then one of them the root above those leaves, which are named by where they are.
type database struct {
	files map[string][]byte
	names []string // in the order in which they are written
	zip   bool
}

func (d *database) add(name string, data []byte) {
	d.files[name], d.names = data, append(d.names, name)
}

// framed is a manifest, or a node.
// zip makes the encoder of all frames: each has tables of some megabytes.
var zip = sync.OnceValue(func() *zstd.Encoder {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return w
})

func (d *database) framed(magic uint32, body []byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, magic)
	b = append(b, make([]byte, 8)...)
	b = append(b, 0) // the version
	if d.zip {
		b = zip().EncodeAll(body, append(b, 1))
	} else {
		b = append(append(b, 0), body...)
	}
	binary.LittleEndian.PutUint64(b[4:], uint64(len(b)+4))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)))
}

type column []byte

func (c *column) add(numbers ...int) {
	for _, n := range numbers {
		*c = binary.AppendUvarint(*c, uint64(n))
	}
}

// table is a data file table of files that lie in the same directory, or in a base of their own.
func (c *column) table(bases, paths []string) {
	c.add(len(paths))
	same := func(a, b string) (n int) {
		for n < min(len(a), len(b)) && a[n] == b[n] {
			n++
		}
		return n
	}
	prefix := make([]int, len(paths))
	for i := 1; i < len(paths); i++ {
		if prefix[i] = same(bases[i-1], bases[i]); bases[i-1] == bases[i] {
			prefix[i] = same(bases[i]+paths[i-1], bases[i]+paths[i])
		}
		c.add(prefix[i])
	}
	for i := range paths {
		c.add(len(bases[i]+paths[i]) - prefix[i])
	}
	for i := range paths {
		c.add(len(bases[i]))
	}
	for i := range paths {
		*c = append(*c, (bases[i] + paths[i])[prefix[i]:]...)
	}
}

// manifest is one with a version, whose root is there.
func (d *database) manifest(file string, off, long, height int) []byte {
	c := column(strings.Repeat("u", 16))
	c = append(c, 0)
	c.add(100, 8<<20)
	c = append(c, 4)
	if d.zip {
		c.add(1)
		c = append(c, 0, 0, 0, 0)
	} else {
		c.add(0)
	}
	c.table([]string{""}, []string{file})
	c.add(1, 7)
	c = append(c, byte(height))
	c.add(0, off, long, 3, 2, 1)
	c = append(c, make([]byte, 8)...)
	c.add(0) // versions before
	return d.framed(ocdbtManifestMagic, c)
}

// leaf is a node with a value in it, and as many outside as there are lengths.
func (d *database) leaf(file string, lengths []int) []byte {
	c := column{0}
	c.table([]string{""}, []string{file})
	c.add(len(lengths) + 1)
	for range lengths {
		c.add(2) // of the key that goes before
	}
	c.add(3)
	for range lengths {
		c.add(1)
	}
	c = append(c, "w/0"...)
	for i := range lengths {
		c = append(c, byte('1'+i))
	}
	c.add(2)
	c.add(lengths...)
	c = append(c, 0)
	c = append(c, bytes.Repeat([]byte{1}, len(lengths))...)
	off := 0
	for range lengths {
		c.add(0)
	}
	for _, n := range lengths {
		c.add(off)
		off += n
	}
	return d.framed(ocdbtNodeMagic, append(c, "in"...))
}

// orbaxDatabase is what as many processes have written, each with these values.
func orbaxDatabase(zip bool, processes int, values ...string) *database {
	d := &database{files: map[string][]byte{}, zip: zip}
	var bases, paths []string
	var offs, longs []int
	for p := range processes {
		base, file := fmt.Sprintf("ocdbt.process_%d/", p), fmt.Sprintf("d/%032x", p+17)
		var data []byte
		var lengths []int
		for _, v := range values {
			data, lengths = append(data, v...), append(lengths, len(v))
		}
		node := d.leaf(file, lengths)
		d.add(base+file, append(data, node...))
		d.add(base+ocdbtManifest, d.manifest(file, len(data), len(node), 0))
		bases, paths, offs, longs = append(bases, base), append(paths, file), append(offs, len(data)), append(longs, len(node))
	}
	c := column{1}
	c.table(bases, paths)
	c.add(processes)
	for range processes - 1 {
		c.add(0)
	}
	for range processes {
		c.add(1)
	}
	for range processes {
		c.add(0)
	}
	for p := range processes {
		c = append(c, byte('a'+p))
	}
	for p := range processes {
		c.add(p)
	}
	c.add(offs...)
	c.add(longs...)
	c.add(make([]int, 3*processes)...)
	root := d.framed(ocdbtNodeMagic, c)
	d.add("d/"+strings.Repeat("f", 32), root)
	d.add(ocdbtManifest, d.manifest("d/"+strings.Repeat("f", 32), 0, len(root), 1))
	return d
}

// TestDatabase: what the manifest of a database leads to is there, as long as it has to be, and is what it was; a manifest of a single process is not asked.
func TestDatabase(t *testing.T) {
	for _, zip := range []bool{false, true} {
		d := orbaxDatabase(zip, 3, strings.Repeat("first", 20), strings.Repeat("second", 20))
		judge := func(change func(map[string][]byte)) string {
			t.Helper()
			files := map[string][]byte{orbaxMetadata: []byte(`{"commit_timestamp_nsecs": 2}`), "default/_METADATA": []byte(`{"use_ocdbt": true}`)}
			for name, data := range d.files {
				files["default/"+name] = slices.Clone(data)
			}
			change(files)
			on := &disk{nodes: map[string]*node{}}
			for name, data := range files {
				on.nodes["100/"+name] = &node{data: data}
				for dir, _ := split("100/" + name); dir != ""; dir, _ = split(dir) {
					on.nodes[dir] = &node{dir: true}
				}
			}
			_, why := judged(t, on, Orbax)
			return why["100"]
		}
		if why := judge(func(map[string][]byte) {}); why != "" {
			t.Errorf("whole: %q", why)
		}
		for _, name := range d.names {
			asked := !strings.HasSuffix(name, "/"+ocdbtManifest)
			if why := judge(func(f map[string][]byte) { delete(f, "default/"+name) }); asked != strings.Contains(why, " is not there") {
				t.Errorf("without %s: %q", name, why)
			}
			for n := range d.files[name] {
				if why := judge(func(f map[string][]byte) { f["default/"+name] = f["default/"+name][:n] }); asked != (why != "") && (n > 0 || asked) {
					t.Fatalf("%s with %d bytes: %q", name, n, why)
				}
				if n%7 == 0 && strings.HasPrefix(name, "d/") || name == ocdbtManifest {
					if why := judge(func(f map[string][]byte) { f["default/"+name][n] ^= 0x40 }); !strings.Contains(why, "default/"+name+" is not whole") {
						t.Fatalf("%s with another byte at %d: %q", name, n, why)
					}
				}
			}
		}
	}
}

// FuzzDatabase: whatever is in a database, no file is named that is not below it, and little is read.
//
//safety:5/jobs with TestHostile
func FuzzDatabase(f *testing.F) {
	for _, zip := range []bool{false, true} {
		d := orbaxDatabase(zip, 2, "value")
		f.Add(d.files[ocdbtManifest][12:], d.files["d/"+strings.Repeat("f", 32)][12:], zip)
	}
	f.Fuzz(func(t *testing.T, manifest, node []byte, zip bool) {
		again := func(magic uint32, text []byte) []byte { // with a checksum that is right
			b := binary.BigEndian.AppendUint32(nil, magic)
			b = binary.LittleEndian.AppendUint64(b, uint64(len(text)+12))
			b = append(b, text...)
			if len(b) >= 16 {
				binary.LittleEndian.PutUint32(b[len(b)-4:], crc32.Checksum(b[:len(b)-4], crc32.MakeTable(crc32.Castagnoli)))
			}
			return b
		}
		files := map[string][]byte{"s/" + ocdbtManifest: again(ocdbtManifestMagic, manifest)}
		body := again(ocdbtNodeMagic, node)
		names, _ := ocdbtNames(Entry{Name: "s/" + ocdbtManifest, Size: int64(len(files["s/"+ocdbtManifest]))}, func(name string, off int64, p []byte) (int, error) {
			if strings.Contains(name, "..") || !strings.HasPrefix(name, "s/") {
				t.Errorf("it reads %q", name)
			}
			if name == "s/"+ocdbtManifest {
				return bytes.NewReader(files[name]).ReadAt(p, off)
			}
			return bytes.NewReader(body).ReadAt(p, off)
		})
		for name := range names {
			if strings.HasPrefix(name, "/") || slices.Contains(strings.Split(name, "/"), "..") {
				t.Errorf("it names %q", name)
			}
		}
	})
}
