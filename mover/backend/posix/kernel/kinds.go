package kernel

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// kinds translates what the kernel says into the kinds of mover. EPERM, EACCES,
// ENOENT and the ways to say "not supported" are kinds by themselves: unix.Errno
// answers errors.Is for them.
var kinds = map[unix.Errno]error{
	unix.ENOSPC: mover.ErrFull,
	unix.EDQUOT: mover.ErrFull,
	unix.EMLINK: mover.ErrUnsupported,
	unix.EFBIG:  mover.ErrUnsupported,

	unix.ENAMETOOLONG: mover.ErrUnsupported,
	unix.EILSEQ:       mover.ErrUnsupported, // a file system that takes UTF-8 only
	unix.EROFS:        mover.ErrPermission,

	unix.ELOOP:     mover.ErrConflict, // a symlink where a directory should be
	unix.ENOTDIR:   mover.ErrConflict,
	unix.EXDEV:     mover.ErrConflict, // also: a path that would lead out of the root
	unix.EEXIST:    mover.ErrConflict,
	unix.ENOTEMPTY: mover.ErrConflict,
	unix.EISDIR:    mover.ErrConflict,

	unix.EAGAIN:  mover.ErrTransient,
	unix.EBUSY:   mover.ErrTransient,
	unix.ENOMEM:  mover.ErrTransient,
	unix.EMFILE:  mover.ErrTransient,
	unix.ENFILE:  mover.ErrTransient,
	unix.ENOLCK:  mover.ErrTransient,
	unix.EINTR:   mover.ErrTransient,
	unix.ETXTBSY: mover.ErrTransient,

	unix.ESTALE:       mover.ErrChanged, // NFS: the file behind the handle is gone
	unix.ETIMEDOUT:    mover.ErrUnreachable,
	unix.ENOTCONN:     mover.ErrUnreachable, // FUSE: the server died
	unix.ECONNABORTED: mover.ErrUnreachable,
	unix.EHOSTDOWN:    mover.ErrUnreachable,
	unix.EHOSTUNREACH: mover.ErrUnreachable,
	unix.ESHUTDOWN:    mover.ErrUnreachable, // Lustre: the target is being unmounted
	unix.EREMOTEIO:    mover.ErrUnreachable,
}

// Kinded adds its kind to an error of the kernel.
func Kinded(err error) error {
	var e unix.Errno
	if !errors.As(err, &e) {
		return err
	}
	kind, ok := kinds[e]
	if !ok || errors.Is(err, kind) {
		return err
	}
	err = fmt.Errorf("%w (%w)", err, kind)
	if e == unix.ENAMETOOLONG || e == unix.EILSEQ {
		err = mover.NoSuchName(err)
	}
	return err
}
