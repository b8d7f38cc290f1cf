package posix

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// dirDraft is a new directory that is built under a temporary name. What is
// drafted in it has its final name at once, so that one rename publishes all of it.
type dirDraft struct {
	*draft
	path string // where it is until it is published

	appeared atomic.Bool // renamed, or merged: what is built in it is published with it

	result sync.Mutex       // guards lost
	lost   map[string]error // names that could not be merged into a directory that was there meanwhile
}

func newDirDraft(d *draft) *dirDraft {
	return &dirDraft{draft: d, path: mover.Join(d.seat, d.temp)}
}

func (p *Backend) beginDir(d *draft, e *mover.Entry, h mover.Hints, at *handle) (some, error) {
	mode := uint32(0o700)
	if !e.Known.Has(mover.FactMode) {
		mode = newDir
	}
	err := p.create(d, h.By, at, func(name string) error {
		return kernel.Again(func() error { return unix.Mkdirat(at.fd, name, mode) })
	})
	if err != nil {
		return nil, immutable(at.fd, ".", err)
	}
	return newDirDraft(d), nil
}

// WritePart implements mover.Draft.
func (d *dirDraft) WritePart(context.Context, mover.Part, mover.Feed) (mover.Receipt, error) {
	return mover.Receipt{}, d.fail("write", fmt.Errorf("%w: a directory has no parts", mover.ErrUsage))
}

// Finish implements mover.Draft. What is built in the directory must be finished
// before it, because making a name changes the directory's times.
func (d *dirDraft) Finish(_ context.Context, e mover.Entry, _ []mover.Receipt) error {
	if err := d.enter("finish", drafting); err != nil {
		return err
	}
	defer d.mu.Unlock()
	err := d.sound()
	if err == nil {
		err = d.draft.rename(&e)
	}
	if err == nil {
		err = d.place.settle(d.draft, &e, false) // not fresh: it may inherit a default ACL
	}
	if err == nil && (d.place.system.Durable == fstype.EachFile || d.foreign) {
		err = d.spoil(d.place.syncDir(d.path))
	}
	if err != nil {
		return d.place.told(d.fail("finish", err))
	}
	d.state = finished
	return nil
}

// Suspend implements mover.Draft.
func (d *dirDraft) Suspend() error { return d.lay(suspended) }

// Close implements mover.Draft. It drops what is built in it, too.
func (d *dirDraft) Close() error {
	err := d.lay(dropped)
	d.place.handles.forget(d.path)
	return err
}

// gone reports whether the directory, or one that it is built in, is no longer a draft.
func (d *dirDraft) gone() bool {
	d.mu.RLock()
	over := d.state == published || d.state == dropped
	d.mu.RUnlock()
	return over || d.in != nil && d.in.gone()
}

// top is the directory draft that is renamed for all that is built in it.
func (d *dirDraft) top() *dirDraft {
	for d.in != nil {
		d = d.in
	}
	return d
}

// merge moves what is in the directory base of from into the existing one, name in
// to, because another process made that meanwhile. at is the name of both for reports. It
// returns an error only when nothing could be done; what could not be moved is
// noted in lost.
func (d *dirDraft) merge(from int, base string, to int, name string, at string) error {
	src, err := openList(from, base)
	if err != nil {
		return err
	}
	defer kernel.Close(src)
	dst, err := openList(to, name)
	if err != nil {
		return err
	}
	defer kernel.Close(dst)
	facts, err := readFacts(src) // before the moving changes its times
	if err != nil {
		return err
	}
	names, err := readNames(src)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := d.mergeOne(src, dst, n, mover.Join(at, n)); err != nil {
			d.lose(mover.Join(at, n), err)
		}
	}
	if err := giveFacts(dst, facts); err != nil {
		return err
	}
	if d.place.system.Durable == fstype.EachFile || d.foreign { // of the others, the directory that d is in is synced
		if err := d.spoil(d.place.fsyncDir(dst)); err != nil {
			return mover.Unconfirmed(err)
		}
	}
	return removeTree(from, base) // with what was lost, if anything: it can not be published any more
}

func (d *dirDraft) mergeOne(src, dst int, name, at string) error {
	err := renameNew(src, name, dst, name)
	if err != unix.EEXIST {
		return err
	}
	if err := namesake(dst, name); err != nil {
		return err
	}
	var now unix.Statx_t
	if err := kernel.StatxSegment(src, name, &now); err != nil {
		return err
	}
	if kernel.KindOf(now.Mode) != mover.Dir {
		return d.place.replace(src, name, dst, name, at, kernel.KindOf(now.Mode))
	}
	err = d.merge(src, name, dst, name, at)
	if err == unix.ENOTDIR || err == unix.ELOOP { // something else has the name
		return d.place.replace(src, name, dst, name, at, mover.Dir)
	}
	return err
}

// readFacts returns the facts of an open directory.
func readFacts(fd int) (mover.Entry, error) {
	var st unix.Statx_t
	if err := kernel.StatxFD(fd, &st); err != nil {
		return mover.Entry{}, err
	}
	e := kernel.EntryOf("", &st)
	xattrs, err := xattrs.Read(xattrs.OfFD(fd))
	e.Xattrs, e.Known = xattrs, e.Known|mover.FactXattrs
	return e, err
}

// giveFacts gives them to another one.
func giveFacts(fd int, e mover.Entry) error {
	var now unix.Statx_t
	if err := kernel.StatxFD(fd, &now); err != nil {
		return err
	}
	n := inode{fd: fd, kind: mover.Dir, mode: uint32(now.Mode) & modes, uid: now.Uid, gid: now.Gid}
	return n.setFacts(&e, false)
}

func (d *dirDraft) lose(name string, err error) {
	d.result.Lock()
	defer d.result.Unlock()
	if d.lost == nil {
		d.lost = map[string]error{}
	}
	d.lost[name] = err
}

// fate is what became of name, which was built in d.
func (d *dirDraft) fate(name string) error {
	d.result.Lock()
	defer d.result.Unlock()
	for ; name != "" && len(d.lost) > 0; name, _ = mover.Parent(name) {
		if err := d.lost[name]; err != nil {
			return err
		}
	}
	return nil
}
