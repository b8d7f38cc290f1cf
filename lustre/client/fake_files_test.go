package client

import (
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// fakeFiles is the fake Lustre with what is in its files: bytes, on the servers or still in
// the memory of another client, data versions, leases, group locks, copies in an archive.
type fakeFiles struct {
	*fake
	changed *sync.Cond // of what somebody may wait for
	of      map[*inode]*fileState
	agent   bool  // a copytool serves the archive
	hung    error // a call that would have waited for ever
	advices []uapi.Advice
	swapped int
	most    int // bytes that one write takes; 0 is all
	// before is called before a call, by its name, without the lock: what others do then.
	before map[string]func()
}

// fileState is what a file has beside what layouts need.
type fileState struct {
	content   *content
	hsm       lustre.HSMState
	copied    uint64 // the version that is in the archive
	group     uint32 // the group lock, and who has it
	locked    map[*handle]bool
	lease     *handle
	mtime     int64
	encrypted bool
}

var _ contents = (*fakeFiles)(nil)

func newFakeFiles() *fakeFiles {
	f := &fakeFiles{fake: newFake(), of: make(map[*inode]*fileState), before: make(map[string]func())}
	f.changed = sync.NewCond(&f.mu)
	f.ioctls[uapi.IocPathToFID] = f.ioctlFID
	f.ioctls[uapi.IocFIDToPath] = f.ioctlPath
	f.ioctls[uapi.IocGetParent] = f.ioctlParent
	f.ioctls[uapi.IocDataVersion] = f.ioctlVersion
	f.ioctls[uapi.IocLadvise] = f.ioctlAdvise
	f.ioctls[uapi.IocSwapLayouts] = f.ioctlSwap
	f.ioctls[uapi.IocHSMState] = f.ioctlState
	f.ioctls[uapi.IocHSMAction] = f.ioctlAction
	f.ioctls[uapi.IocHSMSetState] = f.ioctlSetState
	f.ioctls[uapi.IocHSMRequest] = f.ioctlRequest
	f.values[uapi.IocGroupLock] = f.groupLock
	f.values[uapi.IocGroupUnlock] = f.groupUnlock
	f.values[uapi.IocSetLease] = f.setLease
	f.values[uapi.IocGetLease] = f.getLease
	return f
}

// newFilesClient mounts f, and checks at the end that nothing hung, and nothing is left open.
func newFilesClient(t *testing.T, f *fakeFiles) *Client {
	t.Helper()
	c := newClient(t, f.fake)
	c.k = f
	t.Cleanup(func() {
		if f.hung != nil {
			t.Errorf("a call that waits for ever: %v", f.hung)
		}
	})
	return c
}

// state is called with the lock.
func (f *fakeFiles) state(n *inode) *fileState {
	s := f.of[n]
	if s == nil {
		s = &fileState{content: &content{version: 1 << 32}, locked: make(map[*handle]bool)}
		f.of[n] = s
	}
	return s
}

// file makes a file with some bytes.
func (f *fakeFiles) file(t *testing.T, name, data string) *inode {
	t.Helper()
	fd, err := f.openat(unix.AT_FDCWD, path.Join("/mnt/lustre", name), unix.O_RDWR|unix.O_CREAT|unix.O_EXCL, 0o644)
	if err != nil {
		t.Fatal(name, err)
	}
	f.mu.Lock()
	n := f.open[fd].inode
	f.state(n).content.data = []byte(data)
	f.mu.Unlock()
	must.Do(t, f.close(fd))
	return n
}

// openFile opens a file for a test, which closes it.
func (f *fakeFiles) openFile(t *testing.T, name string, flags int) int {
	t.Helper()
	fd, err := f.openat(unix.AT_FDCWD, path.Join("/mnt/lustre", name), flags, 0)
	if err != nil {
		t.Fatal(name, err)
	}
	return fd
}

// openat also knows .lustre/fid and volatile files, and that an open breaks a lease.
func (f *fakeFiles) openat(dir int, name string, flags int, mode uint32) (int, error) {
	f.happens("openat")
	if id, ok := strings.CutPrefix(name, ".lustre/fid/"); ok {
		return f.openFID(id, flags)
	}
	fd, err := f.fake.openat(dir, name, flags, mode)
	if err != nil {
		return fd, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.open[fd].inode
	f.breakLease(n)
	if base, volatile := strings.CutPrefix(path.Base(name), volatilePrefix); volatile {
		for d := range f.dirs(f.root) {
			delete(d.children, path.Base(name))
		}
		if index := strings.Split(base, ":")[1]; index != "" {
			_, err = fmt.Sscanf(index, "%X", &n.mdt)
		}
	}
	return fd, err
}

// close gives up what the descriptor held.
func (f *fakeFiles) close(fd int) error {
	f.mu.Lock()
	if h, ok := f.open[fd]; ok {
		s := f.state(h.inode)
		delete(s.locked, h)
		if s.lease == h {
			s.lease = nil
		}
		f.changed.Broadcast()
	}
	f.mu.Unlock()
	return f.fake.close(fd)
}

func (f *fakeFiles) breakLease(n *inode) {
	if s := f.of[n]; s != nil {
		s.lease = nil
	}
}

func (f *fakeFiles) openFID(id string, flags int) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.user {
		return -1, unix.EACCES
	}
	for n, paths := range f.paths() {
		if n.fid.Name() == id && len(paths) > 0 {
			f.breakLease(n)
			return f.handle(n, flags), nil
		}
	}
	return -1, unix.ENOENT
}

func (f *fakeFiles) dirs(root *inode) map[*inode]bool {
	all := map[*inode]bool{root: true}
	for _, n := range root.children {
		if n.isDir() {
			for d := range f.dirs(n) {
				all[d] = true
			}
		}
	}
	return all
}

func (f *fakeFiles) ioctl(fd int, request uint, arg []byte) (int, error) {
	f.happens(fmt.Sprintf("ioctl %#x", request))
	return f.fake.ioctl(fd, request, arg)
}

// happens lets others do what they do at that moment, once.
func (f *fakeFiles) happens(call string) {
	f.mu.Lock()
	do := f.before[call]
	delete(f.before, call)
	f.mu.Unlock()
	if do != nil {
		do()
	}
}
