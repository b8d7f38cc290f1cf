package posix

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// content is an entry held open. Its descriptor is closed when the content and
// every reader of it are closed, so that none of them ever reads the file that got
// the number next.
type content struct {
	place  *Backend
	entry  mover.Entry
	fd     int
	users  atomic.Int32
	closed atomic.Bool
	here   atomic.Bool // its content is known not to be in an archive only
	asked  asked
	washes bool // its pages are let go of behind the reader
}

var _ mover.Content = (*content)(nil)

// Open implements mover.Source.
func (p *Backend) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	if err := p.checkName("open", e.Name, true); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	at, err := p.find(e.Name)
	if err != nil {
		return nil, p.fail("open", e.Name, err)
	}
	defer at.release()
	fd, err := p.openEntry(at, &e)
	if err != nil {
		return nil, p.fail("open", e.Name, changedKind(err))
	}
	c := &content{place: p, fd: fd}
	c.users.Store(1)
	if err := c.load(&e, at); err != nil {
		kernel.Close(fd)
		return nil, p.fail("open", e.Name, err)
	}
	c.washes = p.washes(e.Size) && kernel.Cold(fd, e.Size)
	return c, nil
}

// openEntry opens what e says that it is. O_NONBLOCK is for a FIFO that took a
// file's name: opening it must not wait for its writer.
func (p *Backend) openEntry(at spot, e *mover.Entry) (int, error) {
	flags := unix.O_NOFOLLOW
	switch e.Kind {
	case mover.File:
		flags |= unix.O_RDONLY | unix.O_NONBLOCK
	case mover.Dir:
		flags |= unix.O_RDONLY | unix.O_DIRECTORY
	case mover.Symlink, mover.FIFO, mover.Socket, mover.CharDevice, mover.BlockDevice:
		return kernel.OpenSegment(at.fd, at.base, flags|unix.O_PATH, 0)
	default:
		return -1, fmt.Errorf("%w: an entry of kind %v", mover.ErrUsage, e.Kind)
	}
	if p.asRoot || e.UID == p.uid {
		fd, err := kernel.OpenSegment(at.fd, at.base, flags|unix.O_NOATIME, 0)
		if err != unix.EPERM { // root of a user namespace is not root of every file
			return fd, err
		}
	}
	return kernel.OpenSegment(at.fd, at.base, flags, 0)
}

// changedKind says what the kernel means when a name is no longer of its kind:
// a symlink (ELOOP), no directory (ENOTDIR), a socket (ENXIO).
func changedKind(err error) error {
	switch err {
	case unix.ELOOP, unix.ENOTDIR, unix.ENXIO:
		return fmt.Errorf("%w (%w)", mover.ErrChanged, err)
	}
	return err
}

// trustBytes is the size up to which a file is first read and then compared with
// its entry: a Check must follow in any case, and for a small file one call less
// is a tenth of the whole.
const trustBytes = 64 << 10

// load compares the open file with e, or leaves that to Check, and fills the entry.
func (c *content) load(e *mover.Entry, at spot) error {
	if e.Kind == mover.File && e.Size <= trustBytes && e.Known.Has(kernel.Known) && e.Ino != 0 {
		c.entry = *e
	} else if err := c.compare(e); err != nil {
		return err
	}
	if err := c.laidOut(); err != nil {
		return err
	}
	if err := c.empty(e); err != nil {
		return err
	}
	var of xattrs.Attributes = xattrs.OfFD(c.fd)
	switch e.Kind {
	case mover.File, mover.Dir:
	case mover.Symlink:
		target, err := kernel.Readlink(c.fd, "", c.entry.Size)
		if err != nil {
			return err
		}
		c.entry.Target, c.entry.Size = target, 0
		of = at.attributes()
	default:
		of = at.attributes()
	}
	xattrs, err := xattrs.Read(of)
	if err != nil {
		return fmt.Errorf("extended attributes: %w", err)
	}
	c.entry.SetXattrs(xattrs)
	c.entry.Brief = false
	if c.place.traits.Keeps.Has(mover.FactXattrs) {
		c.entry.Known |= mover.FactXattrs
	}
	return nil
}

// empty refuses a file of size 0 that has content, as most files of a procfs: no range of it would be read, and the copy would be an empty file.
func (c *content) empty(e *mover.Entry) error {
	if c.entry.Kind != mover.File || c.entry.Size != 0 {
		return nil
	}
	var b [1]byte
	n, err := kernel.Pread(c.fd, b[:], 0)
	if err != nil || n == 0 {
		return err
	}
	if err := c.compare(e); err != nil { // it was written to since
		return err
	}
	return fmt.Errorf("%w: it has content, and its file system tells a size of 0; cp reads it to its end", mover.ErrUnsupported)
}

// compare takes the facts of the open file, which has to be e.
func (c *content) compare(e *mover.Entry) error {
	var st unix.Statx_t
	if err := kernel.StatxFD(c.fd, &st); err != nil {
		return err
	}
	if !kernel.Same(&st, e) {
		return mover.ErrChanged
	}
	c.entry.Name = e.Name
	kernel.Fill(&c.entry, &st)
	return nil
}

func (c *content) Entry() mover.Entry { return c.entry }

