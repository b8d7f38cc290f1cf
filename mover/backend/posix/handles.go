package posix

import (
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
	"datamove.dev/mover/beneath"
)

const (
	defaultHandles = 256
	// handleAge is for how long a handle is believed to be what its path leads to.
	handleAge = 2 * time.Second
	// pathBytes is the longest path given to the kernel at once; PATH_MAX is 4096.
	pathBytes = 4000
)

// handle is an open directory (O_PATH), shared by all that work in it.
type handle struct {
	fd    int
	seat  string // its path relative to the root
	since time.Time
	// foreign says that another file system is mounted here or above: what syncs the
	// root's does not sync this one.
	foreign bool
	born    atomic.Pointer[birth] // what new files are like here; nil until the first one
	fold    fold

	owner *handles
	// Guarded by owner.mu:
	refs int
	used uint64 // the owner's tick of its last use
	dead bool   // no longer in the owner's map: closed with its last reference
}

// birth is what a new file in a directory gets before we say anything about it:
// group bits, NFS squashing and default ACLs of the parent decide that.
type birth struct {
	uid, gid uint32
	odd      bool // the mode is not the one asked for less the umask
	acl      bool // new entries inherit an ACL
}

// handles keeps directories open between calls, so that consecutive files of one
// directory cost no open of it.
type handles struct {
	place *Backend
	limit int

	mu     sync.Mutex // guards all below, and the fields of handle that say so
	bySeat map[string]*handle
	tick   uint64
}

func (hs *handles) open(p *Backend, limit int) {
	if limit <= 0 {
		limit = defaultHandles
	}
	hs.place, hs.limit, hs.bySeat = p, limit, make(map[string]*handle)
}

// get returns the directory seat, held until release.
func (hs *handles) get(seat string) (*handle, error) {
	if h := hs.kept(seat); h != nil {
		return h, nil
	}
	fd, foreign, err := hs.place.openSeat(seat)
	if err != nil {
		return nil, err
	}
	return hs.keep(&handle{fd: fd, seat: seat, since: time.Now(), foreign: foreign, owner: hs}), nil
}

func (hs *handles) kept(seat string) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.bySeat[seat]
	if h == nil {
		return nil
	}
	if seat != "" && time.Since(h.since) > handleAge {
		hs.drop(h)
		return nil
	}
	return hs.hold(h)
}

func (hs *handles) hold(h *handle) *handle {
	hs.tick++
	h.used = hs.tick
	h.refs++
	return h
}

// keep puts h among the kept ones and holds it. If another goroutine has kept a handle of the same directory,
// keep returns that one, so that all know the same of the directory.
func (hs *handles) keep(h *handle) *handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if other := hs.bySeat[h.seat]; other != nil {
		kernel.Close(h.fd)
		return hs.hold(other)
	}
	if len(hs.bySeat) >= hs.limit {
		hs.evict()
	}
	hs.bySeat[h.seat] = h
	return hs.hold(h)
}

// evict lets go of the handle that was not used for the longest time. When all
// are in use there is one too many for a while: as many as there are workers.
func (hs *handles) evict() {
	var oldest *handle
	for _, h := range hs.bySeat {
		if h.refs == 0 && (oldest == nil || h.used < oldest.used) {
			oldest = h
		}
	}
	if oldest != nil {
		hs.drop(oldest)
	}
}

func (hs *handles) drop(h *handle) {
	delete(hs.bySeat, h.seat)
	h.dead = true
	if h.refs == 0 {
		kernel.Close(h.fd)
	}
}

func (h *handle) release() {
	h.owner.mu.Lock()
	defer h.owner.mu.Unlock()
	h.refs--
	if h.refs == 0 && h.dead {
		kernel.Close(h.fd)
	}
}

// forget lets go of seat and of everything below it: it was renamed or removed.
func (hs *handles) forget(seat string) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for s, h := range hs.bySeat {
		if mover.Within(s, seat) {
			hs.drop(h)
		}
	}
}

func (hs *handles) close() { hs.forget("") }

