package posix

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// backup is the directory that keeps what is replaced and removed, each under its
// name relative to the root. A later run replaces what an earlier one kept; but a
// file does not replace a directory there, nor a directory a file: what was kept
// first goes aside, numbered as GNU cp does it (name.~1~).
type backup struct {
	place *Backend
	root  int
}

// backupOwner names entries that wait in the backup until they replace the one
// that is kept there. No run adopts them.
var backupOwner = mover.WriterID{Task: "backup"}

func (p *Backend) openBackup() error {
	if p.opts.Backup == "" {
		return nil
	}
	path, err := filepath.Abs(p.opts.Backup)
	if err != nil {
		return err
	}
	fd, err := p.openBackupDir(path)
	if err != nil {
		return fmt.Errorf("backup directory %s: %w", mover.Printable(path), notDirectory(path, err))
	}
	p.backup = &backup{p, fd}
	var st unix.Statx_t
	if err := kernel.StatxFD(fd, &st); err != nil {
		return err
	}
	if kernel.DeviceOf(&st) != p.device {
		return fmt.Errorf("%w: backup directory %s is on another file system", mover.ErrUsage, mover.Printable(path))
	}
	return p.hide(path)
}

func (p *Backend) openBackupDir(path string) (int, error) {
	if dir, inside := filepath.Split(path); filepath.Clean(dir) == filepath.Join(p.address, mover.KeptName) {
		return p.openKept(inside)
	}
	if len(p.opts.Inside) > 0 {
		return openInside(p.opts.Inside, path, true)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return -1, err
	}
	return unix.Open(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// hide finds out whether the backup lies below the root, where walks must not
// find it. Both are resolved, because either may be reached through a link.
func (p *Backend) hide(path string) error {
	root, err1 := filepath.EvalSymlinks(p.address)
	dir, err2 := filepath.EvalSymlinks(path)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	inside, err := filepath.Rel(root, dir)
	if err != nil {
		return err
	}
	around, err := filepath.Rel(dir, root)
	if err != nil {
		return err
	}
	switch {
	case inside == ".":
		return fmt.Errorf("%w: the backup directory is the target itself", mover.ErrUsage)
	case !leadsUp(around):
		return fmt.Errorf("%w: the backup directory %s holds the target, and would take names of it", mover.ErrUsage, mover.Printable(dir))
	case !leadsUp(inside):
		p.hidden = inside
	}
	return nil
}

func leadsUp(rel string) bool { return rel == ".." || strings.HasPrefix(rel, "../") }

// keep makes another name of what dirfd has as base, so that it can be replaced
// without ever being absent. Nothing there is nothing to keep. A directory is not
// replaced by Publish unless it is empty, and then it is not worth keeping.
func (b *backup) keep(dirfd int, base, name string) error {
	var st unix.Statx_t
	if err := kernel.StatxSegment(dirfd, base, &st); err != nil {
		return ignoreMissing(err)
	}
	if kernel.KindOf(st.Mode) == mover.Dir {
		return nil
	}
	return b.store(name, func(to int, temp string) error {
		err := kernel.Again(func() error { return unix.Linkat(dirfd, base, to, temp, 0) })
		if err == unix.EPERM || err == unix.EMLINK || xattrs.Without(err) { // no links here: absent for a moment
			err = renameNew(dirfd, base, to, temp)
		}
		return err
	})
}

// move renames what dirfd has as base, and what was removed as e, to the backup.
func (b *backup) move(dirfd int, base string, e *mover.Entry) error {
	if e.Kind != mover.Dir {
		return b.store(e.Name, func(to int, temp string) error { return renameNew(dirfd, base, to, temp) })
	}
	to, name, err := b.parent(e.Name)
	if err != nil {
		return err
	}
	defer kernel.Close(to)
	err = renameNew(dirfd, base, to, name)
	if err == unix.EEXIST && isDir(to, name) { // made for what was in it
		err = unlink(dirfd, base, unix.AT_REMOVEDIR)
	} else if err == unix.EEXIST {
		if err = aside(to, name); err == nil {
			err = renameNew(dirfd, base, to, name)
		}
	}
	switch err {
	case nil:
		return b.sync(to)
	case unix.ENOTEMPTY:
		return errNotEmpty
	}
	return err
}

// store puts an entry into the backup by way of a temporary name, so that a kept
// one is replaced in one step.
func (b *backup) store(name string, put func(to int, temp string) error) error {
	to, base, err := b.parent(name)
	if err != nil {
		return err
	}
	defer kernel.Close(to)
	var temp string
	err = b.place.freeName(backupOwner, func(free string) error {
		temp = free
		return put(to, free)
	})
	if err != nil {
		return err
	}
	err = kernel.Renameat2(to, temp, to, base, 0)
	if err == unix.EISDIR { // an earlier run kept a directory of this name
		if err = aside(to, base); err == nil {
			err = kernel.Renameat2(to, temp, to, base, 0)
		}
	}
	if err == nil {
		err = ignoreMissing(unlink(to, temp, 0)) // both names may be of one inode, and rename does nothing then
	}
	if err == nil {
		err = b.sync(to)
	}
	return err
}

// sync makes what a directory of the backup keeps outlast a power cut before what
// it is of is replaced, where no sync of the whole system does.
func (b *backup) sync(dirfd int) error {
	if b.place.system.Durable != fstype.EachFile {
		return nil
	}
	fd, err := kernel.OpenSegment(dirfd, ".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	return b.place.fsyncDir(fd)
}

func isDir(dirfd int, base string) bool {
	var st unix.Statx_t
	return kernel.StatxSegment(dirfd, base, &st) == nil && kernel.KindOf(st.Mode) == mover.Dir
}

// aside gives what is kept as base another name.
func aside(dirfd int, base string) error {
	for n := 1; n <= nameTries; n++ {
		if err := renameNew(dirfd, base, dirfd, fmt.Sprintf("%s.~%d~", base, n)); err != unix.EEXIST {
			return err
		}
	}
	return unix.EEXIST
}

// parent opens the directory of name in the backup, and makes what is missing of it.
func (b *backup) parent(name string) (fd int, base string, err error) {
	dir, base := mover.Parent(name)
	fd, err = kernel.OpenSegment(b.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil || dir == "" {
		return fd, base, err
	}
	for seg := range strings.SplitSeq(dir, "/") {
		mkdir := func() error { return kernel.Again(func() error { return unix.Mkdirat(fd, seg, 0o700) }) }
		if err = mkdir(); err == unix.EEXIST && !isDir(fd, seg) {
			if err = aside(fd, seg); err == nil {
				err = mkdir()
			}
		}
		if err == nil {
			err = b.sync(fd)
		}
		if err != nil && err != unix.EEXIST {
			break
		}
		next, e := kernel.OpenSegment(fd, seg, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
		kernel.Close(fd)
		if fd, err = next, e; err != nil {
			return -1, "", err
		}
	}
	if err != nil && err != unix.EEXIST {
		kernel.Close(fd)
		return -1, "", err
	}
	return fd, base, nil
}
