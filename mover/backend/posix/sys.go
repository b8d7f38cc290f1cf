package posix

import (
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The calls in this file are those that are made for every file. They take
// names that are already terminated, so that none of them allocates, and they are
// made again when a signal interrupts them (FUSE and network file systems).

// segment is one segment of a path as the kernel wants it: at most NAME_MAX (255)
// bytes and a terminating zero.
type segment [256]byte

// set stores name and returns the pointer that calls take.
func (s *segment) set(name string) (*byte, error) {
	if len(name) >= len(s) {
		return nil, unix.ENAMETOOLONG
	}
	n := copy(s[:], name)
	s[n] = 0
	return &s[0], nil
}

func openat(dirfd int, name *byte, flags int, mode uint32) (int, error) {
	for {
		fd, _, e := unix.Syscall6(unix.SYS_OPENAT, uintptr(dirfd), uintptr(unsafe.Pointer(name)),
			uintptr(flags|unix.O_CLOEXEC|unix.O_LARGEFILE), uintptr(mode), 0, 0)
		if e == 0 {
			return int(fd), nil
		}
		if e != unix.EINTR {
			return -1, e
		}
	}
}

// openSegment is openat with a name that is not yet terminated.
func openSegment(dirfd int, name string, flags int, mode uint32) (int, error) {
	var s segment
	p, err := s.set(name)
	if err != nil {
		return -1, err
	}
	return openat(dirfd, p, flags, mode)
}

// empty is the name that together with AT_EMPTY_PATH means the descriptor itself.
var empty [1]byte

func statxAt(dirfd int, name *byte, flags int, st *unix.Statx_t) error {
	for {
		_, _, e := unix.Syscall6(unix.SYS_STATX, uintptr(dirfd), uintptr(unsafe.Pointer(name)),
			uintptr(flags|unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT), unix.STATX_BASIC_STATS|unix.STATX_MNT_ID,
			uintptr(unsafe.Pointer(st)), 0)
		if e == 0 {
			return nil
		}
		if e != unix.EINTR {
			return e
		}
	}
}

func statxFD(fd int, st *unix.Statx_t) error { return statxAt(fd, &empty[0], unix.AT_EMPTY_PATH, st) }

func statxSegment(dirfd int, name string, st *unix.Statx_t) error {
	var s segment
	p, err := s.set(name)
	if err != nil {
		return err
	}
	return statxAt(dirfd, p, 0, st)
}

func pread(fd int, b []byte, off int64) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	for {
		n, _, e := unix.Syscall6(unix.SYS_PREAD64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)), uintptr(off), 0, 0)
		if e == 0 {
			return int(n), nil
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// pwriteAll writes all of b at off.
func pwriteAll(fd int, b []byte, off int64) error {
	for len(b) > 0 {
		n, _, e := unix.Syscall6(unix.SYS_PWRITE64, uintptr(fd), uintptr(unsafe.Pointer(&b[0])),
			uintptr(len(b)), uintptr(off), 0, 0)
		switch {
		case e == unix.EINTR:
			continue
		case e != 0:
			return e
		case n == 0:
			return unix.EIO // a write that takes nothing and says nothing would be tried for ever
		}
		b, off = b[n:], off+int64(n)
	}
	return nil
}

func renameat2(from int, old string, to int, name string, flags uint) error {
	var a, b segment
	p, err := a.set(old)
	if err != nil {
		return err
	}
	q, err := b.set(name)
	if err != nil {
		return err
	}
	for {
		_, _, e := unix.Syscall6(unix.SYS_RENAMEAT2, uintptr(from), uintptr(unsafe.Pointer(p)),
			uintptr(to), uintptr(unsafe.Pointer(q)), uintptr(flags), 0)
		if e == 0 {
			return nil
		}
		if e != unix.EINTR {
			return e
		}
	}
}

// futimens sets the times of an open file; a Nsec of UTIME_OMIT leaves one alone.
func futimens(fd int, times *[2]unix.Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

func flistxattr(fd int, b []byte) (int, error) {
	var p unsafe.Pointer
	if len(b) > 0 {
		p = unsafe.Pointer(&b[0])
	}
	n, _, e := unix.Syscall(unix.SYS_FLISTXATTR, uintptr(fd), uintptr(p), uintptr(len(b)))
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}

// noListxattrat is set when the kernel has no listxattrat, or a filter refuses it.
var noListxattrat atomic.Bool

// listxattrAt lists the attributes of a name; a symlink is not followed. ENOSYS before Linux 6.13.
func listxattrAt(dirfd int, name *byte, b []byte) (int, error) {
	for !noListxattrat.Load() {
		n, _, e := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(dirfd), uintptr(unsafe.Pointer(name)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.ENOSYS, unix.EPERM:
			noListxattrat.Store(true)
		default:
			return 0, e
		}
	}
	return 0, unix.ENOSYS
}

// again makes a call until no signal interrupts it.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// closeFD closes a descriptor of which only the end matters. Linux frees it
// whatever close says, also when it was interrupted.
func closeFD(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}