// openSeat opens a directory to work in, and says whether a mount was crossed on
// the way. The kernel tells it for nothing: with NO_XDEV it refuses to cross one.
func (p *Backend) openSeat(seat string) (fd int, foreign bool, err error) {
	if seat == "" {
		fd, err = kernel.OpenSegment(p.root, ".", unix.O_PATH|unix.O_DIRECTORY, 0)
		return fd, false, err
	}
	if !p.plain && len(seat) <= pathBytes {
		fd, err = beneath.SameMount.Open(p.root, seat, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW)
		if err != unix.EXDEV {
			return fd, false, err
		}
	}
	if fd, err = p.openDir(seat, unix.O_PATH); err != nil {
		return -1, false, err
	}
	var st unix.Statx_t
	if err := kernel.StatxFD(fd, &st); err != nil {
		kernel.Close(fd)
		return -1, false, err
	}
	return fd, kernel.DeviceOf(&st) != p.device, nil
}

func hasOpenat2(dirfd int) bool {
	fd, err := beneath.NoLinks.Open(dirfd, ".", unix.O_PATH|unix.O_DIRECTORY)
	kernel.Close(fd)
	return err == nil
}

// openDir opens the directory seat below the root, following no link on the way.
func (p *Backend) openDir(seat string, flags int) (int, error) {
	if seat == "" {
		return kernel.OpenSegment(p.root, ".", flags|unix.O_DIRECTORY, 0)
	}
	return p.openBelow(p.root, seat, flags|unix.O_DIRECTORY|unix.O_NOFOLLOW)
}

// openBelow opens path in steps of what the kernel takes at once.
func (p *Backend) openBelow(dirfd int, path string, flags int) (int, error) {
	at := dirfd
	for {
		step, rest := p.step(path)
		f := flags
		if rest != "" {
			f = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW
		}
		var fd int
		var err error
		if p.plain {
			fd, err = kernel.OpenSegment(at, step, f, 0)
		} else {
			fd, err = beneath.NoLinks.Open(at, step, f)
		}
		if at != dirfd {
			kernel.Close(at)
		}
		if err != nil || rest == "" {
			return fd, err
		}
		at, path = fd, rest
	}
}

// step cuts off as much of path as can be opened at once.
func (p *Backend) step(path string) (step, rest string) {
	if p.plain {
		step, rest, _ = strings.Cut(path, "/")
		return step, rest
	}
	if len(path) <= pathBytes {
		return path, ""
	}
	i := strings.LastIndexByte(path[:pathBytes], '/')
	if i < 0 {
		return path, "" // one segment of 4,000 bytes: the kernel says that it is too long
	}
	return path[:i], path[i+1:]
}

// openList opens a directory that is one segment away for listing, if we may
// without a trace in its access time.
func openList(dirfd int, base string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW
	fd, err := kernel.OpenSegment(dirfd, base, flags|unix.O_NOATIME, 0)
	if err == unix.EPERM {
		fd, err = kernel.OpenSegment(dirfd, base, flags, 0)
	}
	return fd, err
}

// spot is one name in an open directory: what all calls work on.
type spot struct {
	fd   int
	base string // "." for the root
	dir  *handle
}

// find opens the directory that holds name.
func (p *Backend) find(name string) (spot, error) {
	if name == "" {
		h, err := p.handles.get("")
		if err != nil {
			return spot{}, err
		}
		return spot{h.fd, ".", h}, nil
	}
	seat, base := mover.Parent(name)
	h, err := p.handles.get(seat)
	if err != nil {
		return spot{}, err
	}
	return spot{h.fd, base, h}, nil
}

func (s spot) release() { s.dir.release() }

func (s spot) statx(st *unix.Statx_t) error { return kernel.StatxSegment(s.fd, s.base, st) }

func (s spot) attributes() xattrs.OfPath {
	return xattrs.OfPath("/proc/self/fd/" + strconv.Itoa(s.fd) + "/" + s.base)
}

// xattrs returns those of the name. A symlink or special file can not have
// user attributes, and only root sees others.
func (s spot) xattrs(kind mover.Kind) ([]mover.Xattr, error) {
	return xattrs.Read(s.attributes())
}
