// Package casefold gives tests a file system that compares names without case and keeps them as they were given, as exFAT,
// NTFS and directories of ext4 with the flag casefold do. A process serves it (FUSE) out of a directory that does neither;
// the same tests run in a guest over kernels that have such file systems.
package casefold

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Mount mounts one, which is empty. It skips where that is not possible.
func Mount(t testing.TB) string {
	t.Helper()
	if _, err := os.Stat("/dev/fuse"); err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	root := node{fd: must.Get(unix.Open(t.TempDir(), unix.O_PATH|unix.O_CLOEXEC, 0))(t)}
	dir := t.TempDir()
	server, err := fs.Mount(dir, &root, &fs.Options{
		NullPermissions: true, // the files have them
		MountOptions:    fuse.MountOptions{Name: "casefold", FsName: "casefold", Options: []string{"default_permissions"}, AllowOther: os.Geteuid() == 0},
	})
	if err != nil {
		t.Skip("needs FUSE: ", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil { // a file is left open in it: this process, which serves it, could not even end
			t.Error(err)
			must.Do(t, unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH))
			return
		}
		server.Wait()
	})
	return dir
}

// node is one inode.
type node struct {
	fs.Inode
	fd int // O_PATH; closed when the kernel has forgotten it
}

// OnForget implements fs.NodeOnForgetter.
func (n *node) OnForget() { _ = unix.Close(n.fd) }

// path leads to the inode, whatever it is called by now.
func (n *node) path() string { return fmt.Sprintf("/proc/self/fd/%d", n.fd) }

// actual is the name of the entry that name leads to, and name itself where there is none.
func (n *node) actual(name string) string {
	entries, err := os.ReadDir(n.path())
	if err != nil {
		return name
	}
	for _, e := range entries {
		if strings.EqualFold(e.Name(), name) {
			return e.Name()
		}
	}
	return name
}

// Lookup implements fs.NodeLookuper.
func (n *node) Lookup(ctx context.Context, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	fd, err := unix.Openat(n.fd, n.actual(name), unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	var st syscall.Stat_t
	if err := syscall.Fstat(fd, &st); err != nil {
		return nil, fs.ToErrno(err)
	}
	out.FromStat(&st)
	return n.NewInode(ctx, &node{fd: fd}, fs.StableAttr{Mode: st.Mode, Ino: st.Ino}), 0
}

// made gives a new entry to the caller; err is why there is none.
func (n *node) made(ctx context.Context, name string, out *fuse.EntryOut, err error) (*fs.Inode, syscall.Errno) {
	if c, ok := fuse.FromContext(ctx); ok && err == nil {
		err = unix.Fchownat(n.fd, name, int(c.Uid), int(c.Gid), unix.AT_SYMLINK_NOFOLLOW)
	}
	if err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.Lookup(ctx, name, out)
}

// Mkdir implements fs.NodeMkdirer.
func (n *node) Mkdir(ctx context.Context, name string, mode uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, out, unix.Mkdirat(n.fd, n.actual(name), mode))
}

// Mknod implements fs.NodeMknoder.
func (n *node) Mknod(ctx context.Context, name string, mode, dev uint32, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, out, unix.Mknodat(n.fd, n.actual(name), mode, int(dev)))
}

// Symlink implements fs.NodeSymlinker.
func (n *node) Symlink(ctx context.Context, target, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	return n.made(ctx, name, out, unix.Symlinkat(target, n.fd, n.actual(name)))
}

// Link implements fs.NodeLinker.
func (n *node) Link(ctx context.Context, target fs.InodeEmbedder, name string, out *fuse.EntryOut) (*fs.Inode, syscall.Errno) {
	if err := unix.Linkat(unix.AT_FDCWD, target.(*node).path(), n.fd, n.actual(name), unix.AT_SYMLINK_FOLLOW); err != nil {
		return nil, fs.ToErrno(err)
	}
	return n.Lookup(ctx, name, out)
}

