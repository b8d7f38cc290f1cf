package posix

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Restore gives a name back what the backup directory keeps of it, in one step. mover.ErrNotExist when it keeps nothing, and mover.ErrConflict when something
// has the name by now. Directories that are gone are made again, as those that a copy makes.
func (p *Backend) Restore(ctx context.Context, name string) error {
	if err := p.checkNew("restore", name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if p.backup == nil {
		return p.fail("restore", name, fmt.Errorf("%w: there is no backup directory", mover.ErrUsage))
	}
	return p.fail("restore", name, p.restore(ctx, name))
}

func (p *Backend) restore(ctx context.Context, name string) error {
	from, base, err := p.backup.seat(name)
	if err != nil {
		return err
	}
	defer kernel.Close(from)
	var st unix.Statx_t
	if err := kernel.StatxSegment(from, base, &st); err != nil {
		return err
	}
	err = p.makeAbove(ctx, name, &st)
	var at spot
	if err == nil {
		at, err = p.find(name)
	}
	if err != nil { // that it is not there would mean that nothing is kept
		return fmt.Errorf("%w: the directory that it was in: %s", mover.ErrConflict, err.Error())
	}
	defer at.release()
	defer p.changed.around(p, at.dir)()
	err = renameNew(from, base, at.fd, at.base)
	if err == unix.EEXIST {
		return fmt.Errorf("%w: something has its name by now", mover.ErrConflict)
	}
	return err
}

// makeAbove makes the directories above a name that are gone, for the owner of what comes back.
func (p *Backend) makeAbove(ctx context.Context, name string, st *unix.Statx_t) error {
	dir, _ := mover.Parent(name)
	if dir == "" {
		return nil
	}
	_, err := p.Stat(ctx, dir)
	if !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	if err := p.makeAbove(ctx, dir, st); err != nil {
		return err
	}
	e := mover.Entry{Name: dir, Kind: mover.Dir, Known: mover.FactMode | mover.FactOwner | mover.FactGroup, Mode: 0o755, UID: st.Uid, GID: st.Gid}
	if err := p.Mkdir(ctx, e); err != nil {
		return err
	}
	return p.Update(ctx, e)
}

// seat opens the directory in which the backup keeps a name, if there is one.
func (b *backup) seat(name string) (fd int, base string, err error) {
	dir, base := mover.Parent(name)
	if dir == "" {
		fd, err = kernel.OpenSegment(b.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	} else {
		fd, err = b.place.openBelow(b.root, dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
	}
	return fd, base, err
}

// openKept opens a directory in that of what is kept, mover.KeptName. It makes the directory for its own UID alone. It refuses one that another UID may use:
// any account with the right to write to the root can make one.
func (p *Backend) openKept(inside string) (int, error) {
	fd, err := kernel.OpenSegment(p.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	for _, name := range []string{mover.KeptName, inside} {
		if err != nil {
			return -1, err
		}
		if err = kernel.Again(func() error { return unix.Mkdirat(fd, name, 0o700) }); err == unix.EEXIST {
			err = nil
		}
		next := -1
		if err == nil {
			next, err = kernel.OpenSegment(fd, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		}
		kernel.Close(fd)
		if fd = next; err != nil {
			break
		}
		var st unix.Statx_t
		if err = kernel.StatxFD(fd, &st); err == nil && (int(st.Uid) != unix.Geteuid() || st.Mode&0o077 != 0) {
			err = fmt.Errorf("%w: %s is not ours alone", mover.ErrPermission, name)
		}
		if err != nil {
			kernel.Close(fd)
			fd = -1
		}
	}
	return fd, err
}
