package posix

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/allowance"
	"datamove.dev/mover/backend/posix/fstype"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
	"datamove.dev/mover/engine/bufpool"
)

// Reflink says whether drafts may share blocks with their source.
type Reflink uint8

// The ways to treat reflinks.
const (
	ReflinkAuto Reflink = iota // wherever the file system can
	ReflinkNever
)

// Options says how a directory is opened as a place. The zero value works.
type Options struct {
	Create   bool          // make the root and its parents when they are missing
	Beneath  string        // directory that the root is or lies below, with no symbolic link on the way; "" asks for nothing
	Inside   []string      // directories: the root, and Backup, lie below one of them, and no symbolic link leads out of it; none asks for nothing
	Backup   string        // directory on the same file system for what is replaced and removed; "" keeps nothing
	Buffers  *bufpool.Pool // memory for bytes on their way; nil is the pool of the process
	Reflink  Reflink
	Handles  int    // directories kept open between calls; 0 means 256
	KeepFree int    // percent of the file system that nothing is written into; 0 is none
	StateDir string // where locks go when the file system has none; "" is $XDG_STATE_HOME/datamove

	// FileSystem returns the driver for the file system of an open directory, which stays
	// open as long as the backend is. Nil, or a nil answer, is none.
	FileSystem func(dir int) (mover.FileSystem, error)
	Layouts    bool // entries of open files have their layout, and drafts get that of their entry
}

// Backend is a directory. It implements mover.Backend.
type Backend struct {
	root    int    // descriptor of the root; also what syncfs is asked on, so opened before the first write
	address string // the root's absolute path, for people
	opts    Options
	system  fstype.Type
	device  uint64
	mount   uint64 // the mount of the root, as statx(2) numbers it; 0 before Linux 5.8 // of the root
	traits  mover.Capabilities
	uid     uint32
	asRoot  bool   // uid 0: owners can be given, and O_NOATIME is allowed on files of others
	umask   uint32 // of the process; 0o777 when it is not known
	// washBytes is the size from which on a file does not stay in the page cache.
	washBytes int64
	readers   int         // of one walk
	plain     bool        // openat2 is missing: directories are opened segment by segment
	exact     atomic.Bool // no directory of the root's file system folds names

	fs        mover.FileSystem // nil: nothing is known of it but its type
	allowance allowance.Limit

	hidden string // the backup directory relative to the root, when it lies below it: walks leave it out
	backup *backup

	handles handles
	counter atomic.Uint64 // of temporary names
	owner   atomic.Value  // mover.WriterID: the last one that was found good
	cloning sync.Map      // [2]uint64{source, target device} -> struct{}: these two can not share blocks
	flush   flush
	loss    loss
	changed changedDirs
	notes   notes
	tally   mover.Tally // nil counts nothing

	dirLosses dirLosses
}

var _ mover.Backend = (*Backend)(nil)

// Open opens the directory root.
func Open(root string, opts Options) (*Backend, error) {
	address, err := filepath.Abs(root)
	if err != nil {
		return nil, &mover.Error{Op: "open", Location: root, Err: err}
	}
	p := &Backend{root: -1, address: address, opts: opts, uid: uint32(os.Geteuid()), asRoot: os.Geteuid() == 0, umask: umask(), washBytes: kernel.Memory() / 8, flush: byKernel}
	if err := p.open(); err != nil {
		_ = p.Close()
		return nil, p.fail("open", "", err)
	}
	return p, nil
}

func (p *Backend) open() error {
	if p.opts.Create && p.opts.Beneath == "" && len(p.opts.Inside) == 0 {
		if err := os.MkdirAll(p.address, 0o777); err != nil {
			return notDirectory(p.address, err)
		}
	}
	root, err := p.openRoot()
	if err != nil {
		return notDirectory(p.address, err)
	}
	p.root = root
	var st unix.Statx_t
	if err := kernel.StatxFD(p.root, &st); err != nil {
		return err
	}
	p.device, p.mount = kernel.DeviceOf(&st), kernel.MountIn(&st)
	if p.system, err = fstype.Of(p.root); err != nil {
		return err
	}
	p.readers = readersOf(&p.system)
	p.traits = p.system.Capabilities(p.asRoot, xattrs.NamesOf(p.root))
	p.plain = !hasOpenat2(p.root)
	p.handles.open(p, p.opts.Handles)
	p.ask()
	p.allowance.KeepFree = p.opts.KeepFree
	return p.openBackup()
}

