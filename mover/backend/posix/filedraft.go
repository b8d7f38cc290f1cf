package posix

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

const (
	// chunkBytes is how much of a part is read, hashed and written at once: small
	// enough to stay in the processor's cache between these.
	chunkBytes = 256 << 10
	// reserveBytes is the size from which a file's room is reserved beforehand.
	reserveBytes = 1 << 20
	private      = 0o600
	// What programs ask for when they make something; the umask takes away from it.
	newFile, newDir = 0o666, 0o777
)

// fileDraft is a regular file under a temporary name.
type fileDraft struct {
	*draft
	fd     int // -1 when closed; guarded by draft.mu
	self   inode
	fresh  bool         // begun here: nothing was in it
	high   atomic.Int64 // the end of the last byte that was written here, or was in it
	washes bool
}

var (
	_ mover.Cloner   = (*fileDraft)(nil)
	_ mover.Rereader = (*fileDraft)(nil)
	_ mover.Peeker   = (*fileDraft)(nil)
)

func (p *Backend) beginFile(d *draft, e *mover.Entry, h mover.Hints, at *handle) (some, error) {
	f := &fileDraft{draft: d, fd: -1, fresh: true, washes: p.washes(e.Size)}
	mode := p.birthMode(at.born.Load(), e)
	err := p.create(d, h.By, at, func(name string) (err error) {
		f.fd, err = p.newFile(at.fd, name, mode, e)
		return err
	})
	if err != nil {
		return nil, immutable(at.fd, ".", err)
	}
	if err = f.born(at, mode); err == nil {
		err = f.reserve(e)
	}
	if err != nil {
		kernel.Close(f.fd)
		_ = unlink(at.fd, f.temp, 0)
		return nil, err
	}
	return f, nil
}

// birthMode is the mode to create a file with. A small file that will have owner
// and group of a new one anyway gets its final mode at once, which saves a call.
// Others are private until they are given away, and large ones stay writable
// for a run that adopts them. One that will be given no mode has that of any new file.
func (p *Backend) birthMode(b *birth, e *mover.Entry) uint32 {
	switch {
	case !e.Known.Has(mover.FactMode):
		return newFile
	case b == nil || b.odd || b.acl || e.Size > tinyBytes || len(e.Xattrs) > 0,
		e.Mode&^0o777 != 0, e.Mode&p.umask != 0,
		e.Known.Has(mover.FactOwner) && e.UID != b.uid,
		e.Known.Has(mover.FactGroup) && e.GID != b.gid:
		return private
	}
	return e.Mode
}

// born notes what the new file got without our saying. The first file in a
// directory tells it for the others.
func (f *fileDraft) born(at *handle, asked uint32) error {
	b := at.born.Load()
	if b == nil {
		var st unix.Statx_t
		if err := kernel.StatxFD(f.fd, &st); err != nil {
			return err
		}
		b = &birth{uid: st.Uid, gid: st.Gid, acl: hasDefaultACL(at)}
		b.odd = uint32(st.Mode)&modes != asked&^f.place.umask
		at.born.Store(b)
	}
	f.self = inode{fd: f.fd, kind: mover.File, mode: asked &^ f.place.umask, uid: b.uid, gid: b.gid, inherited: b.acl}
	if b.odd || b.acl {
		f.self.mode = modes + 1
	}
	return nil
}

func hasDefaultACL(at *handle) bool {
	value, err := xattrs.Get(spot{fd: at.fd, base: "."}.attributes(), mover.XattrDefaultACL)
	return err == nil && len(value) > 0
}

// reserve asks for room for a file that has no holes, so that it is laid out in
// one piece, and so that a full file system says so before the work.
func (f *fileDraft) reserve(e *mover.Entry) error {
	if e.Size < reserveBytes || e.Stored < e.Size || e.Known.Has(mover.FactHoles) || f.place.system.COW {
		return nil
	}
	err := kernel.Again(func() error { return unix.Fallocate(f.fd, unix.FALLOC_FL_KEEP_SIZE, 0, e.Size) })
	if err == unix.ENOSPC || err == unix.EDQUOT || err == unix.EFBIG {
		return err
	}
	return nil // it was only a wish
}

