package copytool

import (
	"errors"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// failureKinds is the one translation from kinds of errors to what an MDT is told: an error
// number for the waiting process, and whether the action may be handed out again. An error of
// several kinds has the first one.
var failureKinds = []struct {
	kind  error
	errno unix.Errno
	retry bool
}{
	{mover.ErrCorrupt, unix.EIO, false},
	{mover.ErrFull, unix.ENOSPC, true},
	{mover.ErrChanged, unix.EBUSY, true},
	{mover.ErrReleased, unix.EBUSY, false},
	{mover.ErrHeld, unix.EAGAIN, true},
	{mover.ErrConflict, unix.EEXIST, false},
	{mover.ErrRefused, unix.EPERM, false},
	{mover.ErrPermission, unix.EACCES, false},
	{mover.ErrUsage, unix.EINVAL, false},
	{mover.ErrTimeout, unix.ETIMEDOUT, true},
	{mover.ErrUnreachable, unix.EHOSTUNREACH, true},
	{mover.ErrTransient, unix.EAGAIN, true},
	{mover.ErrNotExist, unix.ENOENT, false},
	{mover.ErrUnsupported, unix.EOPNOTSUPP, false},
}

// OfKind makes an error of a kind of mover a Failure, which says what the MDT is told of it. Other errors, and what is a Failure already, stay as they are.
func OfKind(err error) error {
	var f *Failure
	if err == nil || errors.As(err, &f) { // what the copytool said itself
		return err
	}
	for _, e := range failureKinds {
		if errors.Is(err, e.kind) {
			return &Failure{Errno: e.errno, Retry: e.retry, Err: err}
		}
	}
	return err
}
