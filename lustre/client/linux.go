package client

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

var _ kernel = linux{}

// linux is the kernel of this machine.
type linux struct{}

// slack is by how much the buffer of an ioctl is larger than its struct. The module that
// is loaded may be younger than these words, and copy a struct that has grown.
const slack = 64

// maxXattr is how large an attribute may be: XATTR_SIZE_MAX of linux/limits.h is 64 KiB,
// and layouts read through other ways were seen to be larger than that nowhere.
const maxXattr = 64 << 10

func (linux) ioctl(fd int, request uint, arg []byte) (int, error) {
	return linux{}.ioctlAt(fd, request, arg)
}

func (linux) ioctlAt(fd int, request uint, arg []byte, at ...pointer) (int, error) {
	room := make([]byte, len(arg)+slack)
	copy(room, arg)
	var pinned runtime.Pinner
	defer pinned.Unpin()
	pinned.Pin(&room[0])
	for _, p := range at {
		if len(p.buffer) == 0 || p.offset < 0 || p.offset > len(arg)-8 {
			return 0, fmt.Errorf("ioctl %#x: a pointer at %d does not fit its struct of %d bytes", request, p.offset, len(arg))
		}
		pinned.Pin(&p.buffer[0])
		binary.NativeEndian.PutUint64(room[p.offset:], uint64(uintptr(unsafe.Pointer(&p.buffer[0]))))
	}
	r, err := ioctl(fd, request, uintptr(unsafe.Pointer(&room[0])))
	copy(arg, room)
	for _, p := range at { // the addresses of buffers are stale after the call: the caller gets zeros
		binary.NativeEndian.PutUint64(arg[p.offset:], 0)
	}
	runtime.KeepAlive(room)
	return r, err
}

func (linux) ioctlValue(fd int, request uint, arg uintptr) (int, error) {
	return ioctl(fd, request, arg)
}

// ioctl asks again when a signal interrupted: the runtime sends some of its own.
func ioctl(fd int, request uint, arg uintptr) (int, error) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), uintptr(request), arg)
		switch errno {
		case 0:
			return int(r), nil
		case unix.EINTR:
		default:
			return 0, forUsers(errno)
		}
	}
}

// notSupported is ENOTSUPP, which kernels have for themselves. Lustre 2.15 lets it out where
// it means EOPNOTSUPP: for a layout or a command of quotas that it does not know.
const notSupported = unix.Errno(524)

func forUsers(errno unix.Errno) unix.Errno {
	if errno == notSupported {
		return unix.EOPNOTSUPP
	}
	return errno
}

func (linux) getxattr(fd int, name string) ([]byte, error) {
	for size := 4096; ; size *= 2 {
		value := make([]byte, size)
		n, err := again(func() (int, error) { return unix.Fgetxattr(fd, name, value) })
		switch {
		case err == nil:
			return value[:n:n], nil
		case !errors.Is(err, unix.ERANGE) || size >= maxXattr:
			return nil, err
		}
	}
}

func (linux) setxattr(fd int, name string, value []byte) error {
	_, err := again(func() (int, error) { return 0, unix.Fsetxattr(fd, name, value, 0) })
	return err
}

func (linux) removexattr(fd int, name string) error {
	_, err := again(func() (int, error) { return 0, unix.Fremovexattr(fd, name) })
	return err
}

func (linux) openat(dir int, name string, flags int, mode uint32) (int, error) {
	return again(func() (int, error) { return unix.Openat(dir, name, flags|unix.O_CLOEXEC, mode) })
}

func (linux) unlinkat(dir int, name string) error {
	_, err := again(func() (int, error) { return 0, unix.Unlinkat(dir, name, 0) })
	return err
}

func (linux) rmdirat(dir int, name string) error {
	_, err := again(func() (int, error) { return 0, unix.Unlinkat(dir, name, unix.AT_REMOVEDIR) })
	return err
}

func (linux) close(fd int) error { return unix.Close(fd) }

func (linux) stat(fd int) (uint32, error) {
	var st unix.Stat_t
	_, err := again(func() (int, error) { return 0, unix.Fstat(fd, &st) })
	return st.Mode, err
}

func (linux) files() fs.FS { return os.DirFS("/") }

func (linux) privileged() bool { return unix.Geteuid() == 0 }

// again repeats a call while signals interrupt it.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