func adoptFile(d *draft, at *handle, st *unix.Statx_t) (some, error) {
	f := &fileDraft{draft: d, washes: d.place.washes(int64(st.Size))}
	open := func() (err error) {
		f.fd, err = kernel.OpenSegment(at.fd, d.temp, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		return err
	}
	err := open()
	if err == unix.EACCES { // a finished one is as read-only as its entry
		made := inode{fd: at.fd, base: d.temp, kind: mover.File}
		if err = made.chmod(private); err == nil {
			err = open()
		}
	}
	if err != nil {
		return nil, err
	}
	var now unix.Statx_t
	if err := kernel.StatxFD(f.fd, &now); err != nil || now.Ino != st.Ino || kernel.DeviceOf(&now) != kernel.DeviceOf(st) {
		kernel.Close(f.fd)
		return nil, errors.Join(mover.ErrChanged, err)
	}
	f.self = inode{fd: f.fd, kind: mover.File, mode: uint32(now.Mode) & modes, uid: now.Uid, gid: now.Gid}
	f.high.Store(int64(now.Size))
	return f, nil
}

// WritePart implements mover.Draft.
func (f *fileDraft) WritePart(ctx context.Context, part mover.Part, feed mover.Feed) (mover.Receipt, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.state != drafting || f.fd < 0 || part.Off < 0 || part.Length < 0 {
		return mover.Receipt{}, f.fail("write", fmt.Errorf("%w: part of %d bytes at %d, draft is %v", mover.ErrUsage, part.Length, part.Off, f.state))
	}
	if part.Length > 0 {
		err := f.place.allowance.Bytes(f.place.root, part.Length)
		if err == nil {
			err = f.write(ctx, part, feed)
		}
		if err != nil {
			return mover.Receipt{}, f.fail("write", err)
		}
	}
	return mover.Receipt{Part: part, CRC: feed.Sum()}, nil
}

// tinyBuffers serves files that fit into one of them: as many are in use as there
// are goroutines that write, so they need not be counted.
var tinyBuffers = sync.Pool{New: func() any { return new([tinyBytes]byte) }}

const tinyBytes = 64 << 10

func (f *fileDraft) write(ctx context.Context, part mover.Part, feed mover.Feed) error {
	if part.Length <= tinyBytes {
		b := tinyBuffers.Get().(*[tinyBytes]byte)
		defer tinyBuffers.Put(b)
		return f.writeBy(ctx, b[:part.Length], part, feed)
	}
	b, err := f.place.opts.Buffers.Get(ctx, int(min(part.Length, chunkBytes)))
	if err != nil {
		return err
	}
	defer f.place.opts.Buffers.Put(b)
	return f.writeBy(ctx, b, part, feed)
}

// writeBy writes one part by way of b.
func (f *fileDraft) writeBy(ctx context.Context, b []byte, part mover.Part, feed mover.Feed) (err error) {
	off, end, taken := part.Off, part.Off+part.Length, int64(0)
	defer func() { f.place.wrote(1, taken) }()
	for off < end && err == nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var n int64
		if n = feed.Hole(); n > 0 {
			n = min(n, end-off)
			err = f.skip(off, n)
		} else {
			n, err = f.copy(b[:min(int64(len(b)), end-off)], off, feed)
			if taken += n; taken >= tellBytes {
				f.place.wrote(0, taken)
				taken = 0
			}
		}
		off += n
	}
	if err != nil && err != io.EOF {
		return err
	}
	if off < end {
		return fmt.Errorf("%w: %d of %d bytes came", io.ErrUnexpectedEOF, off-part.Off, part.Length)
	}
	if f.washes {
		return kernel.WriteBehind(f.fd, part.Off, part.Length)
	}
	return nil
}

// copy moves as much as fits into b.
func (f *fileDraft) copy(b []byte, off int64, feed mover.Feed) (int64, error) {
	n, end := feed.Read(b)
	if n > 0 {
		if err := kernel.PwriteAll(f.fd, b[:n], off); err != nil {
			return 0, f.place.told(kernel.Kinded(err))
		}
		f.reach(off + int64(n))
	} else if end == nil {
		return 0, io.ErrNoProgress
	}
	return int64(n), end
}

