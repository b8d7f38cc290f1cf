package posix

import (
	"context"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// nodeDraft is a symlink, FIFO, socket, device, or hard link under a temporary
// name: an inode that is whole as soon as it is there.
type nodeDraft struct {
	*draft
	fresh bool // begun here, so that nothing of it needs to be taken away
}

var typeBits = map[mover.Kind]uint32{
	mover.FIFO:        unix.S_IFIFO,
	mover.Socket:      unix.S_IFSOCK,
	mover.CharDevice:  unix.S_IFCHR,
	mover.BlockDevice: unix.S_IFBLK,
}

func (p *Backend) beginNode(d *draft, e *mover.Entry, h mover.Hints, at *handle) (some, error) {
	mode := uint32(private)
	if !e.Known.Has(mover.FactMode) {
		mode = newFile
	}
	put := func(name string) error { return unix.Symlinkat(e.Target, at.fd, name) }
	switch bits, special := typeBits[e.Kind]; {
	case special && e.Rdev > math.MaxUint32 && e.Kind != mover.FIFO && e.Kind != mover.Socket:
		return nil, fmt.Errorf("%w: device number %#x", mover.ErrUnsupported, e.Rdev) // mknod takes 12+20 bits
	case special:
		put = func(name string) error { return unix.Mknodat(at.fd, name, bits|mode, int(e.Rdev)) }
	case e.Target == "":
		return nil, fmt.Errorf("%w: a symlink without a target", mover.ErrUsage)
	}
	err := p.create(d, h.By, at, func(name string) error { return kernel.Again(func() error { return put(name) }) })
	if err != nil {
		return nil, immutable(at.fd, ".", err)
	}
	return &nodeDraft{draft: d, fresh: e.Kind == mover.Symlink || !hasDefaultACL(at)}, nil // else it has an ACL that e does not ask for
}

// beginLink makes another name of a published entry. ErrUnsupported where the file
// system has no links, no more of them, or another one is mounted.
func (p *Backend) beginLink(d *draft, e *mover.Entry, h mover.Hints, at *handle) (some, error) {
	if err := p.checkName("draft", h.Link, false); err != nil {
		return nil, err
	}
	leader, err := p.find(h.Link)
	if err != nil {
		return nil, err
	}
	defer leader.release()
	var st unix.Statx_t
	if err := leader.statx(&st); err != nil {
		return nil, fmt.Errorf("hard link to %s: %w", mover.Printable(h.Link), err)
	}
	if kernel.KindOf(st.Mode) != e.Kind {
		return nil, fmt.Errorf("hard link to %s: %w: it is a %v", mover.Printable(h.Link), mover.ErrChanged, kernel.KindOf(st.Mode))
	}
	err = p.create(d, h.By, at, func(name string) error {
		return kernel.Again(func() error { return unix.Linkat(leader.fd, leader.base, at.fd, name, 0) })
	})
	switch {
	case err == nil:
		d.link = true
		return &nodeDraft{draft: d, fresh: true}, nil
	case err == unix.EMLINK || err == unix.EXDEV || err == unix.EPERM || xattrs.Without(err):
		return nil, fmt.Errorf("%w: a hard link to %s: %w", mover.ErrUnsupported, mover.Printable(h.Link), err)
	}
	return nil, immutable(at.fd, ".", err)
}

// WritePart implements mover.Draft.
func (d *nodeDraft) WritePart(context.Context, mover.Part, mover.Feed) (mover.Receipt, error) {
	return mover.Receipt{}, d.fail("write", fmt.Errorf("%w: a %v has no parts here", mover.ErrUsage, d.kind))
}

// Finish implements mover.Draft. The facts of a hard link are its leader's.
func (d *nodeDraft) Finish(_ context.Context, e mover.Entry, _ []mover.Receipt) error {
	if err := d.enter("finish", drafting); err != nil {
		return err
	}
	defer d.mu.Unlock()
	err := d.rename(&e)
	if err == nil && !d.link {
		err = d.place.settle(d.draft, &e, d.fresh)
	}
	if err != nil {
		return d.place.told(d.fail("finish", err))
	}
	d.state = finished
	return nil
}

// settle gives a draft that is not open its facts.
func (p *Backend) settle(d *draft, e *mover.Entry, fresh bool) error {
	at, err := p.handles.get(d.seat)
	if err != nil {
		return err
	}
	defer at.release()
	var st unix.Statx_t
	if err := kernel.StatxSegment(at.fd, d.temp, &st); err != nil {
		return err
	}
	if kernel.KindOf(st.Mode) != e.Kind {
		return mover.ErrChanged
	}
	n := inode{fd: at.fd, base: d.temp, kind: e.Kind, mode: uint32(st.Mode) & modes, uid: st.Uid, gid: st.Gid}
	return n.setFacts(e, fresh)
}

// Suspend implements mover.Draft.
func (d *nodeDraft) Suspend() error { return d.lay(suspended) }

// Close implements mover.Draft.
func (d *nodeDraft) Close() error { return d.lay(dropped) }
