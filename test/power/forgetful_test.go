package power

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/lossydisk"
	"datamove.dev/test/must"
)

// carrier is a disk that forgets, as a file of a file system in user space.
type carrier struct {
	fs.Inode
	disk *lossydisk.Disk
}

var (
	_ fs.NodeOpener    = (*carrier)(nil)
	_ fs.NodeReader    = (*carrier)(nil)
	_ fs.NodeWriter    = (*carrier)(nil)
	_ fs.NodeFsyncer   = (*carrier)(nil)
	_ fs.NodeGetattrer = (*carrier)(nil)
	_ fs.NodeSetattrer = (*carrier)(nil)
)

// Open implements fs.NodeOpener.
func (c *carrier) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

// Getattr implements fs.NodeGetattrer.
func (c *carrier) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, uint64(c.disk.Bytes())
	return 0
}

// Setattr implements fs.NodeSetattrer. The size of a disk does not change.
func (c *carrier) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return c.Getattr(ctx, f, out)
}

// Read implements fs.NodeReader.
func (c *carrier) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := c.disk.ReadAt(dest, off)
	if err != nil && err != io.EOF {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements fs.NodeWriter.
func (c *carrier) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	n, err := c.disk.WriteAt(data, off)
	return uint32(n), fs.ToErrno(err)
}

// Fsync implements fs.NodeFsyncer: the barrier of the disk.
func (c *carrier) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	return fs.ToErrno(c.disk.Flush())
}

// forgetfulDisk is an ext4 on a disk that forgets.
func forgetfulDisk(t *testing.T, random *rand.Rand) disk {
	base := rig.Memory(t)
	rig.Image(t, filepath.Join(base, "now"), "ext4", diskBytes)
	d := must.Get(lossydisk.New(filepath.Join(base, "now"), random))(t)
	t.Cleanup(func() {
		must.Tell(t, d.Close())
	})
	n := 0
	return disk{rig.Loop(t, carry(t, d), options), func(t *testing.T) string {
		n++
		image := filepath.Join(base, fmt.Sprintf("cut-%d.img", n))
		must.Do(t, d.Cut(image))
		return image
	}}
}

// carry mounts the disk and returns its path.
func carry(t *testing.T, d *lossydisk.Disk) string {
	dir := t.TempDir()
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{FsName: "platter", MaxWrite: 1 << 20, DirectMount: true},
		OnAdd: func(ctx context.Context) {
			root.AddChild("disk.img", root.NewPersistentInode(ctx, &carrier{disk: d}, fs.StableAttr{Mode: syscall.S_IFREG}), false)
		},
	})
	if err != nil {
		t.Skip("no FUSE: ", err)
	}
	t.Cleanup(func() {
		err := server.Unmount()
		for end := time.Now().Add(time.Minute); err != nil && time.Now().Before(end); err = server.Unmount() {
			time.Sleep(100 * time.Millisecond) // the kernel closes the file of a loop device a while after its unmount
		}
		must.Tell(t, err)
	})
	return filepath.Join(dir, "disk.img")
}
