package posix

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// openRoot opens the directory that the place is.
func (p *Backend) openRoot() (fd int, err error) {
	if len(p.opts.Inside) > 0 && p.opts.Beneath == "" {
		way, err := openInside(p.opts.Inside, p.address, p.opts.Create)
		if err != nil {
			return -1, err
		}
		defer kernel.Close(way)
		return kernel.OpenSegment(way, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if p.opts.Beneath == "" {
		err = kernel.Again(func() (err error) {
			fd, err = unix.Open(p.address, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			return err
		})
		return fd, err
	}
	way, err := openWay(p.opts.Beneath, p.address, p.opts.Create)
	if err != nil {
		return -1, err
	}
	defer kernel.Close(way)
	return kernel.OpenSegment(way, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
}

// openWay opens a directory that is base or lies below it, step by step from there and
// over no symbolic link: where the text says that it is, there it is. Base itself is
// believed. What is missing is made where create says so.
func openWay(base, path string, create bool) (int, error) {
	rest, ok := strings.CutPrefix(path, filepath.Clean(base))
	if !ok || rest != "" && rest[0] != '/' {
		return -1, fmt.Errorf("%w: it does not lie below %s", mover.ErrRefused, base)
	}
	fd := -1
	err := kernel.Again(func() (err error) {
		fd, err = unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	for name := range strings.SplitSeq(strings.Trim(rest, "/"), "/") {
		if err != nil || name == "" {
			return fd, err
		}
		at := fd
		fd, err = openStride(at, name, create)
		kernel.Close(at)
	}
	return fd, err
}

// openStride opens one directory of a way.
func openStride(at int, name string, create bool) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
	if name == ".." {
		return -1, fmt.Errorf("%w: .. in a path", mover.ErrUsage)
	}
	fd, err := kernel.OpenSegment(at, name, flags, 0)
	if err == unix.ENOENT && create {
		if err := unix.Mkdirat(at, name, 0o777); err != nil && err != unix.EEXIST {
			return -1, err
		}
		fd, err = kernel.OpenSegment(at, name, flags, 0)
	}
	if err == unix.ENOTDIR || err == unix.ELOOP {
		var st unix.Stat_t
		if unix.Fstatat(at, name, &st, unix.AT_SYMLINK_NOFOLLOW) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			err = fmt.Errorf("%w: %s is a symbolic link, and may lead anywhere", mover.ErrConflict, mover.Printable(name))
		}
	}
	return fd, err
}

// RemoveEmpty removes a directory in which nothing is. Where beneath is not empty, that is
// the directory that it has to lie below, with no symbolic link on the way.
func RemoveEmpty(path, beneath string) error {
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return &mover.Error{Op: "remove", Location: path, Err: kernel.Kinded(err)}
	}
	if beneath == "" {
		return fail(unix.Rmdir(path))
	}
	way, err := openWay(beneath, filepath.Dir(path), false)
	if err != nil {
		return fail(err)
	}
	defer kernel.Close(way)
	return fail(unix.Unlinkat(way, filepath.Base(path), unix.AT_REMOVEDIR))
}
