package posix

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

var (
	_ mover.Aligner    = (*fileDraft)(nil)
	_ mover.Recaller   = (*Backend)(nil)
	_ mover.UseTeller  = (*Backend)(nil)
	_ mover.RoomTeller = (*Backend)(nil)
	_ mover.Striped    = (*content)(nil)
)

// ask finds the driver of the file system. What no driver knows is
// done in the usual way.
func (p *Backend) ask() {
	if p.opts.FileSystem == nil {
		return
	}
	fs, err := p.opts.FileSystem(p.root)
	if err != nil {
		p.notes.add(fmt.Sprintf("%s is treated as any file system: %v", p.address, err))
		return
	}
	p.fs = fs
	p.allowance.FileSystem = fs
}

// newFile makes the file of a draft, laid out for what it will be.
func (p *Backend) newFile(dir int, name string, mode uint32, e *mover.Entry) (int, error) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL | unix.O_NOFOLLOW
	if p.fs != nil {
		fd, err := p.fs.Create(dir, name, flags|unix.O_CLOEXEC, mode, mover.NewFile{Size: e.Size, Layout: e.Layout})
		switch {
		case errors.Is(err, unix.EEXIST):
			return -1, unix.EEXIST // another name is tried
		case !errors.Is(err, mover.ErrUnsupported):
			return fd, err
		}
	}
	if e.Layout != nil {
		p.notes.add(fmt.Sprintf("%s: layouts are not kept: files have that of their directory, or none", p.address))
	}
	return kernel.OpenSegment(dir, name, flags, mode)
}

// PartMultiple implements mover.Aligner.
func (f *fileDraft) PartMultiple(size int64) int64 {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.place.fs == nil || f.fd < 0 {
		return 0
	}
	return f.place.fs.Multiple(f.fd, size)
}

// StripeWidth implements mover.Striped.
func (c *content) StripeWidth() int64 {
	if c.place.fs == nil || c.entry.Kind != mover.File || !c.enter() {
		return 0
	}
	defer c.leave()
	_, width, err := c.place.fs.Layout(c.fd)
	if err != nil {
		return 0
	}
	return width
}

// present refuses a file with content in an archive only: its reader would wait for
// it, perhaps for ever, and could not be stopped. Content that is there stays there, because
// an open file is not released.
func (c *content) present() error {
	fs := c.place.fs
	if fs == nil || c.entry.Kind != mover.File || c.entry.Size == 0 || c.here.Load() {
		return nil
	}
	away, err := fs.Away(c.fd)
	switch {
	case err != nil && !errors.Is(err, mover.ErrUnsupported):
		return fmt.Errorf("is its content in an archive: %w", err)
	case away:
		return fmt.Errorf("%w: its content is in the archive only", mover.ErrReleased)
	}
	c.here.Store(true)
	return nil
}

// laidOut notes how the file is laid out, where that is to be kept.
func (c *content) laidOut() error {
	if !c.place.opts.Layouts || c.entry.Kind != mover.File {
		return nil
	}
	var layout []byte
	err := mover.ErrUnsupported
	if fs := c.place.fs; fs != nil {
		layout, _, err = fs.Layout(c.fd)
	}
	switch {
	case errors.Is(err, mover.ErrUnsupported):
		c.place.notes.add(fmt.Sprintf("%s: there are no layouts to keep (%s)", c.place.address, c.place.system.Name))
	case err != nil:
		return fmt.Errorf("layout: %w", err)
	}
	c.entry.Layout = layout
	return nil
}

// recallMost is how many files are held open for one request.
const recallMost = 64

// Recall implements mover.Recaller.
func (p *Backend) Recall(ctx context.Context, entries []mover.Entry) error {
	if p.fs == nil {
		return p.fail("recall", "", mover.ErrUnsupported)
	}
	for len(entries) > 0 {
		n := min(len(entries), recallMost)
		if err := p.recall(ctx, entries[:n]); err != nil {
			return p.fail("recall", entries[0].Name, err)
		}
		entries = entries[n:]
	}
	return nil
}

func (p *Backend) recall(ctx context.Context, entries []mover.Entry) error {
	fds := make([]int, 0, len(entries))
	defer func() {
		for _, fd := range fds {
			kernel.Close(fd)
		}
	}()
	for i := range entries {
		fd, err := p.openAway(&entries[i])
		if errors.Is(err, mover.ErrNotExist) || errors.Is(err, mover.ErrChanged) {
			continue // the call that opens it reports the error
		}
		if err != nil {
			return err
		}
		fds = append(fds, fd)
	}
	if len(fds) == 0 {
		return nil
	}
	return p.fs.Recall(ctx, fds)
}

