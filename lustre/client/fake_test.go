package client

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/lustre/uapi"
	"datamove.dev/test/must"
)

// fake is a kernel that has mounted a Lustre 2.17 on /mnt/lustre: two MDTs, four OSTs, the
// pool p1 of the first two. It behaves as one was seen to, traps included. Of who asks it knows
// root, and one user with a group and supplementary groups.
//
// It is more lenient where that can hide nothing: it has no ACLs, no capabilities apart from
// root's and no user namespaces, whose answers are those of modes; and of limits it holds the
// hard ones of projects, because soft ones, users and groups answer the same (EDQUOT).
type fake struct {
	mu      sync.Mutex
	root    *inode
	open    map[int]*handle
	nextFD  int
	nextOID uint32

	osts, mdts []lustre.Target
	inactive   map[string]bool // targets that do not answer, by name
	pools      map[string][]int
	quotas     map[uint32]*uapi.Quotactl // of projects
	params     fstest.MapFS
	user       bool                     // the caller is not root, but fakeUID
	groups     []uint32                 // of the user, the first one is that of new files; nil is fakeUID
	setstripe  bool                     // the site has set enable_setstripe_gid
	countsOnly bool                     // the site enforces no quotas
	poolQuotas map[string]uapi.Quotactl // of any project; nil where servers know none
	// fails are errors to answer with, by what is called: "setxattr", "openat",
	// "ioctl 0x4008669a".
	fails map[string]error
	// lies are calls that answer "done", and do nothing.
	lies map[string]bool
	// ioctls and values are the requests that are known.
	ioctls map[uint]func(h *handle, arg []byte, at []pointer) (int, error)
	values map[uint]func(h *handle, arg uintptr) (int, error)
}

// inode is a file or directory.
type inode struct {
	fid      lustre.FID
	mode     uint32
	uid, gid uint32
	parent   *inode
	children map[string]*inode
	layout   *lustre.Layout // of a directory the default; nil for none
	delayed  bool           // made with O_LOV_DELAY_CREATE, and no layout since
	project  uint32
	xflags   uint32
	striping *lustre.Striping // of a directory, when it is striped
	preset   *lustre.Striping // of a directory, for new ones in it
	mdt      int
	size     int64
	xattrs   map[string][]byte
}

// handle is an open file. It answers with what was so when it was opened.
type handle struct {
	inode   *inode
	flags   int
	project uint32
	preset  *lustre.Striping
}

var _ kernel = (*fake)(nil)

const fakeInstance = "ffff888122441800"

func newFake() *fake {
	f := &fake{open: map[int]*handle{}, nextFD: 100, nextOID: 1, inactive: map[string]bool{}, pools: map[string][]int{"p1": {0, 1}},
		quotas: map[uint32]*uapi.Quotactl{}, fails: map[string]error{}, lies: map[string]bool{}}
	f.root = f.newInode(nil, unix.S_IFDIR|0o755)
	f.root.fid = lustre.FID{Seq: 0x200000007, OID: 1}
	for i := range 4 {
		f.osts = append(f.osts, lustre.Target{Kind: lustre.OST, Index: i, Name: fmt.Sprintf("lab-OST%04x_UUID", i),
			TotalBytes: 276968 * 4096, FreeBytes: 257130 * 4096, TotalFiles: 76800, FreeFiles: 76431})
	}
	for i := range 2 {
		f.mdts = append(f.mdts, lustre.Target{Kind: lustre.MDT, Index: i, Name: fmt.Sprintf("lab-MDT%04x_UUID", i),
			TotalBytes: 169252 * 4096, FreeBytes: 149599 * 4096, TotalFiles: 491520, FreeFiles: 491149})
	}
	lov := "sys/fs/lustre/lov/lab-clilov-" + fakeInstance
	f.params = fstest.MapFS{
		"sys/fs/lustre/version": {Data: []byte("2.17.57\n")},
		lov + "/numobd":         {Data: []byte("4\n")},
		lov + "/stripecount":    {Data: []byte("1\n")},
		lov + "/stripesize":     {Data: []byte("4194304\n")},
		"proc/fs/lustre/lov/lab-clilov-" + fakeInstance + "/pools/p1": {Data: []byte("lab-OST0000_UUID\nlab-OST0001_UUID\n")},
	}
	f.ioctls = map[uint]func(h *handle, arg []byte, at []pointer) (int, error){
		uapi.IocLOVName:          f.ioctlName,
		uapi.IocSetStripe:        f.ioctlSetStripe,
		uapi.IocGetFSXattr:       f.ioctlGetFSXattr,
		uapi.IocSetFSXattr:       f.ioctlSetFSXattr,
		uapi.IocNamedProject:     f.ioctlNamedProject,
		uapi.IocQuotactl:         f.ioctlQuota,
		uapi.IocTargetCount:      f.ioctlCount,
		uapi.IocTargetStatfs:     f.ioctlStatfs,
		uapi.IocSetDirStripe:     f.ioctlMakeDir,
		uapi.IocGetDirStripe:     f.ioctlGetDirStripe,
		uapi.IocSetDefaultStripe: f.ioctlSetDefaultStripe,
		uapi.IocMDTIndex:         f.ioctlMDTIndex,
	}
	f.values = map[uint]func(h *handle, arg uintptr) (int, error){}
	return f
}

