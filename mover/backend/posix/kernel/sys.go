// Package kernel makes the system calls that package posix makes for every file, and says what their answers mean: an entry for a statx, a kind of mover for an
// error number, what of a file is in the page cache.
//
// Functions return errors of the kernel as they are (unix.Errno); [Kinded] adds the kind of mover. A call that a signal interrupts is made again. Nothing here
// allocates but Readlink, and nothing has a state but what is known of calls that this kernel lacks: all may be called from many goroutines.
// Which call is made when, and where it may lead, is for package posix to say (TestNothingEscapes, TestCost).
package kernel

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

// Set stores name and returns the pointer that calls take.
func (s *segment) Set(name string) (*byte, error) {
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

// OpenSegment is openat with a name that is not yet terminated.
func OpenSegment(dirfd int, name string, flags int, mode uint32) (int, error) {
	var s segment
	p, err := s.Set(name)
	if err != nil {
		return -1, err
	}
	return openat(dirfd, p, flags, mode)
}

// empty is the name that together with AT_EMPTY_PATH means the descriptor itself.
var empty [1]byte

// StatxAt is statx(2) of a name, which is not followed, with what [Fill] needs and the number of the mount.
func StatxAt(dirfd int, name *byte, flags int, st *unix.Statx_t) error {
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

// StatxFD is StatxAt of an open file.
func StatxFD(fd int, st *unix.Statx_t) error { return StatxAt(fd, &empty[0], unix.AT_EMPTY_PATH, st) }

// StatxSegment is StatxAt of a name that is not yet terminated.
func StatxSegment(dirfd int, name string, st *unix.Statx_t) error {
	var s segment
	p, err := s.Set(name)
	if err != nil {
		return err
	}
	return StatxAt(dirfd, p, 0, st)
}

// Pread reads once at off; 0 is the end.
func Pread(fd int, b []byte, off int64) (int, error) {
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

// PwriteAll writes all of b at off.
func PwriteAll(fd int, b []byte, off int64) error {
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

// Renameat2 is renameat2(2), with its flags.
func Renameat2(from int, old string, to int, name string, flags uint) error {
	var a, b segment
	p, err := a.Set(old)
	if err != nil {
		return err
	}
	q, err := b.Set(name)
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

// Futimens sets the times of an open file; a Nsec of UTIME_OMIT leaves one alone.
func Futimens(fd int, times *[2]unix.Timespec) error {
	_, _, e := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(times)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}

// Flistxattr is flistxattr(2): the length of all names where b is empty.
func Flistxattr(fd int, b []byte) (int, error) {
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

// NoListxattrat is set when the kernel has no listxattrat, or a filter refuses it.
var NoListxattrat atomic.Bool

// ListxattrAt lists the attributes of a name; a symlink is not followed. ENOSYS before Linux 6.13.
func ListxattrAt(dirfd int, name *byte, b []byte) (int, error) {
	for !NoListxattrat.Load() {
		n, _, e := unix.Syscall6(unix.SYS_LISTXATTRAT, uintptr(dirfd), uintptr(unsafe.Pointer(name)),
			unix.AT_SYMLINK_NOFOLLOW, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		case unix.ENOSYS, unix.EPERM:
			NoListxattrat.Store(true)
		default:
			return 0, e
		}
	}
	return 0, unix.ENOSYS
}

// Again makes a call until no signal interrupts it.
func Again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Close closes a descriptor of which only the end matters. Linux frees it
// whatever close says, also when it was interrupted.
func Close(fd int) {
	if fd >= 0 {
		_ = unix.Close(fd)
	}
}

// LacksXattr reports whether a file system does not know an attribute, or its kind. Of NFS that
// tells the version: holes came with attributes of users in 4.2 (RFC 7862, RFC 8276), and
// times of more than 32 bits with ACLs of its own in 4.0; before, seconds had no sign (RFC 1813).
func LacksXattr(fd int, name string) bool {
	var b [4096]byte
	_, err := unix.Fgetxattr(fd, name, b[:])
	return err == unix.EOPNOTSUPP
}

// Capable reports whether this thread has a capability (capabilities(7)).
func Capable(capability int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[capability/32].Effective&(1<<(capability%32)) != 0
}
