// Package beneath opens what lies below an open directory, and nowhere else, with openat2(2): a user that renames and
// links while a path is looked up can not lead it out of there.
//
// Errors are those of the kernel, as plain [unix.Errno]: ELOOP where a link is on the way, EXDEV where the path leads out
// (or, with [SameMount], into another mount), EAGAIN where renames kept the kernel from knowing, ENOSYS before Linux 5.6
// and under filters of system calls that do not have it.
//
// The package has no state. TestOpen shows each rule on hostile names.
package beneath

import "golang.org/x/sys/unix"

// Rule is a set of restrictions of openat2(2). Each one refuses what leads out, by .. or by an absolute path or link, and the magic
// links of /proc.
type Rule uint64

// What a path may go over.
const (
	Links     Rule = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS // symbolic links that stay below, and mounts
	NoLinks   Rule = Links | unix.RESOLVE_NO_SYMLINKS                  // mounts
	SameMount Rule = NoLinks | unix.RESOLVE_NO_XDEV                    // neither
)

// tries are how often the kernel may find that a rename has crossed the lookup.
const tries = 100

// Open opens a path below the directory at, close-on-exec. With O_PATH|O_NOFOLLOW the last name may be a link.
func (r Rule) Open(at int, path string, flags int) (fd int, err error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_LARGEFILE), Resolve: uint64(r)}
	for left := tries; ; {
		switch fd, err = openat2(at, path, &how); {
		case err == unix.EINTR:
		case err == unix.EAGAIN && left > 0:
			left--
		case err != nil:
			return -1, err
		default:
			return fd, nil
		}
	}
}

var openat2 = unix.Openat2 // tests interrupt it
