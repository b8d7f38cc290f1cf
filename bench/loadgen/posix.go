package loadgen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// sector is what O_DIRECT wants offsets, lengths and addresses to be a multiple of.
const sector = 4096

// directory is a store on a mounted file system. All names are looked up from an open descriptor of the run's directory, and no link is followed at their end.
type directory struct {
	target string      // as it was given
	name   string      // of the run's directory in it
	made   bool        // by this node: it was not there
	fd     int         // of that directory
	direct atomic.Bool // this work reads and writes past the page cache
	drop   atomic.Bool // or drops pages before it reads
	sync   atomic.Bool // before a file is closed
}

// openDirectory makes the directory of a run. Another node of the same run may have made it: then it has to be a directory of this user, without write permission for others.
func openDirectory(target, name string) (*directory, error) {
	d := &directory{target: target, name: name}
	path := filepath.Join(target, name)
	err := os.Mkdir(path, 0o700)
	d.made = err == nil
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, kindOf(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, kindOf(&fs.PathError{Op: "open", Path: path, Err: err})
	}
	d.fd = fd
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && (st.Uid != uint32(os.Geteuid()) || st.Mode&0o022 != 0) {
		err = fmt.Errorf("%s: %w: it belongs to another account, or others may write to it", path, mover.ErrConflict)
	}
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// kindOf gives errors of file systems the kind that decides about exit codes.
func kindOf(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	case errors.Is(err, unix.ESTALE), errors.Is(err, unix.ENOTCONN), errors.Is(err, unix.ESHUTDOWN), errors.Is(err, unix.EHOSTDOWN):
		return fmt.Errorf("%w: %w", mover.ErrUnreachable, err)
	}
	return err
}

// failed is an error about a name below the run's directory.
func (d *directory) failed(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return kindOf(&fs.PathError{Op: op, Path: filepath.Join(d.target, d.name, name), Err: err})
}

// again repeats a call that a signal has ended.
func again(call func() error) error {
	for {
		if err := call(); err != unix.EINTR {
			return err
		}
	}
}

// Mkdir implements store. A directory that is there is one of another rank, or of an earlier phase.
func (d *directory) Mkdir(_ context.Context, name string) error {
	err := again(func() error { return unix.Mkdirat(d.fd, name, 0o700) })
	if err == unix.EEXIST {
		return nil
	}
	return d.failed("mkdir", name, err)
}

func (d *directory) open(name string, flags int) (file, error) {
	if d.direct.Load() {
		flags |= unix.O_DIRECT
	}
	var fd int
	err := again(func() (err error) {
		fd, err = unix.Openat(d.fd, name, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		return err
	})
	if err != nil {
		return nil, d.failed("open", name, err)
	}
	return &opened{fd: fd, in: d, name: name, writes: flags&unix.O_WRONLY != 0}, nil
}

// Create implements store.
func (d *directory) Create(_ context.Context, name string, _ *Tree) (file, error) {
	return d.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL)
}

// Share implements store.
func (d *directory) Share(_ context.Context, name string, _ *Tree) (file, error) {
	return d.open(name, unix.O_WRONLY|unix.O_CREAT)
}

// Open implements store.
func (d *directory) Open(_ context.Context, name string, _ *Tree) (file, error) {
	f, err := d.open(name, unix.O_RDONLY)
	if err == nil && d.drop.Load() {
		_ = unix.Fadvise(f.(*opened).fd, 0, 0, unix.FADV_DONTNEED) // advice
	}
	return f, err
}

// Stat implements store.
func (d *directory) Stat(_ context.Context, name string, _ *Tree) error {
	var st unix.Stat_t
	return d.failed("stat", name, again(func() error { return unix.Fstatat(d.fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) }))
}

// Rename implements store.
func (d *directory) Rename(_ context.Context, from, to string) error {
	return d.failed("rename", from, again(func() error { return unix.Renameat(d.fd, from, d.fd, to) }))
}

// Unlink implements store.
func (d *directory) Unlink(_ context.Context, name string, _ *Tree) error {
	return d.failed("unlink", name, again(func() error { return unix.Unlinkat(d.fd, name, 0) }))
}

