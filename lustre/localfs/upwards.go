package localfs

import (
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	toList   = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NONBLOCK | unix.O_CLOEXEC
	maxDepth = 2048 // of a path, which has at most 4096 bytes
)

// upwards opens the directories that fd is in, one after the other, until one is the right
// one; the caller closes that. fs.ErrNotExist: none is.
func upwards(fd int, right func(dir int) (bool, error)) (int, error) {
	at, err := parent(fd)
	for range maxDepth {
		if err != nil {
			return -1, err
		}
		found, err := right(at)
		if found {
			return at, nil
		}
		next := -1
		if err == nil {
			next, err = unix.Openat(at, "..", toList, 0)
		}
		if err == nil && same(at, next) {
			err = fs.ErrNotExist // the root of what this process sees
		}
		_ = unix.Close(at)
		at = next
		if err != nil {
			if next >= 0 {
				_ = unix.Close(next)
			}
			return -1, err
		}
	}
	_ = unix.Close(at)
	return -1, fs.ErrNotExist
}

// parent opens the directory that fd is in.
func parent(fd int) (int, error) {
	at, err := unix.Openat(fd, "..", toList, 0)
	if err != unix.ENOTDIR {
		return at, err
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return -1, err
	}
	return unix.Open(filepath.Dir(name), toList, 0)
}

func same(a, b int) bool {
	var one, two unix.Stat_t
	return unix.Fstat(a, &one) == nil && unix.Fstat(b, &two) == nil && one.Dev == two.Dev && one.Ino == two.Ino
}
