package cephfs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// maxDepth bounds the way to the root: half of the longest path.
const maxDepth = 2048

// above looks at the directory of fd (that is fd, if it is one), and at those above it
// until the root of the mount. visit says when it is enough; its descriptor is an O_PATH
// one, and only for that time.
func above(ctx context.Context, fd int, visit func(dir int) (enough bool, err error)) error {
	here, err := directory(fd)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(here) }()
	for range maxDepth {
		if err := ended(ctx); err != nil {
			return err
		}
		if enough, err := visit(here); enough || err != nil {
			return err
		}
		parent, err := unix.Openat(here, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("the directory above %s can not be looked at: %w", lustre.Where(here), err)
		}
		top, err := isTop(here, parent)
		if top || err != nil {
			return errors.Join(err, unix.Close(parent))
		}
		_ = unix.Close(here)
		here = parent
	}
	return fmt.Errorf("%s is more than %d directories deep", lustre.Where(fd), maxDepth)
}

// isTop reports whether parent is in another mount than dir, or dir itself. It may be of the
// same file system, and not what is above dir there, if a directory is mounted somewhere else
// (bind); before Linux 5.8 that is not told.
func isTop(dir, parent int) (bool, error) {
	var d, p unix.Statx_t
	if err := errors.Join(look(dir, &d), look(parent, &p)); err != nil {
		return false, err
	}
	return d.Dev_major != p.Dev_major || d.Dev_minor != p.Dev_minor || d.Mnt_id != p.Mnt_id || d.Ino == p.Ino, nil
}

func look(fd int, st *unix.Statx_t) error {
	_, err := again(func() (int, error) {
		return 0, unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, st)
	})
	return err
}

// directory opens the directory of fd. A file is found by its name, which has to be its
// name still.
func directory(fd int) (int, error) {
	dir, err := isDir(fd)
	if err != nil {
		return -1, err
	}
	if dir {
		return path(fd, ".")
	}
	name, err := os.Readlink(inProc(fd))
	if err != nil {
		return -1, fmt.Errorf("the directory of a file is found by its name, with a mounted /proc: %w", err)
	}
	parent, err := path(unix.AT_FDCWD, filepath.Dir(name))
	if err != nil {
		return -1, fmt.Errorf("the directory of %s: %w", name, err)
	}
	var named, open unix.Stat_t
	err = errors.Join(unix.Fstatat(parent, filepath.Base(name), &named, unix.AT_SYMLINK_NOFOLLOW), unix.Fstat(fd, &open))
	if err == nil && (named.Dev != open.Dev || named.Ino != open.Ino) {
		err = errors.New("another file has its name now")
	}
	if err != nil {
		return -1, errors.Join(fmt.Errorf("the directory of %s: %w", name, err), unix.Close(parent))
	}
	return parent, nil
}

// path opens a directory for its attributes.
func path(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}
