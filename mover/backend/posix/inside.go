package posix

import (
	"fmt"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/beneath"
)

// openInside opens a directory that is below one of some roots, of which the longest
// counts. The kernel follows symbolic links on the way only as long as they stay below that root,
// also when another process exchanges them meanwhile. With create, missing directories are made,
// behind no link.
func openInside(roots []string, path string, create bool) (int, error) {
	base := ""
	for _, root := range roots {
		if root = filepath.Clean(root); len(root) > len(base) && mover.Within(strings.Trim(path, "/"), strings.Trim(root, "/")) {
			base = root
		}
	}
	if base == "" {
		return -1, fmt.Errorf("%w: it does not lie below %s", mover.ErrPermission, strings.Join(roots, ", "))
	}
	at, err := openBase(base)
	if err != nil {
		return -1, err
	}
	defer kernel.Close(at)
	segments := strings.Split(strings.Trim(strings.TrimPrefix(path, base), "/"), "/")
	for there := len(segments); ; there-- {
		fd, err := beneath.Links.Open(at, "./"+strings.Join(segments[:there], "/"), unix.O_PATH|unix.O_DIRECTORY)
		switch {
		case err == unix.ENOENT && create && there > 0:
			continue
		case err == unix.ENOSYS:
			return openWay(base, path, create)
		case err == unix.EXDEV:
			return -1, fmt.Errorf("%w: a symbolic link on the way leads out of %s", mover.ErrPermission, mover.Printable(base))
		case err != nil:
			return -1, err
		}
		return makeWay(fd, segments[there:])
	}
}

func openBase(base string) (fd int, err error) {
	err = kernel.Again(func() (err error) {
		fd, err = unix.Open(base, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	return fd, err
}

// makeWay makes and opens directories, one in the other.
func makeWay(fd int, names []string) (int, error) {
	for _, name := range names {
		next, err := openStride(fd, name, true)
		kernel.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}
