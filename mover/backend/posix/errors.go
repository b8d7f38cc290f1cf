package posix

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

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
		what := fmt.Sprintf("is a %v, and no directory", kernel.KindOf(uint16(st.Mode)))
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
	return &mover.Error{Op: op, Location: p.address, Name: name, Err: kernel.Kinded(err)}
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
