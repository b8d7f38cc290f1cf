package posix

import (
	"context"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Clone implements mover.Cloner.
func (f *fileDraft) Clone(_ context.Context, c mover.Content) (bool, error) {
	cloned, err := f.clone(c)
	if t := f.place.tally; t != nil && (cloned || err != nil) {
		t.Copied(err)
	}
	return cloned, err
}

func (f *fileDraft) clone(c mover.Content) (bool, error) {
	from, ok := mover.As[*content](c)
	if !ok || f.place.opts.Reflink == ReflinkNever || from.entry.Kind != mover.File || !from.enter() {
		return false, nil
	}
	defer from.leave()
	if err := f.enter("clone", drafting); err != nil {
		return false, err
	}
	defer f.mu.Unlock()
	pair := [2]uint64{from.entry.Dev, f.place.device}
	if _, cannot := f.place.cloning.Load(pair); cannot || f.foreign {
		return false, nil
	}
	err := kernel.Again(func() error { return unix.IoctlFileClone(f.fd, from.fd) })
	switch err {
	case nil:
	case unix.EXDEV, unix.EOPNOTSUPP, unix.ENOTTY, unix.ENOSYS:
		f.place.cloning.Store(pair, struct{}{})
		return false, nil
	case unix.EINVAL, unix.EPERM, unix.EBADF, unix.ETXTBSY:
		return false, nil // not this file
	default:
		return false, f.fail("clone", err)
	}
	var st unix.Statx_t
	if err := kernel.StatxFD(f.fd, &st); err != nil {
		return false, f.fail("clone", err)
	}
	f.high.Store(int64(st.Size))
	f.cloned = true
	return true, nil
}
