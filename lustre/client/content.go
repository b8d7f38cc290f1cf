package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"golang.org/x/sys/unix"
)

// contents is what a restripe does with files, beside what is Lustre's own.
type contents interface {
	kernel
	fstat(fd int) (unix.Stat_t, error)
	// encrypted reports whether what is on the servers is not what is read.
	encrypted(fd int) (bool, error)
	pread(fd int, p []byte, off int64) (int, error)
	pwrite(fd int, p []byte, off int64) (int, error)
	// seek finds data or holes (SEEK_DATA, SEEK_HOLE) from off on.
	seek(fd int, off int64, whence int) (int64, error)
	truncate(fd int, size int64) error
	sync(fd int) error
	chown(fd, uid, gid int) error
	setTimes(fd int, atime, mtime unix.Timespec) error
}

var _ contents = linux{}

// copyBytes is how much is read at once: enough for a few stripes.
const copyBytes = 8 << 20

// copyContent copies size bytes, but for holes, and puts them on disk. still is asked
// before each piece, and moved told after it how far it is.
func copyContent(ctx context.Context, k contents, from, to int, size int64, still func() error, moved func(done int64)) error {
	if err := k.truncate(to, size); err != nil {
		return fmt.Errorf("truncate the copy: %w", err)
	}
	buffer := make([]byte, min(copyBytes, max(size, 1)))
	for off := int64(0); off < size; {
		if err := errors.Join(ctx.Err(), still()); err != nil {
			return err
		}
		start, end, err := dataFrom(k, from, off, size)
		if err != nil {
			return fmt.Errorf("look for data: %w", err)
		}
		if end-start > int64(len(buffer)) {
			end = start + int64(len(buffer))
		}
		if err := copyPiece(k, from, to, buffer[:end-start], start); err != nil {
			return err
		}
		off = end
		moved(off)
	}
	if err := k.sync(to); err != nil {
		return fmt.Errorf("put the copy on disk: %w", err)
	}
	return nil
}

// dataFrom returns the next range that has data; without any it is empty, and at size.
func dataFrom(k contents, fd int, off, size int64) (start, end int64, err error) {
	start, err = k.seek(fd, off, unix.SEEK_DATA)
	switch {
	case errors.Is(err, unix.ENXIO):
		return size, size, nil
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return off, size, nil // holes are not told of: all is data
	case err != nil:
		return 0, 0, err
	}
	end, err = k.seek(fd, start, unix.SEEK_HOLE)
	if err != nil {
		return 0, 0, err
	}
	return min(start, size), min(end, size), nil
}

func copyPiece(k contents, from, to int, p []byte, off int64) error {
	for len(p) > 0 {
		n, err := k.pread(from, p, off)
		if err == nil && n == 0 {
			err = fmt.Errorf("it is shorter than it was: %w", io.ErrUnexpectedEOF)
		}
		if err != nil {
			return fmt.Errorf("read at %d: %w", off, err)
		}
		for part := p[:n]; len(part) > 0; {
			w, err := k.pwrite(to, part, off)
			if err != nil {
				return fmt.Errorf("write at %d: %w", off, err)
			}
			part, off = part[w:], off+int64(w)
		}
		p = p[n:]
	}
	return nil
}

func (linux) fstat(fd int) (st unix.Stat_t, err error) {
	_, err = again(func() (int, error) { return 0, unix.Fstat(fd, &st) })
	return st, err
}

func (linux) encrypted(fd int) (bool, error) { return Encrypted(fd) }

func (linux) pread(fd int, p []byte, off int64) (int, error) {
	return again(func() (int, error) { return unix.Pread(fd, p, off) })
}

func (linux) pwrite(fd int, p []byte, off int64) (int, error) {
	return again(func() (int, error) { return unix.Pwrite(fd, p, off) })
}

// seek asks servers, and takes a lock: it can be interrupted, too.
func (linux) seek(fd int, off int64, whence int) (at int64, err error) {
	_, err = again(func() (int, error) { at, err = unix.Seek(fd, off, whence); return 0, err })
	return at, err
}

func (linux) truncate(fd int, size int64) error {
	_, err := again(func() (int, error) { return 0, unix.Ftruncate(fd, size) })
	return err
}

func (linux) sync(fd int) error {
	_, err := again(func() (int, error) { return 0, unix.Fsync(fd) })
	return err
}

func (linux) chown(fd, uid, gid int) error {
	_, err := again(func() (int, error) { return 0, unix.Fchown(fd, uid, gid) })
	return err
}

func (linux) setTimes(fd int, atime, mtime unix.Timespec) error {
	times := [2]unix.Timespec{atime, mtime}
	_, err := again(func() (int, error) {
		// futimens: utimensat without a name. A flag for that is younger than the kernels that
		// Lustre's clients run on.
		if _, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&times)), 0, 0, 0); e != 0 {
			return 0, e
		}
		return 0, nil
	})
	return err
}
