package checkpoint

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"

	"datamove.dev/mover"
)

// Orbax has its arrays in a database of TensorStore, OCDBT: a manifest names the root of a tree with nodes and values in files with random names. The loader of an array fails when one of
// these files is not there, or too short (tensorstore/kvstore/ocdbt/index.rst, "Storage format", and format/ in the same directory: tensorstore 07830a3f).

const (
	ocdbtManifest  = "manifest.ocdbt"
	ocdbtOfProcess = "ocdbt.process_" // begins the names of directories of one process each, into which the manifest above them points

	ocdbtManifestMagic = 0x0cdb3a2a
	ocdbtNodeMagic     = 0x0cdb20de

	ocdbtFrame     = 16             // bytes of magic, length and checksum
	ocdbtMost      = 16 << 20       // bytes of a manifest or a node, of which TensorStore writes 8 MiB; a larger one is not looked into
	ocdbtDeep      = 16             // levels of a tree
	ocdbtMostNodes = 100_000        // of a tree
	ocdbtPathMost  = 4096           // bytes of the path of a file
	ocdbtEndMost   = 1 << 62        // bytes of a file
	ocdbtNone      = math.MaxUint64 // the offset of a root that is not there: the database is empty
)

// Errors of what is read of a database.
var (
	errOCDBTTorn    = errors.New("its checksum is another one")
	errOCDBTUnknown = errors.New("is of a later version, or of another kind")
)

// ocdbtFile is a file of a database, as a node names it.
type ocdbtFile struct {
	path string // from the directory of the manifest
	base string // the part of the path that goes before those that nodes in the file name
}

// ocdbtRef is where a node, or a value, lies.
type ocdbtRef struct {
	file     ocdbtFile
	off, len uint64
}

// ocdbtWalk goes through a tree.
type ocdbtWalk struct {
	dir   string
	peek  Peek
	names map[string]int64 // of the files: how long each is at least
	seen  map[string]bool
	left  int // nodes that may still be read
	torn  string
}

// ocdbtNames are the files that a manifest names, and how long each is at least. torn is the one that is not what it was. What is not understood says nothing.
func ocdbtNames(e Entry, peek Peek) (names map[string]int64, torn string) {
	dir, base := split(e.Name)
	if e.Size > ocdbtMost {
		return nil, ""
	}
	text, ok := part(e, peek, 0, e.Size)
	if !ok {
		return nil, ""
	}
	r, err := ocdbtBody(text, ocdbtManifestMagic)
	if errors.Is(err, errOCDBTTorn) {
		return nil, base
	}
	w := ocdbtWalk{dir: dir, peek: peek, names: map[string]int64{}, seen: map[string]bool{}, left: ocdbtMostNodes}
	if root, height, is := r.root(); err == nil && is {
		w.node(root, height)
	}
	return w.names, w.torn
}

// ocdbtUnzip makes the decoder of all frames: each has buffers of its own.
var ocdbtUnzip = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(ocdbtMost))
})

// ocdbtBody is what is in a manifest or a node.
func ocdbtBody(text []byte, magic uint32) (*ocdbtReader, error) {
	r := &ocdbtReader{left: text}
	if len(text) < ocdbtFrame || binary.BigEndian.Uint32(text) != magic || binary.LittleEndian.Uint64(text[4:]) != uint64(len(text)) {
		return r, errOCDBTTorn
	}
	end := len(text) - crc32.Size
	if crc32.Checksum(text[:end], crc32.MakeTable(crc32.Castagnoli)) != binary.LittleEndian.Uint32(text[end:]) {
		return r, errOCDBTTorn
	}
	r.left = text[12:end]
	version, compression := r.number(), r.number()
	if r.bad || version != 0 || compression > 1 {
		return r, errOCDBTUnknown
	}
	if compression == 1 {
		d, err := ocdbtUnzip()
		if err != nil {
			return r, err
		}
		if r.left, err = d.DecodeAll(r.left, nil); err != nil {
			return r, errOCDBTUnknown
		}
	}
	return r, nil
}

// node goes through what is below a node, which is there when its file is as long as it has to be.
func (w *ocdbtWalk) node(at ocdbtRef, height uint8) {
	key := at.file.path + "\x00" + string(binary.AppendUvarint(nil, at.off))
	if !w.notes(at) || w.seen[key] || at.len > ocdbtMost || height > ocdbtDeep || w.left == 0 {
		return
	}
	w.seen[key] = true
	w.left--
	text := make([]byte, at.len)
	if n, err := w.peek(w.dir+"/"+at.file.path, int64(at.off), text); err != nil || n < len(text) {
		return
	}
	r, err := ocdbtBody(text, ocdbtNodeMagic)
	if errors.Is(err, errOCDBTTorn) {
		w.torn = at.file.path
	}
	if err != nil || r.byte() != height {
		return
	}
	if height == 0 {
		for _, value := range r.leaf(at.file.base) {
			w.notes(value)
		}
		return
	}
	for _, child := range r.interior(at.file.base) {
		w.node(child, height-1)
	}
}

