package posix

import (
	"errors"
	"fmt"
	"path/filepath"

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

// kinded adds its kind to an error of the kernel.
func kinded(err error) error {
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

// inTheWay is a file that has the place of a directory.
type inTheWay struct{ text string }

func (e *inTheWay) Error() string { return e.text }

// Unwrap makes it a conflict, with the number by which the kernel says so.
func (e *inTheWay) Unwrap() []error { return []error{unix.ENOTDIR, mover.ErrConflict} }

// notDirectory says of a path that can not be opened as a directory what is in its place, or in that of a directory above it.
func notDirectory(path string, err error) error {
	if !errors.Is(err, unix.ENOTDIR) {
		return err
	}
	for at := path; ; at = filepath.Dir(at) {
		var st unix.Stat_t
		switch statErr := unix.Stat(at, &st); {
		case statErr == unix.ENOTDIR:
			continue
		case statErr != nil || st.Mode&unix.S_IFMT == unix.S_IFDIR:
			return err
		}
		what := fmt.Sprintf("is a %v, and no directory", kindOf(uint16(st.Mode)))
		if at == path {
			return &inTheWay{"it " + what}
		}
		return &inTheWay{mover.Printable(at) + ", above it, " + what}
	}
}

// fail says what failed on an entry of the place, and of which kind it is.
func (p *Backend) fail(op, name string, err error) error {
	if err == nil {
		return nil
	}
	var known *mover.Error
	if errors.As(err, &known) {
		return err
	}
	return &mover.Error{Op: op, Place: p.address, Name: name, Err: kinded(err)}
}

// checkName refuses names that are not below the root. The root itself is
// refused where it can not be meant.
func (p *Backend) checkName(op, name string, root bool) error {
	if !mover.ValidName(name) || name == "" && !root {
		return p.fail(op, name, fmt.Errorf("%w: not a name below the root", mover.ErrUsage))
	}
	return nil
}

// checkNew refuses, beside that, names that walks do not show: what is written
// under them could never be seen again.
func (p *Backend) checkNew(op, name string) error {
	if err := p.checkName(op, name, false); err != nil {
		return err
	}
	if _, base := mover.Parent(name); reserved(base) {
		return p.fail(op, name, fmt.Errorf("%w: names that begin with %s are ours", mover.ErrUsage, mover.TempPrefix))
	}
	return nil
}

// reserved reports whether a walk leaves base out.
func reserved(base string) bool {
	if len(base) < len(mover.TempPrefix) || base[:len(mover.TempPrefix)] != mover.TempPrefix {
		return false
	}
	_, _, temp := mover.ParseTempName(base)
	return temp || isLock(base) || base == mover.TrashName
}