// openAway opens a file to ask about it; its content is not touched.
func (p *Backend) openAway(e *mover.Entry) (int, error) {
	if err := p.checkName("open", e.Name, false); err != nil {
		return -1, err
	}
	at, err := p.find(e.Name)
	if err != nil {
		return -1, err
	}
	defer at.release()
	fd, err := p.openEntry(at, e)
	if err != nil {
		return -1, changedKind(err)
	}
	var st unix.Statx_t
	if err := kernel.StatxFD(fd, &st); err != nil || e.Ino != 0 && st.Ino != e.Ino {
		kernel.Close(fd)
		return -1, errors.Join(mover.ErrChanged, err)
	}
	return fd, nil
}

// InUse implements mover.UseTeller: a lease for writing is given only where no other descriptor or mapping of the file is there (F_SETLEASE of
// fcntl(2)). A file system that gives none, and a file of another user where this process is not root, say nothing.
func (p *Backend) InUse(ctx context.Context, e mover.Entry) (bool, error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	fd, err := p.openAway(&e)
	if err != nil {
		return false, p.fail("look at", e.Name, err)
	}
	defer kernel.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_WRLCK)
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return false, p.fail("look at", e.Name, err)
	}
	return err == unix.EAGAIN, nil
}

// Restripe gives the very file e another layout, as mover.Restriper does: mover.ErrChanged when it is another one by now, or in use.
func (p *Backend) Restripe(ctx context.Context, e mover.Entry, words string) error {
	r, ok := p.fs.(mover.Restriper)
	if !ok {
		return p.fail("restripe", e.Name, fmt.Errorf("%w: files keep their layout here", mover.ErrUnsupported))
	}
	fd, err := p.openAway(&e)
	if err != nil {
		return p.fail("restripe", e.Name, err)
	}
	kernel.Close(fd)
	seat, base := mover.Parent(e.Name)
	dir, _, err := p.openSeat(seat)
	if err != nil {
		return p.fail("restripe", e.Name, err)
	}
	defer kernel.Close(dir)
	return p.fail("restripe", e.Name, r.Restripe(ctx, dir, base, words))
}

// Release gives back the space of the very file e, which has its content in the archive of its file system. The error is mover.ErrConflict when the archive has not that content,
// and mover.ErrChanged when e has been replaced or changed.
func (p *Backend) Release(ctx context.Context, e mover.Entry) error {
	r, ok := p.fs.(mover.Releaser)
	if !ok {
		return p.fail("release", e.Name, fmt.Errorf("%w: its file system has no archive", mover.ErrUnsupported))
	}
	fd, err := p.openAway(&e)
	if err != nil {
		return p.fail("release", e.Name, err)
	}
	defer kernel.Close(fd)
	return p.fail("release", e.Name, r.Release(ctx, fd))
}

// Away implements mover.Recaller.
func (p *Backend) Away(_ context.Context, e mover.Entry) (bool, error) {
	if p.fs == nil {
		return false, nil
	}
	fd, err := p.openAway(&e)
	if err != nil {
		return false, p.fail("open", e.Name, err)
	}
	defer kernel.Close(fd)
	away, err := p.fs.Away(fd)
	return away, p.fail("ask", e.Name, err)
}

// Room implements mover.RoomTeller.
func (p *Backend) Room(ctx context.Context) (mover.Room, error) {
	if ctx.Err() != nil {
		return mover.Room{}, context.Cause(ctx)
	}
	if p.system.COW { // and may compress
		return mover.Room{}, p.fail("room", "", mover.ErrUnsupported)
	}
	room, limited, err := p.allowance.Left(p.root)
	var st unix.Statfs_t
	if err == nil {
		err = kernel.Again(func() error { return unix.Fstatfs(p.root, &st) })
	}
	if err != nil {
		return mover.Room{}, p.fail("room", "", err)
	}
	if left := int64(st.Bavail) * st.Bsize; st.Blocks > 0 && (!limited || room.Bytes < 0 || left < room.Bytes) {
		room = mover.Room{Bytes: left, Files: room.Files, Why: "its file system has no more that is free"}
	} else if !limited {
		room.Bytes = -1 // a process that serves it need not say how large it is
	}
	return room, nil
}