// Create implements fs.NodeCreater.
func (n *node) Create(ctx context.Context, name string, flags, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	fd, err := unix.Openat(n.fd, n.actual(name), int(flags)|unix.O_CREAT|unix.O_CLOEXEC, mode)
	inode, errno := n.made(ctx, name, out, err)
	if errno != 0 {
		return nil, nil, 0, errno
	}
	return inode, fs.NewLoopbackFile(fd), 0, 0
}

// Unlink implements fs.NodeUnlinker.
func (n *node) Unlink(_ context.Context, name string) syscall.Errno {
	return fs.ToErrno(unix.Unlinkat(n.fd, n.actual(name), 0))
}

// Rmdir implements fs.NodeRmdirer.
func (n *node) Rmdir(_ context.Context, name string) syscall.Errno {
	return fs.ToErrno(unix.Unlinkat(n.fd, n.actual(name), unix.AT_REMOVEDIR))
}

// Rename implements fs.NodeRenamer. What is replaced leaves its spelling, as in ext4.
func (n *node) Rename(_ context.Context, name string, parent fs.InodeEmbedder, newName string, flags uint32) syscall.Errno {
	to := parent.(*node)
	return fs.ToErrno(unix.Renameat2(n.fd, n.actual(name), to.fd, to.actual(newName), uint(flags)))
}

// Readdir implements fs.NodeReaddirer.
func (n *node) Readdir(context.Context) (fs.DirStream, syscall.Errno) {
	return fs.NewLoopbackDirStream(n.path())
}

// Readlink implements fs.NodeReadlinker.
func (n *node) Readlink(context.Context) ([]byte, syscall.Errno) {
	b := make([]byte, 4096)
	size, err := unix.Readlinkat(n.fd, "", b)
	return b[:max(size, 0)], fs.ToErrno(err)
}

// Open implements fs.NodeOpener.
func (n *node) Open(_ context.Context, flags uint32) (fs.FileHandle, uint32, syscall.Errno) {
	fd, err := unix.Open(n.path(), int(flags)&^unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, 0, fs.ToErrno(err)
	}
	return fs.NewLoopbackFile(fd), 0, 0
}

// Fsync implements fs.NodeFsyncer, of directories too.
func (n *node) Fsync(ctx context.Context, f fs.FileHandle, flags uint32) syscall.Errno {
	if file, ok := f.(fs.FileFsyncer); ok {
		return file.Fsync(ctx, flags)
	}
	return 0
}

// Getattr implements fs.NodeGetattrer.
func (n *node) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	var st syscall.Stat_t
	err := syscall.Fstat(n.fd, &st)
	out.FromStat(&st)
	return fs.ToErrno(err)
}

// Setattr implements fs.NodeSetattrer.
func (n *node) Setattr(ctx context.Context, f fs.FileHandle, in *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	if err := n.set(in); err != nil {
		return fs.ToErrno(err)
	}
	return n.Getattr(ctx, f, out)
}

func (n *node) set(in *fuse.SetAttrIn) error {
	if uid, gid := idOf(in.GetUID()), idOf(in.GetGID()); uid >= 0 || gid >= 0 {
		if err := unix.Fchownat(n.fd, "", uid, gid, unix.AT_EMPTY_PATH); err != nil {
			return err
		}
	}
	if mode, ok := in.GetMode(); ok {
		if err := unix.Chmod(n.path(), mode); err != nil {
			return err
		}
	}
	if size, ok := in.GetSize(); ok {
		if err := unix.Truncate(n.path(), int64(size)); err != nil {
			return err
		}
	}
	times := []unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if at, ok := in.GetATime(); ok {
		times[0] = unix.NsecToTimespec(at.UnixNano())
	}
	if at, ok := in.GetMTime(); ok {
		times[1] = unix.NsecToTimespec(at.UnixNano())
	}
	return unix.UtimesNanoAt(n.fd, "", times, unix.AT_EMPTY_PATH)
}

func idOf(id uint32, ok bool) int {
	if !ok {
		return -1
	}
	return int(id)
}
