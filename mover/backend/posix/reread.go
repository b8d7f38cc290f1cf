package posix

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Reread implements mover.Rereader.
func (f *fileDraft) Reread(ctx context.Context) (mover.Content, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.state > finished {
		return nil, f.fail("reread", fmt.Errorf("%w: the draft is %v", mover.ErrUsage, f.state))
	}
	at, err := f.place.handles.get(f.seat)
	if err != nil {
		return nil, f.fail("reread", err)
	}
	defer at.release()
	c, err := f.reread(at)
	return c, f.place.told(f.fail("reread", err))
}

// reread opens the draft past the cache: what is dirty is written, and then all
// pages are let go of.
func (f *fileDraft) reread(at *handle) (mover.Content, error) {
	fd, err := kernel.OpenSegment(at.fd, f.temp, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	c := &content{place: f.place, fd: fd}
	c.users.Store(1)
	var st unix.Statx_t
	err = kernel.Again(func() error { return unix.Fsync(fd) })
	if err == nil {
		err = unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED)
	}
	if err == nil {
		err = kernel.StatxFD(fd, &st)
	}
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	c.entry = kernel.EntryOf(f.name, &st)
	return c, nil
}

// Peek implements mover.Peeker.
func (f *fileDraft) Peek() (mover.Peeked, error) {
	at, err := f.place.handles.get(f.seat)
	if err != nil {
		return nil, f.fail("peek", err)
	}
	defer at.release()
	fd, err := kernel.OpenSegment(at.fd, f.temp, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, f.fail("peek", err)
	}
	return os.NewFile(uintptr(fd), string(f.Token())), nil
}
