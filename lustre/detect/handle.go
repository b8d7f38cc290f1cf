package detect

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Handle is an open path, and the file system that it is on.
type Handle struct {
	System *lustre.System
	Mount  Mount // the zero Mount when it can not be seen from here
	path   string
	fd     int
	mode   uint32
	closed []func() error // what is let go of with it
}

// Open opens a file or a directory for questions. Only permission to read it is needed;
// contents are neither read nor restored. A symbolic link is followed.
func Open(path string, o Options) (*Handle, error) {
	fd, mode, err := openQuietly(path)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	h := &Handle{path: path, fd: fd, mode: mode, closed: []func() error{func() error { return unix.Close(fd) }}}
	if err := h.find(o); err != nil {
		return nil, errors.Join(fmt.Errorf("file system of %s: %w", path, err), h.Close())
	}
	return h, nil
}

// At finds out which file system a file or directory of the caller is on. The descriptor
// stays the caller's, and open until the Handle is closed.
func At(fd int, o Options) (*Handle, error) {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		path = "descriptor " + strconv.Itoa(fd)
	}
	h := &Handle{path: path, fd: fd, mode: st.Mode}
	if err := h.find(o); err != nil {
		return nil, errors.Join(fmt.Errorf("file system of %s: %w", path, err), h.Close())
	}
	return h, nil
}

// FD is the descriptor for questions. That of Open ends with the Handle.
func (h *Handle) FD() int { return h.fd }

// Path is what was opened.
func (h *Handle) Path() string { return h.path }

// IsDir reports whether it is a directory.
func (h *Handle) IsDir() bool { return h.mode&unix.S_IFMT == unix.S_IFDIR }

// Close lets go of what was opened; answers are not to be asked for after it.
func (h *Handle) Close() error {
	var errs []error
	for _, close := range slices.Backward(h.closed) {
		errs = append(errs, close())
	}
	h.closed = nil
	return errors.Join(errs...)
}

// quietly opens without waiting, without becoming a terminal's process, and, with the
// flag that Lustre takes as "no layout and no restore" (O_LOV_DELAY_CREATE: O_NOCTTY and
// FASYNC), without touching the content of a released file.
const quietly = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC

var errNoFile = errors.New("it is neither a file nor a directory: name the directory that it is in")

// openQuietly opens in two steps: to open a device or a pipe can do something, so what
// it is has to be known before, of the same thing and not of what has the name later.
func openQuietly(path string) (fd int, mode uint32, err error) {
	named, err := open(path, unix.O_PATH|unix.O_CLOEXEC)
	if err != nil {
		return -1, 0, err
	}
	defer func() { _ = unix.Close(named) }()
	var st unix.Stat_t
	if err := unix.Fstat(named, &st); err != nil {
		return -1, 0, err
	}
	kind := st.Mode & unix.S_IFMT
	if kind != unix.S_IFREG && kind != unix.S_IFDIR {
		return -1, 0, errNoFile
	}
	flags := quietly
	magic, err := magicOf(named)
	if err != nil {
		return -1, 0, err
	}
	if magic == lustreMagic {
		flags |= unix.O_ASYNC
	}
	if kind == unix.S_IFDIR {
		fd, err = openat(named, ".", flags|unix.O_DIRECTORY)
	} else if fd, err = open("/proc/self/fd/"+strconv.Itoa(named), flags); errors.Is(err, unix.ENOENT) {
		return -1, 0, fmt.Errorf("%w: /proc is needed", err)
	}
	return fd, st.Mode, err
}

func open(path string, flags int) (int, error) { return openat(unix.AT_FDCWD, path, flags) }

func openat(dir int, path string, flags int) (int, error) {
	for {
		fd, err := unix.Openat(dir, path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// magicOf is the number of the file system of fd. The kernel keeps 32 bits of it.
func magicOf(fd int) (uint32, error) {
	for {
		var f unix.Statfs_t
		err := unix.Fstatfs(fd, &f)
		if err == nil {
			return uint32(f.Type), nil
		}
		if err != unix.EINTR {
			return 0, err
		}
	}
}