// newClient mounts f, and checks at the end that no descriptor is left open.
func newClient(t *testing.T, f *fake) *Client {
	t.Helper()
	root := must.Get(f.openat(unix.AT_FDCWD, "/mnt/lustre", unix.O_RDONLY|unix.O_DIRECTORY, 0))(t)
	c := must.Get(open(f, root, "/mnt/lustre"))(t)
	c.program.run = noProgram
	t.Cleanup(func() {
		must.Tell(t, c.Close())
		if n := len(f.open); n > 0 {
			t.Errorf("%d descriptors were left open", n)
		}
	})
	return c
}

// openDir opens a directory of f for a test; it is closed at its end.
func (f *fake) openDir(t *testing.T, name string) int {
	t.Helper()
	fd, err := f.openat(unix.AT_FDCWD, path.Join("/mnt/lustre", name), unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(name, err)
	}
	t.Cleanup(func() { _ = f.close(fd) })
	return fd
}

// mkdir makes a directory, which gets what its parent hands down.
func (f *fake) mkdir(t *testing.T, name string) *inode {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	parent, base, err := f.find(f.root, name)
	if err != nil {
		t.Fatal(name, err)
	}
	return f.makeDir(parent, base)
}

func (f *fake) makeDir(parent *inode, base string) *inode {
	d := f.newInode(parent, unix.S_IFDIR|0o755)
	parent.children[base] = d
	if parent.layout != nil && parent != f.root { // that of the root is the file system's
		l := *parent.layout
		d.layout = &l
	}
	return d
}

func (f *fake) newInode(parent *inode, mode uint32) *inode {
	f.nextOID++
	n := &inode{fid: lustre.FID{Seq: 0x200000402, OID: f.nextOID}, mode: mode, parent: parent, xattrs: map[string][]byte{}}
	n.uid, n.gid = f.caller()
	if parent != nil && parent.mode&unix.S_ISGID != 0 {
		n.gid = parent.gid
	}
	if mode&unix.S_IFMT == unix.S_IFDIR {
		n.children = map[string]*inode{}
	}
	if parent != nil && parent.xflags&uapi.InheritProject != 0 {
		n.project = parent.project
		if n.isDir() {
			n.xflags = uapi.InheritProject
		}
	}
	return n
}

// fakeUID is the user of a fake.
const fakeUID = 1001

// caller is who asks: as the kernel has it, fsuid and fsgid.
func (f *fake) caller() (uid, gid uint32) {
	switch {
	case !f.user:
		return 0, 0
	case len(f.groups) > 0:
		return fakeUID, f.groups[0]
	}
	return fakeUID, fakeUID
}

