package compare

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// dataset is a tree that is made the same each time, of bytes that no compression
// makes smaller.
type dataset struct {
	files, dirs int
	bytes       int64 // of each file
	hollow      bool  // one hole per file: sizes without the bytes
	at          int64 // bytes of one read or write of a load generator; 0 is an extent
}

// block is what a load generator reads or writes at once.
func (d dataset) block() int64 { return cmp.Or(d.at, extent) }

// total is what the content of the tree takes.
func (d dataset) total() int64 { return int64(d.files) * d.bytes }

// stored is what the tree takes on a medium, with its directory entries.
func (d dataset) stored() int64 {
	if d.hollow {
		return int64(d.files) * 1024
	}
	return d.total() + int64(d.files)*1024
}

// moment is the mtime of everything, so that two trees of one dataset are equal.
var moment = time.Unix(1_700_000_000, 123_456_789)

// make writes the tree below root. One file of its own becomes root itself.
func (d dataset) make(root string) error {
	noise := newNoise()
	if d.dirs == 0 {
		return d.file(root, noise)
	}
	for i := range d.dirs {
		dir := filepath.Join(root, fmt.Sprintf("d%04d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		for n := i; n < d.files; n += d.dirs {
			if err := d.file(filepath.Join(dir, fmt.Sprintf("f%07d", n)), noise); err != nil {
				return err
			}
		}
		if err := os.Chtimes(dir, moment, moment); err != nil {
			return err
		}
	}
	return os.Chtimes(root, moment, moment)
}

func (d dataset) file(path string, noise *noise) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if d.hollow {
		err = f.Truncate(d.bytes)
	} else {
		err = noise.write(f, d.bytes)
	}
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return os.Chtimes(path, moment, moment)
}

// noise gives pseudo-random bytes. Each block is different: a counter is woven in,
// so that nothing is gained by finding equal blocks either.
type noise struct {
	block []byte
	n     uint64
}

func newNoise() *noise {
	seed := [32]byte{'d', 'a', 't', 'a', 'm', 'o', 'v', 'e'}
	b := make([]byte, 1<<20)
	r := rand.NewChaCha8(seed)
	_, _ = r.Read(b) // never fails
	return &noise{block: b}
}

func (s *noise) write(f *os.File, n int64) error {
	for n > 0 {
		b := s.block[:min(n, int64(len(s.block)))]
		for off := 0; off+8 <= len(b); off += 4096 {
			s.n++
			binary.LittleEndian.PutUint64(b[off:], s.n*0x9e3779b97f4a7c15)
		}
		if _, err := f.Write(b); err != nil {
			return err
		}
		n -= int64(len(b))
	}
	return nil
}

// count walks a tree and returns how many files it has and what they hold.
func count(root string) (files int, bytes int64, err error) {
	err = filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		st, err := e.Info()
		if err != nil {
			return err
		}
		files, bytes = files+1, bytes+st.Size()
		return nil
	})
	return files, bytes, err
}

// check says whether the tree below root holds what d does.
func (d dataset) check(root string) error {
	files, bytes, err := count(root)
	if err != nil {
		return err
	}
	if files != d.files || bytes != d.total() {
		return fmt.Errorf("the target has %d files of %d bytes, the source %d of %d", files, bytes, d.files, d.total())
	}
	return nil
}

// checkBytes is check for load generators, which write other files: of as many bytes.
func (d dataset) checkBytes(root string) error {
	_, bytes, err := count(root)
	if err != nil {
		return err
	}
	if bytes != d.total() {
		return fmt.Errorf("the target has %d bytes, the source %d", bytes, d.total())
	}
	return nil
}