// umask reads the mask of this process. There is a call for it too, but that one
// changes it for a moment, for all threads.
func umask() uint32 {
	const unknown = 0o777
	f, err := os.Open("/proc/self/status")
	if err != nil {
		return unknown
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Umask:"); ok {
			if mask, err := strconv.ParseUint(strings.TrimSpace(text), 8, 12); err == nil {
				return uint32(mask)
			}
		}
	}
	return unknown
}

func (p *Backend) String() string { return p.address }

// Capabilities implements mover.Source.
func (p *Backend) Capabilities() mover.Capabilities { return p.traits }

// Close ends the use of the place. Contents and drafts that are still open keep
// what they have open.
func (p *Backend) Close() error {
	p.handles.close()
	if c, ok := p.fs.(io.Closer); ok {
		_ = c.Close()
	}
	if p.backup != nil {
		kernel.Close(p.backup.root)
		p.backup = nil
	}
	fd := p.root
	p.root = -1
	kernel.Close(fd)
	return nil
}

// Stat implements mover.Source.
func (p *Backend) Stat(ctx context.Context, name string) (mover.Entry, error) {
	if err := p.checkName("stat", name, true); err != nil {
		return mover.Entry{}, err
	}
	if ctx.Err() != nil {
		return mover.Entry{}, context.Cause(ctx)
	}
	e, err := p.stat(name)
	return e, p.fail("stat", name, err)
}

// Glance is Stat of this very moment, without what takes more than one look (extended attributes, the target of a link): Stat
// believes for a while that a directory which is open is the one that its path leads to.
func (p *Backend) Glance(ctx context.Context, name string) (mover.Entry, error) {
	if err := p.checkName("stat", name, true); err != nil {
		return mover.Entry{}, err
	}
	if ctx.Err() != nil {
		return mover.Entry{}, context.Cause(ctx)
	}
	e, err := p.glance(name)
	return e, p.fail("stat", name, err)
}

func (p *Backend) glance(name string) (mover.Entry, error) {
	seat, base := mover.Parent(name)
	fd, _, err := p.openSeat(seat)
	if err == unix.ENOTDIR || err == unix.ELOOP {
		err = fmt.Errorf("%w: what is above it is no directory", mover.ErrNotExist)
	}
	if err != nil {
		return mover.Entry{}, err
	}
	defer kernel.Close(fd)
	var st unix.Statx_t
	if err := kernel.StatxSegment(fd, cmp.Or(base, "."), &st); err != nil {
		return mover.Entry{}, err
	}
	e := kernel.EntryOf(name, &st)
	e.Elsewhere = p.elsewhere(&st)
	if e.Kind == mover.Symlink {
		e.Size = 0 // as where its target is read
	}
	return e, nil
}

func (p *Backend) stat(name string) (mover.Entry, error) {
	at, err := p.find(name)
	if err == unix.ENOTDIR {
		err = fmt.Errorf("%w: what is above it is no directory", mover.ErrNotExist)
	}
	if err != nil {
		return mover.Entry{}, err
	}
	defer at.release()
	var st unix.Statx_t
	if err := at.statx(&st); err != nil {
		return mover.Entry{}, err
	}
	e := kernel.EntryOf(name, &st)
	if e.Kind == mover.Symlink {
		if e.Target, err = kernel.Readlink(at.fd, at.base, e.Size); err != nil {
			return mover.Entry{}, err
		}
		e.Size = 0
	}
	xattrs, err := at.xattrs(e.Kind)
	if err != nil {
		return mover.Entry{}, fmt.Errorf("extended attributes: %w", err)
	}
	e.SetXattrs(xattrs)
	if p.traits.Keeps.Has(mover.FactXattrs) {
		e.Known |= mover.FactXattrs
	}
	return e, nil
}

// elsewhere reports whether another file system, or another part of this one, is mounted at an entry or above it. Before Linux 5.8
// only another device tells.
func (p *Backend) elsewhere(st *unix.Statx_t) bool {
	if mount := kernel.MountIn(st); mount != 0 && p.mount != 0 {
		return mount != p.mount
	}
	return kernel.DeviceOf(st) != p.device && p.system.Name != "btrfs" // btrfs subvolumes have devices of their own
}
