package cephfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// maxValue bounds an attribute. The longest one has the names of a pool and of a
// namespace, which have no limit of their own.
const maxValue = 4 << 10

// inProc is a name for an open file that calls take which want a path. Descriptors that
// were opened with O_PATH have no other way to their attributes.
func inProc(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// pathOf is where an open file is, or was.
func pathOf(fd int) string {
	name, err := os.Readlink(inProc(fd))
	if err != nil {
		return "descriptor " + strconv.Itoa(fd)
	}
	return name
}

// get reads an attribute. Any process (FUSE) may answer: the length of the answer is bounded
// here, and the caller checks its content.
func get(fd int, name string) (string, error) {
	b := make([]byte, maxValue)
	n, err := again(func() (int, error) { return unix.Fgetxattr(fd, name, b) })
	if errors.Is(err, unix.EBADF) {
		n, err = again(func() (int, error) { return unix.Getxattr(inProc(fd), name, b) })
	}
	if errors.Is(err, unix.ERANGE) || n > len(b) {
		return "", fmt.Errorf("%s of %s: it has more than %d bytes, which no CephFS says", name, lustre.Where(fd), maxValue)
	}
	if err != nil {
		return "", unknown(err)
	}
	return string(b[:max(n, 0)]), nil
}

// set writes an attribute, which is a request to the metadata server.
func set(fd int, name, value string) error {
	_, err := again(func() (int, error) { return 0, unix.Fsetxattr(fd, name, []byte(value), 0) })
	if errors.Is(err, unix.EBADF) {
		_, err = again(func() (int, error) { return 0, unix.Setxattr(inProc(fd), name, []byte(value), 0) })
	}
	return unknown(err)
}

// unset takes an attribute away. One that is not there is away.
func unset(fd int, name string) error {
	_, err := again(func() (int, error) { return 0, unix.Fremovexattr(fd, name) })
	if errors.Is(err, unix.EBADF) {
		_, err = again(func() (int, error) { return 0, unix.Removexattr(inProc(fd), name) })
	}
	if errors.Is(err, unix.ENODATA) {
		return nil
	}
	return unknown(err)
}

// again repeats what a signal broke off.
func again(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// unknown makes errors of a file system that has no such attributes an
// errors.ErrUnsupported, and leaves the others.
func unknown(err error) error {
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return fmt.Errorf("%w: this is no CephFS", errors.ErrUnsupported)
	}
	return err
}

// absent reports whether a file system said that there is no such attribute.
func absent(err error) bool { return errors.Is(err, unix.ENODATA) }

// failed says what was not possible where, why, and what to do if that is known.
func failed(what string, fd int, err error, hints map[error]string) error {
	if err == nil {
		return nil
	}
	for kind, hint := range hints {
		if errors.Is(err, kind) {
			return fmt.Errorf("%s of %s: %w: %s", what, lustre.Where(fd), err, hint)
		}
	}
	return fmt.Errorf("%s of %s: %w", what, lustre.Where(fd), err)
}

// noRight is what EACCES and EPERM mean for layouts and quotas.
const noRight = `it takes the right to write there, and a key of the client that may set layouts and quotas ("rwp" in: ceph fs authorize FS client.NAME PATH rwp)`

// ended returns the cause of the context's end, nil while it is not done.
func ended(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
}