// namesAtOnce is how many names of a directory are asked for.
const namesAtOnce = 1024

// List implements store.
func (d *directory) List(ctx context.Context, name string, look bool) (found int64, err error) {
	fd, err := unix.Openat(d.fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, d.failed("open", name, err)
	}
	dir := os.NewFile(uintptr(fd), name)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(namesAtOnce)
		for _, n := range names {
			var st unix.Stat_t
			if look && again(func() error { return unix.Fstatat(fd, n, &st, unix.AT_SYMLINK_NOFOLLOW) }) != nil {
				continue // another process has removed it
			}
			found++
		}
		if errors.Is(err, io.EOF) {
			return found, nil
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return found, d.failed("list", name, err)
		}
	}
}

// Ready implements store. A block that is no multiple of a sector, and a file system without O_DIRECT, go through the page cache.
func (d *directory) Ready(ctx context.Context, w *Work) (string, error) {
	if err := d.Mkdir(ctx, w.Tree.Name); err != nil {
		return "", err
	}
	d.sync.Store(w.Durable == EachEnd)
	d.direct.Store(false)
	d.drop.Store(w.Cache != Keep)
	switch {
	case w.Cache == Keep:
		return "through the page cache of the client: what is read may come from memory", nil
	case !w.Do.moves():
		return "", nil
	case w.Cache == Direct && (w.Tree.block()%sector != 0 || w.Tree.Bytes%sector != 0):
		return "through the page cache of the client, that is dropped before it is read: blocks are no multiple of 4 KiB", nil
	case w.Cache == Direct:
		if err := d.probe(); errors.Is(err, unix.EINVAL) {
			return "through the page cache of the client, that is dropped before it is read: this file system has no O_DIRECT", nil
		} else if err != nil {
			return "", err
		}
		d.direct.Store(true)
		d.drop.Store(false)
		return "past the page cache of the client, by O_DIRECT", nil
	}
	return "through the page cache of the client, that is dropped before it is read", nil
}

// probe says whether files here can be opened past the page cache.
func (d *directory) probe() error {
	const name = ".probe"
	fd, err := unix.Openat(d.fd, name, unix.O_WRONLY|unix.O_CREAT|unix.O_DIRECT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return d.failed("open", name, err)
	}
	return unix.Close(fd)
}

// Sync implements store.
func (d *directory) Sync(context.Context) error { return d.failed("sync", "", unix.Syncfs(d.fd)) }

// Remove implements store.
func (d *directory) Remove(_ context.Context, name string) error {
	return kindOf(os.RemoveAll(filepath.Join(d.target, d.name, name)))
}

// Clean implements store. Nothing outside of the run's directory is removed: no link is followed.
func (d *directory) Clean(context.Context) error {
	return kindOf(os.RemoveAll(filepath.Join(d.target, d.name)))
}

// Close implements store.
func (d *directory) Close() error { return unix.Close(d.fd) }

// opened is a file that is open.
type opened struct {
	fd     int
	in     *directory
	name   string
	writes bool
}

// WriteAt implements file.
func (f *opened) WriteAt(_ context.Context, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f.fd, b, off)
		if err != nil && err != unix.EINTR {
			return f.in.failed("write", f.name, err)
		}
		n = max(n, 0)
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// ReadAt implements file.
func (f *opened) ReadAt(_ context.Context, b []byte, off int64) error {
	for len(b) > 0 {
		n, err := unix.Pread(f.fd, b, off)
		if err != nil && err != unix.EINTR {
			return f.in.failed("read", f.name, err)
		}
		if n == 0 && err == nil {
			return f.in.failed("read", f.name, io.ErrUnexpectedEOF)
		}
		n = max(n, 0)
		b, off = b[n:], off+int64(n)
	}
	return nil
}

// Close implements file.
func (f *opened) Close(context.Context) error {
	var err error
	if f.writes && f.in.sync.Load() {
		err = again(func() error { return unix.Fsync(f.fd) })
	}
	return f.in.failed("close", f.name, errors.Join(err, unix.Close(f.fd)))
}
