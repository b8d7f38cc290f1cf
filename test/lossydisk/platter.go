// Package lossydisk is a disk that forgets: it knows which of its writes were flushed.
// Whoever reads it sees what was written last, as with any disk; a power cut takes of
// what was not flushed some sectors, in any order, as it does with the cache of a real
// disk. What carries the disk to a kernel (FUSE in test/power, NBD in test/vm) is not
// known here. A disk can also be one that a kernel has used, whose writes its dm-log-writes
// has noted: Log reads the notes, and Disk.Apply repeats them up to any instant.
package lossydisk

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// Disk is safe for concurrent use.
type Disk struct {
	bytes int64

	mu      sync.Mutex
	random  *rand.Rand // guarded by mu, as all below
	now     *os.File
	safe    *os.File
	pending []span
	written int64
}

// span is a range that was written since the last flush. A forced one is on the medium.
type span struct {
	off    int64
	data   []byte
	forced bool
}

// New makes a disk out of an image, which becomes what is on it and is changed from
// then on. What is safe lies in the same directory. random decides what a cut takes.
func New(image string, random *rand.Rand) (*Disk, error) {
	now, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	info, err := now.Stat()
	if err != nil {
		return nil, errors.Join(err, now.Close())
	}
	d := &Disk{bytes: info.Size(), random: random, now: now}
	if d.safe, err = os.CreateTemp(filepath.Dir(image), filepath.Base(image)+".safe-"); err != nil {
		return nil, errors.Join(err, now.Close())
	}
	if err := copySparse(d.safe, now, d.bytes); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Bytes is the size of the disk, which does not change.
func (d *Disk) Bytes() int64 { return d.bytes }

// Written is how many bytes were written in all.
func (d *Disk) Written() int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.written
}

// Close closes the files; what is safe is removed.
func (d *Disk) Close() error {
	return errors.Join(d.now.Close(), d.safe.Close(), os.Remove(d.safe.Name()))
}

// ReadAt reads what was written last.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) { return d.now.ReadAt(p, off) }

// WriteAt writes what a power cut may take until the next Flush.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) {
	if err := d.write(slices.Clone(p), off, false); err != nil {
		return 0, err
	}
	return len(p), nil
}

// write keeps p.
func (d *Disk) write(p []byte, off int64, forced bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.now.WriteAt(p, off); err != nil {
		return err
	}
	d.pending = append(d.pending, span{off, p, forced})
	d.written += int64(len(p))
	return nil
}

// Flush makes safe what was written before: the barrier of the disk.
func (d *Disk) Flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.pending {
		if _, err := d.safe.WriteAt(s.data, s.off); err != nil {
			return err
		}
	}
	d.pending = nil
	return nil
}

// Cut writes to a file what is on the disk when the power goes now: all that was
// flushed or forced, and of the rest some sectors, in any order. The disk itself goes on.
func (d *Disk) Cut(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(d.cut(f), f.Close())
}

func (d *Disk) cut(f *os.File) error {
	if err := copySparse(f, d.safe, d.bytes); err != nil {
		return err
	}
	luck := d.random.IntN(101) // percent of the writes that come through
	for _, i := range d.random.Perm(len(d.pending)) {
		s := d.pending[i]
		if s.forced || d.random.IntN(100) >= luck {
			continue
		}
		if d.random.IntN(8) == 0 { // torn
			s.data = s.data[:d.random.IntN(len(s.data)/sectorBytes+1)*sectorBytes]
		}
		if _, err := f.WriteAt(s.data, s.off); err != nil {
			return err
		}
	}
	for _, s := range d.pending {
		if !s.forced {
			continue
		}
		if _, err := f.WriteAt(s.data, s.off); err != nil {
			return err
		}
	}
	return nil
}

// copySparse copies what is stored of a file.
func copySparse(to, from *os.File, bytes int64) error {
	if err := to.Truncate(bytes); err != nil {
		return err
	}
	for off := int64(0); ; {
		start, err := from.Seek(off, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole is left
			return nil
		}
		if err != nil {
			return err
		}
		if off, err = from.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, off-start)); err != nil {
			return err
		}
	}
}