// may reports whether the caller has rights (4 to read, 2 to write, 1 to search): the first class
// that the caller is in decides, as in path_resolution(7).
func (f *fake) may(n *inode, rights uint32) bool {
	uid, gid := f.caller()
	switch {
	case uid == 0:
		return true
	case uid == n.uid:
		rights <<= 6
	case gid == n.gid || slices.Contains(f.groups, n.gid):
		rights <<= 3
	}
	return n.mode&rights == rights
}

// owns reports whether the caller may do what is for owners.
func (f *fake) owns(n *inode) bool { return !f.user || n.uid == fakeUID }

// opened are the rights that flags of an open ask for.
func opened(flags int) uint32 {
	switch {
	case flags&unix.O_PATH != 0:
		return 0
	case flags&unix.O_ACCMODE == unix.O_RDWR:
		return 6
	case flags&unix.O_ACCMODE == unix.O_WRONLY:
		return 2
	}
	return 4
}

// permits says why the caller may not open what is there (open(2), EACCES and EPERM).
func (f *fake) permits(n *inode, flags int) error {
	switch {
	case !f.may(n, opened(flags)):
		return unix.EACCES
	case flags&unix.O_NOATIME != 0 && flags&unix.O_PATH == 0 && !f.owns(n):
		return unix.EPERM
	}
	return nil
}

func (n *inode) isDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

// find returns the directory of the last part of name, and that part ("." of dir itself).
func (f *fake) find(dir *inode, name string) (*inode, string, error) {
	parts := strings.Split(path.Clean(name), "/")
	for _, part := range parts[:len(parts)-1] {
		next := dir.children[part]
		switch {
		case next == nil:
			return nil, "", unix.ENOENT
		case !next.isDir():
			return nil, "", unix.ENOTDIR
		case !f.may(next, 1):
			return nil, "", unix.EACCES
		}
		dir = next
	}
	return dir, parts[len(parts)-1], nil
}

func (f *fake) openat(dir int, name string, flags int, mode uint32) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fails["openat"]; err != nil {
		return -1, err
	}
	var self int
	if _, err := fmt.Sscanf(name, "/proc/self/fd/%d", &self); err == nil {
		h, ok := f.open[self]
		if !ok {
			return -1, unix.ENOENT
		}
		if err := f.permits(h.inode, flags); err != nil {
			return -1, err
		}
		return f.handle(h.inode, flags), nil
	}
	at := f.root
	if below, ok := strings.CutPrefix(name, "/mnt/lustre"); ok {
		name = strings.TrimPrefix(below, "/")
	} else if h, ok := f.open[dir]; !ok {
		return -1, unix.EBADF
	} else {
		at = h.inode
	}
	parent, base, err := f.find(at, name)
	if err != nil {
		return -1, err
	}
	if base == "." || base == "" {
		if err := f.permits(parent, flags); err != nil {
			return -1, err
		}
		return f.handle(parent, flags), nil
	}
	n := parent.children[base]
	switch {
	case !f.may(parent, 1), n == nil && flags&unix.O_CREAT != 0 && !f.may(parent, 3):
		return -1, unix.EACCES
	case n == nil && flags&unix.O_CREAT == 0:
		return -1, unix.ENOENT
	case n != nil && flags&unix.O_EXCL != 0:
		return -1, unix.EEXIST
	case n != nil && flags&unix.O_DIRECTORY != 0 && !n.isDir():
		return -1, unix.ENOTDIR
	case n != nil && n.isDir() && flags&(unix.O_ACCMODE|unix.O_CREAT) != 0:
		return -1, unix.EISDIR
	case len(base) > unix.NAME_MAX:
		return -1, unix.ENAMETOOLONG
	case n != nil:
		if err := f.permits(n, flags); err != nil {
			return -1, err
		}
	case f.full(parent):
		return -1, unix.EDQUOT
	default:
		n = f.newInode(parent, unix.S_IFREG|mode)
		if flags&uapi.DelayCreate == uapi.DelayCreate {
			n.delayed = true
		} else { // objects at once, of the default
			n.layout = f.instantiate(n, f.defaultOf(parent), parent)
		}
		parent.children[base] = n
	}
	return f.handle(n, flags), nil
}

