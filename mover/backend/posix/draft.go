package posix

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// state is how far a draft has come.
type state uint8

const (
	drafting state = iota
	finished
	published
	suspended
	dropped
)

var stateNames = [...]string{"being written", "finished", "published", "suspended", "dropped"}

func (s state) String() string { return stateNames[s] }

// draft is what the drafts of all kinds have. It is small, because tens of
// thousands of finished ones wait for one Publish, and holds no descriptor then.
type draft struct {
	place *Backend
	in    *dirDraft // the directory draft in which it lies; nil is an existing directory
	name  string    // of the entry; "" of an adopted one until Finish
	seat  string    // the physical directory
	temp  string    // the name in it; inside a directory draft already the final one
	kind  mover.Kind

	mu      sync.RWMutex // held for reading while a part is written
	state   state        // guarded by mu
	link    bool         // another name of a published inode
	cloned  bool         // guarded by mu
	foreign bool         // on another device than the root: synced by itself
	losses  uint64       // what place.loss said when it was begun

	// broken is why a sync of it failed, or its close: the kernel tells once that writes were
	// lost, so that another try would seem to go well.
	broken atomic.Pointer[error]
}

// spoil notes that a sync of the draft failed; a nil err is none.
func (d *draft) spoil(err error) error {
	if err != nil {
		d.broken.CompareAndSwap(nil, &err)
	}
	return err
}

// sound is an error when what was written may be lost.
func (d *draft) sound() error {
	if why := d.broken.Load(); why != nil {
		return fmt.Errorf("%w: what was written may be lost, because an earlier sync said: %s", mover.ErrTransient, (*why).Error()) // of another kind
	}
	return nil
}

// some is any draft of this package.
type some interface {
	mover.Draft
	common() *draft
}

func (d *draft) common() *draft { return d }

// Token implements mover.Draft: where the draft lies.
func (d *draft) Token() mover.Token { return mover.Token(mover.Join(d.seat, d.temp)) }

func (d *draft) fail(op string, err error) error {
	name := d.name
	if name == "" {
		name = string(d.Token())
	}
	return d.place.fail(op, name, err)
}

// Draft implements mover.Target.
func (p *Backend) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	if err := p.checkNew("draft", e.Name); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	d := &draft{place: p, name: e.Name, kind: e.Kind, losses: p.loss.seen()}
	var base string
	d.seat, base = mover.Parent(e.Name)
	if err := d.sit(h.In, base); err != nil {
		return nil, p.fail("draft", e.Name, err)
	}
	made, err := p.begin(ctx, d, &e, h)
	if err == unix.ENOENT && h.In == nil && h.Link == "" { // the handle's directory may be removed, and another one be there
		p.handles.forget(d.seat)
		made, err = p.begin(ctx, d, &e, h)
	}
	if h.In == nil && p.opensUp(d.seat, err) {
		made, err = p.begin(ctx, d, &e, h)
	}
	if err != nil {
		return nil, p.fail("draft", e.Name, err)
	}
	return made, nil
}

// sit finds out where the draft lies when it is built in a directory draft.
func (d *draft) sit(in mover.Draft, base string) error {
	if in == nil {
		return nil
	}
	dir, ok := mover.As[*dirDraft](in)
	if !ok || dir.place != d.place || dir.name != d.seat {
		return fmt.Errorf("%w: it is to be built in a draft that is not its directory", mover.ErrUsage)
	}
	d.in, d.seat, d.temp = dir, dir.path, base
	return nil
}

func (p *Backend) begin(ctx context.Context, d *draft, e *mover.Entry, h mover.Hints) (some, error) {
	at, err := p.handles.get(d.seat)
	if err != nil {
		return nil, err
	}
	defer at.release()
	if h.Link == "" { // another name takes no room
		if err := p.allowance.Entry(p.root, e.Size); err != nil {
			return nil, err
		}
	}
	d.foreign = at.foreign
	switch {
	case h.Link != "":
		return p.beginLink(d, e, h, at)
	case e.Kind == mover.File:
		return p.beginFile(d, e, h, at)
	case e.Kind == mover.Dir:
		return p.beginDir(d, e, h, at)
	case e.Kind == mover.Symlink || e.Kind.Special():
		return p.beginNode(d, e, h, at)
	}
	return nil, fmt.Errorf("%w: an entry of kind %v", mover.ErrUsage, e.Kind)
}

// nameTries bounds the search for a free temporary name.
const nameTries = 1 << 16

// create calls put with names until one is free, and keeps it in d.temp. Inside a directory draft there is only one: what is in its way is left from a try
// that failed.
func (p *Backend) create(d *draft, by mover.WriterID, at *handle, put func(name string) error) error {
	if d.in != nil {
		err := put(d.temp)
		if err == unix.EEXIST {
			if err = namesake(at.fd, d.temp); err != nil {
				return err
			}
			if err = removeTree(at.fd, d.temp); err == nil {
				err = put(d.temp)
			}
		}
		return err
	}
	return p.freeName(by, func(name string) error {
		d.temp = name
		return put(name)
	})
}