func (c *content) Check(context.Context) error {
	if !c.enter() {
		return c.place.fail("check", c.entry.Name, fs.ErrClosed)
	}
	defer c.leave()
	var st unix.Statx_t
	err := kernel.StatxFD(c.fd, &st)
	if err == nil && !kernel.Same(&st, &c.entry) {
		err = mover.ErrChanged
	}
	c.count(0, 1, 0)
	return c.place.told(c.place.fail("check", c.entry.Name, err))
}

func (c *content) Segment(off int64) (mover.Segment, error) {
	if !c.enter() {
		return mover.Segment{}, c.place.fail("segment", c.entry.Name, fs.ErrClosed)
	}
	defer c.leave()
	if err := c.present(); err != nil { // of which a file system says that it is one hole
		return mover.Segment{}, c.place.fail("segment", c.entry.Name, err)
	}
	size := c.entry.Size
	if c.entry.Stored >= size || off >= size {
		return mover.Segment{Start: min(off, size), End: size}, nil
	}
	start, err := seek(c.fd, off, unix.SEEK_DATA)
	if err == unix.ENXIO { // only a hole is left, or the file became shorter
		return mover.Segment{Start: size, End: size}, nil
	}
	if err == unix.EINVAL || err == unix.EOPNOTSUPP { // a file system that does not tell
		return mover.Segment{Start: off, End: size}, nil
	}
	if err != nil {
		return mover.Segment{}, c.place.fail("segment", c.entry.Name, err)
	}
	end, err := seek(c.fd, start, unix.SEEK_HOLE)
	if err != nil { // ENXIO too: the file was cut off between the calls
		return mover.Segment{}, c.place.fail("segment", c.entry.Name, fmt.Errorf("%w (%w)", mover.ErrChanged, err))
	}
	return mover.Segment{Start: min(start, size), End: min(end, size)}, nil
}

// seek moves the descriptor's own offset, which no other call uses.
func seek(fd int, off int64, whence int) (n int64, err error) {
	err = kernel.Again(func() error {
		n, err = unix.Seek(fd, off, whence)
		return err
	})
	return n, err
}

func (c *content) Close() error {
	if !c.closed.Swap(true) {
		c.leave()
	}
	return nil
}

// enter says that the descriptor is in use until leave; false when it is closed.
func (c *content) enter() bool {
	for {
		n := c.users.Load()
		if n == 0 {
			return false
		}
		if c.users.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (c *content) leave() {
	if c.users.Add(-1) > 0 {
		return
	}
	c.tell(1)
	if c.washes {
		kernel.LetGo(c.fd, 0, c.entry.Size) // what was still on its way when its range was let go of
	}
	kernel.Close(c.fd)
}

// Range implements mover.Content.
func (c *content) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	if c.entry.Kind != mover.File || off < 0 || n < 0 {
		return nil, c.place.fail("read", c.entry.Name, fmt.Errorf("%w: %d bytes at %d of a %v", mover.ErrUsage, n, off, c.entry.Kind))
	}
	if !c.enter() {
		return nil, c.place.fail("read", c.entry.Name, fs.ErrClosed)
	}
	if err := c.present(); err != nil {
		c.leave()
		return nil, c.place.fail("read", c.entry.Name, err)
	}
	c.count(1, 0, 0)
	return &reader{c: c, from: off, off: off, told: off, end: off + n}, nil
}

// reader reads one range. It belongs to one goroutine.
type reader struct {
	c                    *content // nil when closed
	from, off, told, end int64
}

func (r *reader) Read(b []byte) (int, error) {
	if r.c == nil {
		return 0, fs.ErrClosed
	}
	if r.off >= r.end {
		return 0, io.EOF
	}
	b = b[:min(int64(len(b)), r.end-r.off)]
	n, err := kernel.Pread(r.c.fd, b, r.off)
	if err != nil {
		return 0, r.c.place.told(r.c.place.fail("read", r.c.entry.Name, err))
	}
	if n == 0 && len(b) > 0 {
		return 0, r.short()
	}
	if r.off += int64(n); r.off-r.told >= tellBytes {
		r.tell()
	}
	return n, nil
}

// short says why the file ended early: because the range was never in it, or
// because it was cut off since.
func (r *reader) short() error {
	if r.off >= r.c.entry.Size {
		return r.c.place.fail("read", r.c.entry.Name, io.ErrUnexpectedEOF)
	}
	return r.c.place.fail("read", r.c.entry.Name,
		fmt.Errorf("%w: it ends at %d of %d bytes (%w)", mover.ErrChanged, r.off, r.c.entry.Size, io.ErrUnexpectedEOF))
}

// tell notes the bytes that came.
func (r *reader) tell() {
	r.c.count(0, 0, r.off-r.told)
	r.told = r.off
}

func (r *reader) Close() error {
	if r.c == nil {
		return nil
	}
	r.tell()
	if r.c.washes {
		kernel.LetGo(r.c.fd, r.from, r.off-r.from)
	}
	r.c.leave()
	r.c = nil
	return nil
}

// washes reports whether a file is so large that copying it would push what
// others use out of the page cache. On a file system in memory there is nothing
// to let go of.
func (p *Backend) washes(size int64) bool {
	return p.system.Durable != fstype.Volatile && size > p.washBytes
}
