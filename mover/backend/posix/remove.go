package posix

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Remove implements mover.Target. It looks at the entry, renames it to a name that
// no other process uses, looks at it again, and only then removes it. An entry that took the name in
// between gets it back.
func (p *Backend) Remove(ctx context.Context, e mover.Entry, by mover.WriterID) error {
	if err := p.checkNew("remove", e.Name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.fail("remove", e.Name, p.removeEntry(&e, by))
}

func (p *Backend) removeEntry(e *mover.Entry, by mover.WriterID) error {
	at, err := p.find(e.Name)
	if err != nil {
		return err
	}
	defer at.release()
	if err := p.doubt(at, e); err != nil {
		return err
	}
	q, err := p.quarantine(at, by)
	if p.opensUp(at.dir.seat, err) {
		q, err = p.quarantine(at, by)
	}
	if err == unix.EXDEV && e.Kind == mover.Dir && p.backup == nil { // overlayfs does not rename what is of a lower layer; that it is empty the kernel sees
		defer p.changed.around(p, at.dir)()
		defer p.handles.forget(e.Name)
		return kernel.Again(func() error { return unlink(at.fd, at.base, unix.AT_REMOVEDIR) })
	}
	if err != nil {
		return immutable(at.fd, at.base, err)
	}
	defer p.changed.around(p, at.dir)()
	if err := p.condemn(at, q, e); err != nil {
		if back := renameNew(at.fd, q, at.fd, at.base); back != nil {
			return errors.Join(err, fmt.Errorf("it stays under the name %s: %w", q, back))
		}
		return err
	}
	if e.Kind == mover.Dir {
		p.handles.forget(e.Name)
	}
	return nil
}

// doubt looks at the entry while it has its name. With other names its ctime
// tells of them, too, and when they are removed first it changes.
func (p *Backend) doubt(at spot, e *mover.Entry) error {
	var st unix.Statx_t
	if err := at.statx(&st); err != nil {
		return err
	}
	same := kernel.Same(&st, e)
	if e.Nlink > 1 {
		same = kernel.SameMoved(&st, e)
	}
	if !same {
		return mover.ErrChanged
	}
	if p.elsewhere(&st) {
		return errMounted
	}
	if e.Kind != mover.Dir {
		return nil
	}
	fd, err := openList(at.fd, at.base) // a directory in use should not vanish even for a moment
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	names, err := readNames(fd)
	if err == nil && len(names) > 0 {
		err = errNotEmpty
	}
	return err
}

var errMounted = fmt.Errorf("%w: another file system is mounted here or above", mover.ErrConflict)

var errNotEmpty = fmt.Errorf("%w: the directory is not empty", mover.ErrConflict)

// quarantine renames the entry to a temporary name.
func (p *Backend) quarantine(at spot, by mover.WriterID) (string, error) {
	var q string
	err := p.freeName(by, func(name string) error {
		q = name
		return renameNew(at.fd, at.base, at.fd, name)
	})
	return q, err
}

// condemn removes what is in quarantine when it is the very entry e.
func (p *Backend) condemn(at spot, q string, e *mover.Entry) error {
	var st unix.Statx_t
	if err := kernel.StatxSegment(at.fd, q, &st); err != nil {
		return err
	}
	if !kernel.SameMoved(&st, e) {
		return mover.ErrChanged
	}
	if p.backup != nil {
		return p.backup.move(at.fd, q, e)
	}
	flags := 0
	if e.Kind == mover.Dir {
		flags = unix.AT_REMOVEDIR
	}
	err := unlink(at.fd, q, flags)
	if err == unix.ENOTEMPTY || err == unix.EEXIST {
		return errNotEmpty
	}
	return err
}