func (f *fileDraft) reach(end int64) {
	for {
		high := f.high.Load()
		if end <= high || f.high.CompareAndSwap(high, end) {
			return
		}
	}
}

// skip leaves a hole. Where something may have been written before, by an
// earlier try or another process, it is punched.
func (f *fileDraft) skip(off, n int64) error {
	if off >= f.high.Load() {
		return nil
	}
	err := kernel.Again(func() error {
		return unix.Fallocate(f.fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, off, n)
	})
	if err == unix.EOPNOTSUPP || err == unix.ENOSYS {
		return f.zero(off, n)
	}
	return err
}

var zeros [64 << 10]byte

func (f *fileDraft) zero(off, n int64) error {
	for n > 0 {
		step := min(n, int64(len(zeros)))
		if err := kernel.PwriteAll(f.fd, zeros[:step], off); err != nil {
			return err
		}
		off, n = off+step, n-step
	}
	f.reach(off)
	return nil
}

// Sync puts what was written so far on stable storage. A journal that is to
// remember parts of a large file calls it first.
func (f *fileDraft) Sync(context.Context) error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	if f.fd < 0 || f.place.system.Durable == fstype.Volatile {
		return nil
	}
	err := f.sound()
	if err == nil {
		err = f.spoil(kernel.Again(func() error { return f.place.flush.data(f.fd) }))
	}
	return f.fail("sync", err)
}

// Finish implements mover.Draft.
func (f *fileDraft) Finish(_ context.Context, e mover.Entry, receipts []mover.Receipt) error {
	if err := f.enter("finish", drafting); err != nil {
		return err
	}
	defer f.mu.Unlock()
	if err := f.finish(&e, receipts); err != nil {
		return f.place.told(f.fail("finish", err))
	}
	f.state = finished
	return nil
}

func (f *fileDraft) finish(e *mover.Entry, receipts []mover.Receipt) error {
	if err := f.sound(); err != nil {
		return err
	}
	if err := f.rename(e); err != nil {
		return err
	}
	if err := f.complete(e, receipts); err != nil {
		return err
	}
	if err := f.self.setFacts(e, f.fresh); err != nil {
		return err
	}
	if f.place.system.Durable == fstype.EachFile || f.foreign {
		if err := f.spoil(kernel.Again(func() error { return f.place.flush.file(f.fd) })); err != nil {
			return err
		}
	}
	err := unix.Close(f.fd)
	f.fd = -1
	if err != nil && err != unix.EINTR { // NFS and quotas tell here what write could not
		return f.spoil(err)
	}
	return nil
}

// complete checks that every byte came, and gives the file its length where it
// does not have it by the writing: a hole at the end, or an adopted file.
func (f *fileDraft) complete(e *mover.Entry, receipts []mover.Receipt) error {
	var have int64
	for _, r := range receipts {
		if r.Off != have {
			return fmt.Errorf("%w: the receipts leave out the bytes from %d to %d", mover.ErrUsage, have, r.Off)
		}
		have += r.Length
	}
	if f.cloned {
		have = f.high.Load()
	}
	if have != e.Size {
		return fmt.Errorf("%w: %d bytes for an entry of %d", mover.ErrUsage, have, e.Size)
	}
	if f.high.Load() == e.Size {
		return nil
	}
	f.high.Store(e.Size)
	return kernel.Again(func() error { return unix.Ftruncate(f.fd, e.Size) })
}

// Suspend implements mover.Draft.
func (f *fileDraft) Suspend() error {
	f.letGo()
	return f.lay(suspended)
}

// Close implements mover.Draft.
func (f *fileDraft) Close() error {
	f.letGo()
	return f.lay(dropped)
}

func (f *fileDraft) letGo() {
	f.mu.Lock()
	defer f.mu.Unlock()
	kernel.Close(f.fd)
	f.fd = -1
}
