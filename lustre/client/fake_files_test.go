package client

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/abi"
)

// fakeFiles is the fake Lustre with what is in its files: bytes, on the servers or still in
// the memory of another client, data versions, leases, group locks, copies in an archive.
type fakeFiles struct {
	*fake
	changed *sync.Cond // of what somebody may wait for
	of      map[*inode]*fileState
	agent   bool  // a copytool serves the archive
	hung    error // a call that would have waited for ever
	advices []abi.Advice
	swapped int
	// before is called before a call, by its name, without the lock: what others do then.
	before map[string]func()
}

// fileState is what a file has beside what layouts need.
type fileState struct {
	content *content
	uid     uint32
	hsm     lustre.HSMState
	copied  uint64 // the version that is in the archive
	group   uint32 // the group lock, and who has it
	locked  map[*handle]bool
	lease   *handle
	mtime   int64
}

// content is what a layout leads to. It is what changes places, and with it what clients
// have not written yet.
type content struct {
	data    []byte
	version uint64
	cached  []cachedWrite
}

type cachedWrite struct {
	off  int
	data []byte
}

var _ contents = (*fakeFiles)(nil)

func newFakeFiles() *fakeFiles {
	f := &fakeFiles{fake: newFake(), of: make(map[*inode]*fileState), before: make(map[string]func())}
	f.changed = sync.NewCond(&f.mu)
	f.ioctls[abi.IocPathToFID] = f.ioctlFID
	f.ioctls[abi.IocFIDToPath] = f.ioctlPath
	f.ioctls[abi.IocGetParent] = f.ioctlParent
	f.ioctls[abi.IocDataVersion] = f.ioctlVersion
	f.ioctls[abi.IocLadvise] = f.ioctlAdvise
	f.ioctls[abi.IocSwapLayouts] = f.ioctlSwap
	f.ioctls[abi.IocHSMState] = f.ioctlState
	f.ioctls[abi.IocHSMAction] = f.ioctlAction
	f.ioctls[abi.IocHSMSetState] = f.ioctlSetState
	f.ioctls[abi.IocHSMRequest] = f.ioctlRequest
	f.values[abi.IocGroupLock] = f.groupLock
	f.values[abi.IocGroupUnlock] = f.groupUnlock
	f.values[abi.IocSetLease] = f.setLease
	f.values[abi.IocGetLease] = f.getLease
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
	if err := f.close(fd); err != nil {
		t.Fatal(err)
	}
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

// cache is a write by another client that it keeps to itself.
func (f *fakeFiles) cache(n *inode, off int, data string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.state(n).content
	c.cached = append(c.cached, cachedWrite{off, []byte(data)})
}

// flush lets clients write what they have.
func (c *content) flush() {
	for _, w := range c.cached {
		c.write(w.off, w.data)
	}
	c.cached = nil
}

func (c *content) write(off int, data []byte) {
	if grow := off + len(data) - len(c.data); grow > 0 {
		c.data = append(c.data, make([]byte, grow)...)
	}
	copy(c.data[off:], data)
	c.version++
}

// content is what a reader anywhere would see: the caches of clients are coherent.
func (f *fakeFiles) content(n *inode) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.state(n).content
	c.flush()
	return string(c.data)
}

// at finds an open file for input and output: it waits for a group lock of others.
func (f *fakeFiles) at(fd int) (*handle, *fileState, error) {
	h, ok := f.open[fd]
	if !ok {
		return nil, nil, unix.EBADF
	}
	s := f.state(h.inode)
	for len(s.locked) > 0 && !s.locked[h] {
		f.changed.Wait()
	}
	if s.hsm.NeedsRestore() {
		f.hung = errors.New("input or output of a released file")
		return nil, nil, unix.EIO
	}
	return h, s, nil
}

func (f *fakeFiles) fstat(fd int) (st unix.Stat_t, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok {
		return st, unix.EBADF
	}
	s := f.state(h.inode)
	size := len(s.content.data)
	for _, w := range s.content.cached {
		size = max(size, w.off+len(w.data))
	}
	st.Ino, st.Mode, st.Uid, st.Size, st.Mtim.Sec = uint64(h.inode.fid.OID), h.inode.mode, s.uid, int64(size), s.mtime
	return st, nil
}

func (f *fakeFiles) pread(fd int, p []byte, off int64) (int, error) {
	f.happens("pread")
	f.mu.Lock()
	defer f.mu.Unlock()
	_, s, err := f.at(fd)
	if err != nil {
		return 0, err
	}
	s.content.flush() // to read takes a lock, for which others write what they have
	if off >= int64(len(s.content.data)) {
		return 0, nil
	}
	return copy(p, s.content.data[off:]), nil
}

func (f *fakeFiles) pwrite(fd int, p []byte, off int64) (int, error) {
	f.happens("pwrite")
	f.mu.Lock()
	defer f.mu.Unlock()
	h, s, err := f.at(fd)
	switch {
	case err != nil:
		return 0, err
	case f.fails["pwrite"] != nil:
		return 0, f.fails["pwrite"]
	case h.inode.layout == nil || h.flags&unix.O_ACCMODE == unix.O_RDONLY:
		return 0, unix.EBADF
	}
	s.content.write(int(off), p)
	if s.hsm.Archived.Has(lustre.HasCopy) {
		s.hsm.Archived |= lustre.Dirty
	}
	return len(p), nil
}

// seek tells of no holes but one: what is after the last byte that is not zero.
func (f *fakeFiles) seek(fd int, off int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, s, err := f.at(fd)
	if err != nil {
		return 0, err
	}
	end := int64(len(strings.TrimRight(string(s.content.data), "\x00")))
	switch {
	case whence == unix.SEEK_DATA && off >= end:
		return 0, unix.ENXIO
	case whence == unix.SEEK_HOLE:
		return max(off, end), nil
	}
	return off, nil
}

func (f *fakeFiles) truncate(fd int, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, s, err := f.at(fd)
	if err != nil {
		return err
	}
	s.content.data = append(s.content.data, make([]byte, max(0, size-int64(len(s.content.data))))...)[:size]
	return nil
}

func (f *fakeFiles) sync(fd int) error {
	f.happens("sync")
	return f.fails["sync"]
}

func (f *fakeFiles) chown(fd, uid, _ int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state(f.open[fd].inode).uid = uint32(uid)
	return nil
}

func (f *fakeFiles) setTimes(fd int, _, mtime unix.Timespec) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state(f.open[fd].inode).mtime = mtime.Sec
	return nil
}
