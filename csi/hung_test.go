package csi

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/hanwen/go-fuse/v2/fs"
	"github.com/hanwen/go-fuse/v2/fuse"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"datamove.dev/csi/volume"
	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// moody is a file system with one directory, dir, that answers or does not.
type moody struct {
	fs.Inode
	mu     sync.Mutex
	silent chan struct{} // guarded by mu; closed when it answers again
}

func (m *moody) OnAdd(ctx context.Context) {
	m.AddChild("dir", m.NewPersistentInode(ctx, &room{of: m}, fs.StableAttr{Mode: syscall.S_IFDIR}), false)
}

func (m *moody) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	m.answer()
	out.Mode = syscall.S_IFDIR | 0o755
	return 0
}

func (m *moody) Statfs(_ context.Context, out *fuse.StatfsOut) syscall.Errno {
	m.answer()
	*out = fuse.StatfsOut{Blocks: 1000, Bfree: 500, Bavail: 500, Bsize: 4096}
	return 0
}

// answer waits until it is in the mood.
func (m *moody) answer() {
	m.mu.Lock()
	silent := m.silent
	m.mu.Unlock()
	if silent != nil {
		<-silent
	}
}

// shutUp has it answer nothing until the function that it returns is called.
func (m *moody) shutUp() (speak func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	silent := make(chan struct{})
	m.silent = silent
	return sync.OnceFunc(func() { close(silent) })
}

type room struct {
	fs.Inode
	of *moody
}

func (r *room) Getattr(_ context.Context, _ fs.FileHandle, out *fuse.AttrOut) syscall.Errno {
	r.of.answer()
	out.Mode = syscall.S_IFDIR | 0o755
	return 0
}

func (r *room) Statfs(ctx context.Context, out *fuse.StatfsOut) syscall.Errno {
	return r.of.Statfs(ctx, out)
}

// moody is a file system of the configuration, of which vision may have dir.
func (r *kubelet) moody(root string) (publication func(pod string) *csi.NodePublishVolumeRequest) {
	r.driver.Files.Pool.Here = nil // what hangs in it has to be a process
	r.driver.Config.FileSystems["moody"] = FileSystem{Use: volume.Project, Kind: lustre.IsOther, Root: root}
	r.driver.Config.Grants = append(r.driver.Config.Grants, volume.Grant{Namespaces: []string{"vision"}, Directories: []volume.Directory{{FileSystem: "moody", Path: "dir"}}})
	return func(pod string) *csi.NodePublishVolumeRequest {
		q := r.publication("v1:static:moody:dir", "vision", pod)
		q.VolumeContext["path"] = "dir"
		return q
	}
}

// TestStaleMount: a mount of a file system whose program has died is taken away, and is replaced when a pod needs it.
func TestStaleMount(t *testing.T) {
	r := rigged(t)
	dir := t.TempDir()
	mounted := func() *fuse.Server {
		server, err := fs.Mount(dir, &moody{}, &fs.Options{})
		if err != nil {
			t.Skip("needs FUSE: ", err)
		}
		return server
	}
	mounted()
	publication := r.moody(dir)
	first, second := publication("first"), publication("second")
	r.published(first)
	r.published(second)
	var st unix.Stat_t
	must.Do(t, unix.Stat(dir, &st))
	connections := t.TempDir()
	must.Do(t, unix.Mount("none", connections, "fusectl", 0, ""))
	must.Do(t, os.WriteFile(filepath.Join(connections, strconv.Itoa(int(unix.Minor(st.Dev))), "abort"), []byte("1"), 0))
	must.Do(t, unix.Unmount(connections, 0))
	if err := unix.Stat(first.GetTargetPath(), &st); err != unix.ENOTCONN {
		t.Fatalf("it is not dead: %v", err)
	}
	health, err := r.NodeGetVolumeHealth(t.Context(), &csi.NodeGetVolumeHealthRequest{VolumeId: first.GetVolumeId(), VolumePublishPath: first.GetTargetPath()})
	must.Do(t, err)
	if h := health.GetVolumeHealth().GetHealthStatuses(); len(h) != 1 || h[0].GetStatus() != csi.VolumeHealthErrorType_INACCESSIBLE {
		t.Errorf("it is dead, and %v", h)
	}
	must.Do(t, unix.Unmount(dir, unix.MNT_DETACH))
	server := mounted()
	t.Cleanup(func() { must.Do(t, server.Unmount()); server.Wait() })
	if err := unix.Stat(r.published(first), &st); err != nil {
		t.Errorf("it is dead still: %v", err)
	}
	r.unpublished(first)
	r.unpublished(second)
}

// TestHungFileSystem: a file system that does not answer keeps no call for longer than its limit, none of another
// file system at all, and its volumes can be taken away from pods, also when so many processes hang in it that it is asked
// nothing any more.
//
//safety:8 with TestManyPublishes
func TestHungFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("waits eight seconds for a file system that hangs")
	}
	r := rigged(t)
	root, dir, none := &moody{}, t.TempDir(), time.Duration(0)
	server, err := fs.Mount(dir, root, &fs.Options{EntryTimeout: &none, AttrTimeout: &none})
	if err != nil {
		t.Skip("needs FUSE: ", err)
	}
	t.Cleanup(func() { must.Do(t, server.Unmount()); server.Wait() })
	const usual, vain = 2 * time.Second, 300 * time.Millisecond // where an answer is expected, and where none is
	r.driver.Files.Limit = usual
	publication := r.moody(dir)
	v := r.created(volume.Project, "vision", "home", 20*mib)
	first := publication("first")
	target := r.published(first)
	stats := func(id string) (*csi.NodeGetVolumeStatsResponse, error) {
		return r.NodeGetVolumeStats(t.Context(), &csi.NodeGetVolumeStatsRequest{VolumeId: id, VolumePath: target})
	}
	before, err := stats(first.GetVolumeId())
	must.Do(t, err)
	speak := root.shutUp()
	defer speak()

	r.driver.Files.Limit = vain
	_, err = r.NodePublishVolume(t.Context(), publication("second"))
	r.refused(err, codes.DeadlineExceeded)
	if last, err := stats(first.GetVolumeId()); err != nil || !proto.Equal(last, before) {
		t.Errorf("what it answered last: %v, %v", last, err)
	}
	_, err = stats("v1:static:moody:other") // which was not asked for before
	r.refused(err, codes.DeadlineExceeded)
	r.driver.Files.Limit = usual
	health, err := r.NodeGetStorageHealth(t.Context(), &csi.NodeGetStorageHealthRequest{})
	must.Do(t, err)
	if h := health.GetBackendHealth(); len(h) != 1 || h[0].GetStatus() != csi.StorageHealthErrorType_STORAGE_UNREACHABLE {
		t.Errorf("%v", h)
	}
	q := r.publication(v.GetVolumeId(), "vision", "beside")
	r.published(q)
	r.unpublished(q)
	r.driver.Files.Limit = vain
	for code := codes.DeadlineExceeded; code != codes.Unavailable; code = status.Code(err) {
		_, err = r.NodePublishVolume(t.Context(), publication("second"))
	}
	r.driver.Files.Limit = usual
	if hanging := r.driver.Files.Hanging(); hanging["moody"] < 4 || hanging["lab"] != 0 {
		t.Errorf("%v", hanging)
	}
	r.unpublished(first)
	speak()
	again := publication("third")
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err = r.NodePublishVolume(t.Context(), again); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	r.unpublished(again)
}