// full reports whether a new file of the caller in a directory would be one too many of its project. Root is not held to that.
func (f *fake) full(dir *inode) bool {
	q := f.quotas[dir.project]
	return f.user && dir.xflags&uapi.InheritProject != 0 && q != nil && q.HardInodes > 0 && q.UsedInodes >= q.HardInodes && !f.countsOnly
}

// over reports whether more bytes of the caller are too many for the project of a file.
func (f *fake) over(n *inode, more int) bool {
	q := f.quotas[n.project]
	return f.user && q != nil && q.HardKiB > 0 && q.UsedBytes+uint64(more) > q.HardKiB<<10 && !f.countsOnly
}

// pathOnly says that only the place of an inode is open: of it nothing can be asked or set (open(2), O_PATH).
func (h *handle) pathOnly() bool { return h.flags&unix.O_PATH != 0 }

func (f *fake) handle(n *inode, flags int) int {
	f.nextFD++
	f.open[f.nextFD] = &handle{inode: n, flags: flags, project: n.project, preset: n.preset}
	return f.nextFD
}

func (f *fake) unlinkat(dir int, name string) error { return f.remove(dir, name, false) }

func (f *fake) rmdirat(dir int, name string) error { return f.remove(dir, name, true) }

func (f *fake) remove(dir int, name string, isDir bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[dir]
	switch {
	case !ok:
		return unix.EBADF
	case f.fails["unlinkat"] != nil:
		return f.fails["unlinkat"]
	}
	switch n := h.inode.children[name]; {
	case !f.may(h.inode, 1):
		return unix.EACCES
	case n == nil:
		return unix.ENOENT
	case !f.may(h.inode, 3):
		return unix.EACCES
	case h.inode.mode&unix.S_ISVTX != 0 && !f.owns(n) && !f.owns(h.inode):
		return unix.EPERM
	case isDir && !n.isDir():
		return unix.ENOTDIR
	case !isDir && n.isDir():
		return unix.EISDIR
	case len(n.children) > 0:
		return unix.ENOTEMPTY
	}
	delete(h.inode.children, name)
	return nil
}

func (f *fake) close(fd int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.open[fd] == nil {
		return unix.EBADF
	}
	delete(f.open, fd)
	return nil
}

func (f *fake) stat(fd int) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok {
		return 0, unix.EBADF
	}
	return h.inode.mode, nil
}

// write is write(2) of n bytes at the end.
func (f *fake) write(fd int, n int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	if !ok || h.pathOnly() || h.flags&unix.O_ACCMODE == unix.O_RDONLY || h.inode.layout == nil { // made without objects, and none since
		return unix.EBADF
	}
	h.inode.size += n
	return nil
}

func (f *fake) files() fs.FS { return f.params }

func (f *fake) privileged() bool { return !f.user }

func (f *fake) ioctl(fd int, request uint, arg []byte) (int, error) {
	return f.ioctlAt(fd, request, arg)
}

func (f *fake) ioctlAt(fd int, request uint, arg []byte, at ...pointer) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	call := fmt.Sprintf("ioctl %#x", request)
	switch known := f.ioctls[request]; {
	case !ok || h.pathOnly():
		return 0, unix.EBADF
	case f.fails[call] != nil:
		return 0, f.fails[call]
	case f.lies[call]:
		return 0, nil
	case known == nil:
		return 0, unix.ENOTTY
	default:
		return known(h, arg, at)
	}
}

func (f *fake) ioctlValue(fd int, request uint, arg uintptr) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h, ok := f.open[fd]
	call := fmt.Sprintf("ioctl %#x", request)
	switch known := f.values[request]; {
	case !ok || h.pathOnly():
		return 0, unix.EBADF
	case f.fails[call] != nil:
		return 0, f.fails[call]
	case known == nil:
		return 0, unix.ENOTTY
	default:
		return known(h, arg)
	}
}
