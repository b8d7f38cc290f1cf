package power

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"

	"datamove.dev/test/crash/rig"
)

// sectorBytes is what a disk writes whole or not at all.
const sectorBytes = 512

// platter is a file that knows what of it was flushed. Everybody reads what was
// written last, which is in now; what a power cut can not take is in safe.
type platter struct {
	fs.Inode
	random *rand.Rand

	mu      sync.Mutex
	now     *os.File // guarded by mu, as all below
	safe    *os.File
	pending []span
}

// span is a range that was written since the last flush.
type span struct {
	off  int64
	data []byte
}

var (
	_ fs.NodeOpener    = (*platter)(nil)
	_ fs.NodeReader    = (*platter)(nil)
	_ fs.NodeWriter    = (*platter)(nil)
	_ fs.NodeFsyncer   = (*platter)(nil)
	_ fs.NodeGetattrer = (*platter)(nil)
	_ fs.NodeSetattrer = (*platter)(nil)
)

// Open implements fs.NodeOpener.
func (p *platter) Open(context.Context, uint32) (fs.FileHandle, uint32, syscall.Errno) {
	return nil, 0, 0
}

// Getattr implements fs.NodeGetattrer.
func (p *platter) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	out.Mode, out.Size = 0o600, diskBytes
	return 0
}

// Setattr implements fs.NodeSetattrer. The size of a disk does not change.
func (p *platter) Setattr(ctx context.Context, f fs.FileHandle, _ *fuse.SetAttrIn, out *fuse.AttrOut) syscall.Errno {
	return p.Getattr(ctx, f, out)
}

// Read implements fs.NodeReader.
func (p *platter) Read(_ context.Context, _ fs.FileHandle, dest []byte, off int64) (fuse.ReadResult, syscall.Errno) {
	n, err := p.now.ReadAt(dest, off)
	if err != nil && err != io.EOF {
		return nil, fs.ToErrno(err)
	}
	return fuse.ReadResultData(dest[:n]), 0
}

// Write implements fs.NodeWriter.
func (p *platter) Write(_ context.Context, _ fs.FileHandle, data []byte, off int64) (uint32, syscall.Errno) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, err := p.now.WriteAt(data, off); err != nil {
		return 0, fs.ToErrno(err)
	}
	p.pending = append(p.pending, span{off, slices.Clone(data)})
	return uint32(len(data)), 0
}

// Fsync implements fs.NodeFsyncer: the barrier of the disk.
func (p *platter) Fsync(context.Context, fs.FileHandle, uint32) syscall.Errno {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pending {
		if _, err := p.safe.WriteAt(s.data, s.off); err != nil {
			return fs.ToErrno(err)
		}
	}
	p.pending = nil
	return 0
}

// cut writes to a file what is on the disk when the power goes now: all that was
// flushed, and of the rest some sectors, in any order.
func (p *platter) cut(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := copySparse(f, p.safe); err != nil {
		return err
	}
	luck := p.random.IntN(101) // percent of the writes that come through
	for _, i := range p.random.Perm(len(p.pending)) {
		if p.random.IntN(100) >= luck {
			continue
		}
		s := p.pending[i]
		if p.random.IntN(8) == 0 { // torn
			s.data = s.data[:p.random.IntN(len(s.data)/sectorBytes+1)*sectorBytes]
		}
		if _, err := f.WriteAt(s.data, s.off); err != nil {
			return err
		}
	}
	return nil
}

// copySparse copies what is stored of a file.
func copySparse(to, from *os.File) error {
	if err := to.Truncate(diskBytes); err != nil {
		return err
	}
	for off := int64(0); ; {
		start, err := from.Seek(off, unix.SEEK_DATA)
		if err != nil { // ENXIO: only a hole is left
			return nil
		}
		if off, err = from.Seek(start, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(to, start), io.NewSectionReader(from, start, off-start)); err != nil {
			return err
		}
	}
}

// forgetfulDisk is an ext4 on a platter.
func forgetfulDisk(t *testing.T, random *rand.Rand) disk {
	base := rig.Memory(t)
	rig.Image(t, filepath.Join(base, "now"), "ext4", diskBytes)
	p := &platter{random: random, now: opened(t, filepath.Join(base, "now")), safe: opened(t, filepath.Join(base, "safe"))}
	if err := copySparse(p.safe, p.now); err != nil {
		t.Fatal(err)
	}
	n := 0
	return disk{rig.Loop(t, spin(t, p), options), func(t *testing.T) string {
		n++
		image := filepath.Join(base, fmt.Sprintf("cut-%d.img", n))
		if err := p.cut(image); err != nil {
			t.Fatal(err)
		}
		return image
	}}
}

func opened(t *testing.T, name string) *os.File {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// spin mounts the platter and returns its path.
func spin(t *testing.T, p *platter) string {
	dir := t.TempDir()
	root := &fs.Inode{}
	server, err := fs.Mount(dir, root, &fs.Options{
		MountOptions: fuse.MountOptions{FsName: "platter", MaxWrite: 1 << 20, DirectMount: true},
		OnAdd: func(ctx context.Context) {
			root.AddChild("disk.img", root.NewPersistentInode(ctx, p, fs.StableAttr{Mode: syscall.S_IFREG}), false)
		},
	})
	if err != nil {
		t.Skip("no FUSE: ", err)
	}
	t.Cleanup(func() {
		if err := server.Unmount(); err != nil {
			t.Error(err)
		}
	})
	return filepath.Join(dir, "disk.img")
}
