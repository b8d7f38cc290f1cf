package posix

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
)

// Mkdir implements mover.Target. The directory is private where it will be given
// to another UID or GID, and otherwise as open as it is to be.
func (p *Backend) Mkdir(ctx context.Context, e mover.Entry) error {
	if e.Name == "" {
		return nil
	}
	if err := p.checkNew("mkdir", e.Name); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.Kind != mover.Dir {
		return p.fail("mkdir", e.Name, fmt.Errorf("%w: a %v", mover.ErrUsage, e.Kind))
	}
	return p.fail("mkdir", e.Name, p.mkdir(&e))
}

func (p *Backend) mkdir(e *mover.Entry) error {
	at, err := p.find(e.Name)
	if err != nil {
		return err
	}
	defer at.release()
	defer p.changed.around(p, at.dir)()
	mode := uint32(0o700)
	switch {
	case !e.Known.Has(mover.FactMode):
		mode = newDir
	case p.staysOurs(e):
		mode |= e.Mode & 0o777
	}
	if err := p.allowance.Entry(p.root, 0); err != nil {
		return err
	}
	create := func() error { return unix.Mkdirat(at.fd, at.base, mode) }
	if err = kernel.Again(create); p.opensUp(at.dir.seat, err) {
		err = kernel.Again(create)
	}
	if err != unix.EEXIST {
		return immutable(at.fd, ".", err)
	}
	if err := namesake(at.fd, at.base); err != nil {
		return err
	}
	return p.reuse(at)
}

// staysOurs reports whether e will belong to us, so that its mode gives no account
// more than it should before its owner is set.
func (p *Backend) staysOurs(e *mover.Entry) bool {
	return (!e.Known.Has(mover.FactOwner) || e.UID == p.uid) &&
		(!e.Known.Has(mover.FactGroup) || e.GID == uint32(unix.Getegid()))
}

// reuse makes an existing directory usable for us: an earlier run may have left
// it as read-only as its source is.
func (p *Backend) reuse(at spot) error {
	var st unix.Statx_t
	if err := at.statx(&st); err != nil {
		return err
	}
	if kernel.KindOf(st.Mode) != mover.Dir {
		return fmt.Errorf("%w: there is a %v", mover.ErrConflict, kernel.KindOf(st.Mode))
	}
	_, err := p.openUp(at, &st)
	return err
}

// openUp gives us the rights of an owner in a directory that is ours and has a mode
// without them. It reports whether that was needed.
func (p *Backend) openUp(at spot, st *unix.Statx_t) (bool, error) {
	if p.asRoot || kernel.KindOf(st.Mode) != mover.Dir || st.Mode&0o700 == 0o700 || st.Uid != uint32(unix.Geteuid()) {
		return false, nil
	}
	n := inode{fd: at.fd, base: at.base, kind: mover.Dir}
	return true, n.chmod(uint32(st.Mode)&modes | 0o700)
}

// opensUp reports whether err is a denial and the directory name could be opened
// up, so that another try makes sense. What changes in a directory makes a run set
// its facts at the end, the mode too.
func (p *Backend) opensUp(name string, err error) bool {
	if p.asRoot || !errors.Is(err, unix.EACCES) {
		return false
	}
	at, err := p.find(name)
	if err != nil {
		return false
	}
	defer at.release()
	var st unix.Statx_t
	if at.statx(&st) != nil {
		return false
	}
	opened, err := p.openUp(at, &st)
	return opened && err == nil
}

// Update implements mover.Target.
func (p *Backend) Update(ctx context.Context, e mover.Entry) error {
	if err := p.checkName("update", e.Name, true); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.fail("update", e.Name, p.update(&e))
}

func (p *Backend) update(e *mover.Entry) error {
	at, err := p.find(e.Name)
	if err != nil {
		return err
	}
	defer at.release()
	var st unix.Statx_t
	if err := at.statx(&st); err != nil {
		return err
	}
	if kernel.KindOf(st.Mode) != e.Kind {
		return fmt.Errorf("%w: there is a %v", mover.ErrChanged, kernel.KindOf(st.Mode))
	}
	n := inode{fd: at.fd, base: at.base, kind: e.Kind, mode: uint32(st.Mode) & modes, uid: st.Uid, gid: st.Gid}
	if err := n.setFacts(e, false); err != nil {
		return immutable(at.fd, at.base, err)
	}
	return p.noteUpdate(at, e)
}

// noteUpdate sees to it that Sync finds what was updated: a directory is synced
// by itself, and a file at once.
func (p *Backend) noteUpdate(at spot, e *mover.Entry) error {
	switch {
	case e.Kind == mover.Dir:
		p.changed.add(p, e.Name, at.dir.foreign)
	case e.Kind == mover.File && (p.system.Durable == fstype.EachFile || at.dir.foreign):
		fd, err := kernel.OpenSegment(at.fd, at.base, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err == unix.EACCES {
			return nil // we may not read it, so there is no way to sync it alone; its directory is synced
		}
		if err != nil {
			return err
		}
		defer kernel.Close(fd)
		return kernel.Again(func() error { return p.flush.file(fd) })
	}
	return nil
}
