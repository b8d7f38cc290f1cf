package posix

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Clone implements mover.Cloner.
func (f *fileDraft) Clone(_ context.Context, c mover.Content) (bool, error) {
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
	err := again(func() error { return unix.IoctlFileClone(f.fd, from.fd) })
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
	if err := statxFD(f.fd, &st); err != nil {
		return false, f.fail("clone", err)
	}
	f.high.Store(int64(st.Size))
	f.cloned = true
	return true, nil
}

// duplicate copies a published entry within the file system.
func (p *Place) duplicate(ctx context.Context, d *draft, e *mover.Entry, h mover.Hints, at *handle) (some, error) {
	leader, err := p.Stat(ctx, h.Link)
	if err != nil {
		return nil, err
	}
	if e.Kind != mover.File {
		leader.Name = e.Name
		return p.beginNode(d, &leader, h, at)
	}
	c, err := p.Open(ctx, leader)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	from, _ := mover.As[*content](c)
	made, err := p.beginFile(d, &leader, h, at)
	if err != nil {
		return nil, err
	}
	f := made.(*fileDraft)
	if err := f.pull(ctx, from); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// pull copies all of from: in the kernel, where that can.
func (f *fileDraft) pull(ctx context.Context, from *content) error {
	const step = 1 << 30 // copy_file_range may be given more than it does at once
	inKernel := true
	for off := int64(0); off < from.entry.Size; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		pull := f.pullBytes
		if inKernel {
			pull = f.pullRange
		}
		n, err := pull(ctx, from, off, min(step, from.entry.Size-off))
		switch {
		case inKernel && (err == unix.EXDEV || err == unix.EINVAL || without(err)): // as for another mount inside the tree
			inKernel = false
			continue
		case err != nil:
			return err
		case n == 0:
			return mover.ErrChanged
		}
		off += n
	}
	f.reach(from.entry.Size)
	f.cloned = true
	return from.Check(ctx)
}

func (f *fileDraft) pullRange(_ context.Context, from *content, off, n int64) (int64, error) {
	var done int
	err := again(func() (err error) {
		in, out := off, off
		done, err = unix.CopyFileRange(from.fd, &in, f.fd, &out, int(n), 0)
		return err
	})
	return int64(done), err
}

func (f *fileDraft) pullBytes(ctx context.Context, from *content, off, n int64) (int64, error) {
	b, err := f.place.opts.Buffers.Get(ctx, int(min(n, chunkBytes)))
	if err != nil {
		return 0, err
	}
	defer f.place.opts.Buffers.Put(b)
	done, err := pread(from.fd, b, off)
	if err == nil {
		err = pwriteAll(f.fd, b[:done], off)
	}
	return int64(done), err
}