// notes notes how long a file is at least. What is no name of a file below the manifest is not followed.
func (w *ocdbtWalk) notes(at ocdbtRef) bool {
	end := at.off + at.len
	if !mover.ValidName(at.file.path) || at.file.path == "" || end < at.off || end > ocdbtEndMost {
		return false
	}
	w.names[at.file.path] = max(w.names[at.file.path], int64(end))
	return true
}

// ocdbtReader reads the fields of a manifest or a node. It is bad once there was no more, and then reads zeros.
type ocdbtReader struct {
	left []byte
	bad  bool
}

func (r *ocdbtReader) bytes(n uint64) []byte {
	if r.bad = r.bad || n > uint64(len(r.left)); r.bad {
		return nil
	}
	b := r.left[:n]
	r.left = r.left[n:]
	return b
}

func (r *ocdbtReader) byte() uint8 {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *ocdbtReader) number() uint64 {
	n, long := binary.Uvarint(r.left)
	if long <= 0 {
		r.bad = true
	}
	r.bytes(uint64(max(long, 0)))
	return n
}

// numbers reads a column of as many numbers.
func (r *ocdbtReader) numbers(n uint64) []uint64 {
	if r.bad = r.bad || n > uint64(len(r.left)); r.bad { // each has a byte at least
		return nil
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = r.number()
	}
	return all
}

// root is the root of the newest version that a manifest names.
func (r *ocdbtReader) root() (root ocdbtRef, height uint8, is bool) {
	const uuid, zstdLevel = 16, 4
	r.bytes(uuid)
	kind := r.byte()
	r.numbers(2) // of bytes that a value and a node may have
	r.byte()     // of versions that a node has
	switch compression := r.number(); {
	case compression == 1:
		r.bytes(zstdLevel)
	case compression > 1:
		return root, 0, false
	}
	if kind != 0 { // the versions are in files of their own
		return root, 0, false
	}
	files := r.files("")
	n := r.number()
	r.numbers(n) // generations
	heights := r.bytes(n)
	roots := r.refs(files, n)
	if len(roots) == 0 || r.bad {
		return root, 0, false
	}
	last := roots[len(roots)-1]
	return last, heights[n-1], last.off != ocdbtNone
}

// files are the files that a manifest or a node names. base goes before their paths.
func (r *ocdbtReader) files(base string) []ocdbtFile {
	n := r.number()
	if n == 0 {
		return nil
	}
	prefixes := slices.Insert(r.numbers(n-1), 0, 0)
	suffixes, bases := r.numbers(n), r.numbers(n)
	var all []ocdbtFile
	path, total := "", 0
	for i := range suffixes {
		if r.bad || i >= len(bases) || prefixes[i] > uint64(len(path)) {
			r.bad = true
			return nil
		}
		path = path[:prefixes[i]] + string(r.bytes(suffixes[i]))
		total += len(path)
		if r.bad = r.bad || bases[i] > uint64(len(path)) || len(path) > ocdbtPathMost || total > ocdbtMost; r.bad {
			return nil
		}
		all = append(all, ocdbtFile{base + path, base + path[:bases[i]]})
	}
	return all
}

// refs reads where as many nodes lie.
func (r *ocdbtReader) refs(files []ocdbtFile, n uint64) []ocdbtRef {
	ids, offsets, lengths := r.numbers(n), r.numbers(n), r.numbers(n)
	return r.placed(files, ids, offsets, lengths)
}

func (r *ocdbtReader) placed(files []ocdbtFile, ids, offsets, lengths []uint64) (all []ocdbtRef) {
	for i, id := range ids {
		if r.bad = r.bad || id >= uint64(len(files)); r.bad {
			return nil
		}
		all = append(all, ocdbtRef{files[id], offsets[i], lengths[i]})
	}
	return all
}

// keys passes the keys of as many entries by.
func (r *ocdbtReader) keys(n uint64, interior bool) {
	if n == 0 {
		r.bad = true
		return
	}
	r.numbers(n - 1)
	suffixes := r.numbers(n)
	if interior {
		r.numbers(n)
	}
	for _, long := range suffixes {
		r.bytes(long)
	}
}

// interior are the children of a node.
func (r *ocdbtReader) interior(base string) []ocdbtRef {
	files, n := r.files(base), r.number()
	r.keys(n, true)
	return r.refs(files, n)
}

// leaf are the values of a node that are not in it.
func (r *ocdbtReader) leaf(base string) []ocdbtRef {
	files, n := r.files(base), r.number()
	r.keys(n, false)
	var lengths []uint64
	all, kinds := r.numbers(n), r.bytes(n)
	for i, kind := range kinds {
		if kind == 1 {
			lengths = append(lengths, all[i])
		}
	}
	outside := uint64(len(lengths))
	ids, offsets := r.numbers(outside), r.numbers(outside)
	return r.placed(files, ids, offsets, lengths)
}