// freeName calls use with temporary names until one is free.
func (p *Backend) freeName(by mover.WriterID, use func(name string) error) error {
	if by.Task == "" || p.owner.Load() != by {
		if _, _, ok := mover.ParseTempName(by.TempName(0)); !ok {
			return fmt.Errorf("%w: owner %q can not be part of a temporary name", mover.ErrUsage, by.Task)
		}
		p.owner.Store(by)
	}
	for range nameTries {
		if err := use(by.TempName(p.counter.Add(1))); err != unix.EEXIST {
			return err
		}
	}
	return unix.EEXIST
}

// parseToken finds where a draft lies. A token is hostile input: it must lead
// below the root, to a temporary name or into a directory that has one.
func (p *Backend) parseToken(t mover.Token) (seat, temp string, err error) {
	name := string(t)
	if name == "" || !mover.ValidName(name) {
		return "", "", fmt.Errorf("%w: not the token of a draft", mover.ErrUsage)
	}
	for seg := range strings.SplitSeq(name, "/") {
		if _, _, ok := mover.ParseTempName(seg); ok {
			seat, temp = mover.Parent(name)
			return seat, temp, nil
		}
	}
	return "", "", fmt.Errorf("%w: not the token of a draft", mover.ErrUsage)
}

// Adopt implements mover.Target.
func (p *Backend) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	seat, temp, err := p.parseToken(t)
	if err != nil {
		return nil, p.fail("adopt", string(t), err)
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	at, err := p.handles.get(seat)
	if err != nil {
		return nil, p.fail("adopt", string(t), err)
	}
	defer at.release()
	var st unix.Statx_t
	if err := kernel.StatxSegment(at.fd, temp, &st); err != nil {
		return nil, p.fail("adopt", string(t), err)
	}
	d := &draft{place: p, seat: seat, temp: temp, kind: kernel.KindOf(st.Mode), losses: p.loss.seen(), foreign: at.foreign}
	made, err := p.adopt(d, at, &st)
	if err != nil {
		return nil, p.fail("adopt", string(t), err)
	}
	return made, nil
}

func (p *Backend) adopt(d *draft, at *handle, st *unix.Statx_t) (some, error) {
	switch d.kind {
	case mover.File:
		return adoptFile(d, at, st)
	case mover.Dir:
		return newDirDraft(d), nil
	}
	return &nodeDraft{draft: d, fresh: false}, nil
}

// Drop implements mover.Target.
func (p *Backend) Drop(ctx context.Context, t mover.Token) error {
	seat, temp, err := p.parseToken(t)
	if err != nil {
		return p.fail("drop", string(t), err)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return p.fail("drop", string(t), p.remove(seat, temp))
}

// remove removes what is below seat and base; nothing there is no error.
func (p *Backend) remove(seat, base string) error {
	at, err := p.handles.get(seat)
	if err != nil {
		return ignoreMissing(err)
	}
	defer at.release()
	defer p.changed.around(p, at)()
	err = removeTree(at.fd, base)
	if err == unix.ENOTEMPTY || err == unix.EISDIR {
		err = removeTree(at.fd, base)
	}
	return immutable(at.fd, base, err)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// unlink removes one name; a directory must be empty.
func unlink(dirfd int, base string, flags int) error {
	return kernel.Again(func() error { return unix.Unlinkat(dirfd, base, flags) })
}

// removeTree removes base, and everything in it when it is a directory. No link
// is followed.
func removeTree(dirfd int, base string) error {
	err := unlink(dirfd, base, 0)
	if err != unix.EISDIR && err != unix.EPERM {
		return ignoreMissing(err)
	}
	denied := err // POSIX says EPERM for a directory, and Linux for an immutable file
	fd, err := openList(dirfd, base)
	if err == unix.ENOTDIR {
		return denied
	}
	if err != nil {
		return ignoreMissing(err)
	}
	defer kernel.Close(fd)
	names, err := readNames(fd)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := removeTree(fd, name); err != nil {
			return err
		}
	}
	return ignoreMissing(unlink(dirfd, base, unix.AT_REMOVEDIR))
}

// enter takes the draft for a call that changes it; leave with d.mu.Unlock when
// there is no error.
func (d *draft) enter(op string, allowed state) error {
	d.mu.Lock()
	if d.state != allowed {
		now := d.state
		d.mu.Unlock()
		return d.fail(op, fmt.Errorf("%w: the draft is %v", mover.ErrUsage, now))
	}
	return nil
}

// rename checks, for a draft that is finished as e, that e belongs where it lies.
func (d *draft) rename(e *mover.Entry) error {
	if err := d.place.checkNew("finish", e.Name); err != nil {
		return err
	}
	dir, base := mover.Parent(e.Name)
	fits := d.name == e.Name || d.name == "" && d.in == nil && dir == d.seat ||
		d.name == "" && !reserved(d.temp) && base == d.temp
	if !fits || e.Kind != d.kind {
		return fmt.Errorf("%w: draft %s of a %v can not become the %v %s", mover.ErrUsage,
			mover.Printable(string(d.Token())), d.kind, e.Kind, mover.Printable(e.Name))
	}
	d.name = e.Name
	return nil
}

// lay ends the work on a draft: Suspend leaves it for others, Close removes it.
func (d *draft) lay(to state) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.state > finished:
		return nil
	case to == suspended:
		d.state = suspended
		return nil
	}
	d.state = dropped
	if d.in != nil && d.in.gone() {
		return nil // it went with its directory
	}
	return d.fail("drop", d.place.remove(d.seat, d.temp))
}
