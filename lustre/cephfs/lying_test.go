package cephfs

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// liar is a file or directory of a process that calls itself ceph-fuse. It answers what
// it likes, and takes everything without doing it.
type liar struct {
	fs.Inode
	says func(attribute string) (string, bool)
}

var (
	_ fs.NodeGetxattrer    = (*liar)(nil)
	_ fs.NodeSetxattrer    = (*liar)(nil)
	_ fs.NodeRemovexattrer = (*liar)(nil)
	_ fs.NodeCreater       = (*liar)(nil)
	_ fs.NodeUnlinker      = (*liar)(nil)
	_ fs.NodeOpener        = (*liar)(nil)
)

// Getxattr implements fs.NodeGetxattrer.
func (l *liar) Getxattr(_ context.Context, attribute string, dest []byte) (uint32, syscall.Errno) {
	v, ok := l.says(attribute)
	switch {
	case !ok:
		return 0, syscall.ENODATA
	case len(v) > len(dest):
		return uint32(len(v)), syscall.ERANGE
	}
	return uint32(copy(dest, v)), 0
}

// Setxattr implements fs.NodeSetxattrer.
func (l *liar) Setxattr(context.Context, string, []byte, uint32) syscall.Errno { return 0 }

// Removexattr implements fs.NodeRemovexattrer.
func (l *liar) Removexattr(context.Context, string) syscall.Errno { return 0 }

// Open implements fs.NodeOpener.
func (l *liar) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

// Create implements fs.NodeCreater.
func (l *liar) Create(ctx context.Context, name string, _, mode uint32, out *fuse.EntryOut) (*fs.Inode, fs.FileHandle, uint32, syscall.Errno) {
	child := l.NewInode(ctx, &liar{says: l.says}, fs.StableAttr{Mode: syscall.S_IFREG})
	l.AddChild(name, child, true)
	out.Mode = mode
	return child, nil, 0, 0
}

// Unlink implements fs.NodeUnlinker.
func (l *liar) Unlink(_ context.Context, name string) syscall.Errno {
	if l.GetChild(name) == nil {
		return syscall.ENOENT
	}
	return 0 // the caller takes the child away
}

// served is a directory that a process serves, under the name of ceph-fuse.
func served(t *testing.T, says func(attribute string) (string, bool)) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: it mounts a file system")
	}
	dir := t.TempDir()
	s, err := fs.Mount(dir, &liar{says: says}, &fs.Options{
		MountOptions:   fuse.MountOptions{Name: "ceph-fuse", FsName: "ceph-fuse", DirectMountStrict: true},
		RootStableAttr: &fs.StableAttr{Ino: 1},
	})
	if err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	t.Cleanup(func() {
		must.Tell(t, s.Unmount())
		s.Wait()
	})
	return dir
}

// always says one thing.
func always(value string) func(string) (string, bool) {
	return func(string) (string, bool) { return value, true }
}

// Whatever is said is an error, and no CephFS.
func TestNonsense(t *testing.T) {
	for name, says := range map[string]func(string) (string, bool){
		"nothing":        func(string) (string, bool) { return "", false },
		"empty":          always(""),
		"negative":       always("-1"),
		"no number":      always("1k"),
		"larger than 64": always("99999999999999999999"),
		"bytes":          always("\x00\xff\n"),
		"very long":      always(strings.Repeat("1", 64<<10)),
		"a half":         always("stripe_unit=4194304 stripe_count=1 max_bytes=1"),
	} {
		t.Run(name, func(t *testing.T) {
			fd := opened(t, served(t, says))
			c, ctx := Client{}, t.Context()
			if err := Answer(&lustre.System{}, fd); !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("it is a CephFS: %v", err)
			}
			if l, err := c.Layout(ctx, fd); err == nil {
				t.Errorf("it has the layout %+v", l)
			}
			if l, from, err := Default(ctx, fd); err == nil {
				t.Errorf("it has the layout %+v from %q", l, from)
			}
			if tree, err := RecursiveUsage(fd); err == nil {
				t.Errorf("it holds %+v", tree)
			}
			if q, err := c.Quota(ctx, fd, lustre.Project{}); err == nil {
				t.Errorf("it has the quota %+v", q)
			}
		})
	}
}

// plausible answers as a CephFS does, with the largest numbers there are.
func plausible(attribute string) (string, bool) {
	v, ok := map[string]string{
		file: usual, dir: usual, quota: "max_bytes=9223372036854775807 max_files=9223372036854775807",
		"ceph.dir.entries": "9223372036854775807", "ceph.dir.rbytes": "9223372036854775807", "ceph.dir.rfiles": "9223372036854775807",
		"ceph.dir.rsubdirs": "9223372036854775807", "ceph.dir.rctime": "9223372036854775807.999999999",
	}[attribute]
	return v, ok
}

// What was taken and not done is said, and leaves no file.
func TestTakenAndNotDone(t *testing.T) {
	name := served(t, plausible)
	fd := opened(t, name)
	c, ctx := Client{}, t.Context()
	must.Do(t, Answer(&lustre.System{}, fd))
	q, err := c.Quota(ctx, fd, lustre.Project{})
	if left, ok := q.LeftBytes(); err != nil || left < 0 || !ok || q.UsedFiles < 0 {
		t.Errorf("it has the quota %+v, %v", q, err)
	}
	if err := c.SetQuota(ctx, fd, lustre.Project{}, lustre.Limits{HardBytes: 1 << 30}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("SetQuota: %v", err)
	}
	if err := c.SetDefault(ctx, fd, striped(4, "")); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("SetDefault: %v", err)
	}
	if _, err := c.Create(ctx, fd, "new", unix.O_WRONLY, 0o600, striped(4, "")); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("Create: %v", err)
	}
	if names, err := os.ReadDir(name); err != nil || len(names) != 0 {
		t.Errorf("%v is left, %v", names, err)
	}
	if err := c.SetDefault(ctx, fd, lustre.Layout{}); !errors.Is(err, lustre.ErrNotApplied) {
		t.Errorf("take away: %v", err)
	}
}
