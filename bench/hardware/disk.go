package hardware

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

const (
	extent    = 4 << 20 // bytes that a worker writes, or reads, at a time, where nothing else is said
	direct    = 4096    // what O_DIRECT wants addresses, offsets and lengths to be a multiple of
	diskDepth = 8       // workers at a disk, where nothing else is said: so many are on their way to it
)

// Disk measures how fast a file in a directory is written and read past the page cache, and how many files are made, looked at, renamed and removed there each second.
func Disk(ctx context.Context, o Options) (all []Ceiling, err error) {
	dir, err := os.MkdirTemp(o.Dir, "datamove-bench-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if o.Workers == 0 {
		o.Workers = diskDepth
	}
	moved, err := o.file(ctx, filepath.Join(dir, "file"))
	if err != nil {
		return nil, err
	}
	named, err := o.names(ctx, dir)
	return append(moved, named...), err
}

// file writes and reads one.
func (o Options) file(ctx context.Context, name string) ([]Ceiling, error) {
	m, err := o.medium(name)
	if err != nil {
		return nil, err
	}
	defer m.file.Close()
	writes, err := o.repeat(ctx, func() (int64, time.Duration, error) { return m.write(ctx, o) })
	if err != nil {
		return nil, err
	}
	reads, err := o.repeat(ctx, func() (int64, time.Duration, error) { return m.read(ctx, o) })
	if err != nil {
		return nil, err
	}
	how := fmt.Sprintf("%d workers, extents of %d MiB of a file of %d MiB, %s", o.Workers, extent>>20, m.size>>20, m.how)
	return []Ceiling{of("disk.write", bytesPerSecond, how+"; with fsync", writes), of("disk.read", bytesPerSecond, how, reads)}, nil
}

// medium is a file that is written and read.
type medium struct {
	file  *os.File
	size  int64
	block int64  // that a worker writes, or reads, at a time
	how   string // past the page cache, or not
}

// medium makes one.
func (o Options) medium(name string) (*medium, error) {
	m := &medium{size: o.Size, block: extent, how: "past the page cache, huge pages"}
	if m.size == 0 {
		m.size = 1 << 30
	}
	if m.size = m.size / extent * extent; m.size == 0 {
		return nil, fmt.Errorf("%w: want a file of %d MiB or more", mover.ErrUsage, extent>>20)
	}
	var err error
	m.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_DIRECT, 0o600)
	if errors.Is(err, unix.EINVAL) { // NFS without it, some FUSE
		m.how = "through the page cache: this file system has no O_DIRECT"
		m.file, err = os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	}
	return m, err
}

// write writes all of it, and syncs.
func (m *medium) write(ctx context.Context, o Options) (int64, time.Duration, error) {
	begun := time.Now()
	err := m.blocks(ctx, o, func(b []byte, off int64) error { _, err := m.file.WriteAt(b, off); return err })
	if err == nil {
		err = m.file.Sync()
	}
	return m.whole(), time.Since(begun), err
}

// read reads all of it.
func (m *medium) read(ctx context.Context, o Options) (int64, time.Duration, error) {
	begun := time.Now()
	err := m.blocks(ctx, o, func(b []byte, off int64) error { _, err := m.file.ReadAt(b, off); return err })
	return m.whole(), time.Since(begun), err
}

// whole is how much of it whole blocks are.
func (m *medium) whole() int64 { return m.size / m.block * m.block }

// blocks has workers do something with each block, in order. There is a processor of the scheduler for each of them: a worker that returns from a system call does not wait for one.
func (m *medium) blocks(ctx context.Context, o Options, do func(b []byte, off int64) error) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(max(runtime.NumCPU(), o.Workers)))
	var next atomic.Int64
	errs := make([]error, o.Workers)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() {
			var b []byte
			if b, errs[i] = memory(int(m.block)); errs[i] != nil {
				return
			}
			defer func(all []byte) { _ = unix.Munmap(all) }(b)
			b = b[:m.block]
			noise(b, uint64(i))
			for errs[i] == nil {
				off := next.Add(m.block) - m.block
				if off >= m.whole() {
					return
				}
				if errs[i] = context.Cause(ctx); errs[i] == nil {
					errs[i] = do(b, off)
				}
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// hugePage is what the kernel aligns mappings to that are a whole number of them.
const hugePage = 2 << 20

// memory is what O_DIRECT takes: in huge pages, as the mover has.
func memory(size int) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, (size+hugePage-1)/hugePage*hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		_ = unix.Madvise(b, unix.MADV_HUGEPAGE) // advice
	}
	return b, err
}

// names makes, looks at, renames and removes files, each worker in a directory of its own.
func (o Options) names(ctx context.Context, dir string) (all []Ceiling, err error) {
	files := o.Files
	if files == 0 {
		files = 10_000
	}
	each := max(1, files/o.Workers)
	for i := range o.Workers {
		if err := os.Mkdir(filepath.Join(dir, strconv.Itoa(i)), 0o700); err != nil {
			return nil, err
		}
	}
	steps := []struct {
		name string
		do   func(at string) error
	}{
		{"meta.create", func(at string) error {
			f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return err
			}
			return f.Close()
		}},
		{"meta.stat", func(at string) error { _, err := os.Lstat(at); return err }},
		{"meta.rename", func(at string) error { return os.Rename(at, at+".new") }},
		{"meta.unlink", func(at string) error { return os.Remove(at + ".new") }},
	}
	rates := map[string][]float64{}
	for range o.runs() {
		for _, step := range steps {
			begun := time.Now()
			errs := make([]error, o.Workers)
			var group sync.WaitGroup
			for i := range o.Workers {
				group.Go(func() {
					for n := 0; n < each && errs[i] == nil; n++ {
						if errs[i] = context.Cause(ctx); errs[i] == nil {
							errs[i] = step.do(filepath.Join(dir, strconv.Itoa(i), strconv.Itoa(n)))
						}
					}
				})
			}
			group.Wait()
			if err := errors.Join(errs...); err != nil {
				return nil, err
			}
			rates[step.name] = append(rates[step.name], float64(each*o.Workers)/time.Since(begun).Seconds())
		}
	}
	for _, step := range steps {
		all = append(all, of(step.name, opsPerSecond, fmt.Sprintf("%d workers, %d empty files each in a directory of its own", o.Workers, each), rates[step.name]))
	}
	return all, nil
}
