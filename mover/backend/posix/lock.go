package posix

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

// lockName is the file in the root that a run holds with an OFD lock. Walks leave
// it out, and the run that holds it removes it.
const lockName = mover.TempPrefix + "lock"

// lockFile is the lock of one entry of the root, or of the whole place.
func lockFile(name string) string {
	if name == "" {
		return lockName
	}
	sum := fnv.New64a()
	sum.Write([]byte(name))
	return fmt.Sprintf("%s-%016x", lockName, sum.Sum64())
}

// isLock reports whether a name is one of lockFile.
func isLock(base string) bool {
	rest, ok := strings.CutPrefix(base, lockName)
	return ok && (rest == "" || len(rest) == 17 && rest[0] == '-' && strings.Trim(rest[1:], "0123456789abcdef") == "")
}

// holder is what the lock file says, for people.
type holder struct {
	Host  string    `json:"host"`
	PID   int       `json:"pid"`
	Task  string    `json:"task"`
	Since time.Time `json:"since"`
	UID   *int      `json:"uid"` // nil where an earlier version has written it
}

func (h holder) String() string {
	account := ""
	if h.UID != nil {
		account = fmt.Sprintf(" of uid %d", *h.UID)
	}
	return fmt.Sprintf("task %s%s, process %d on %s, since %s",
		mover.Printable(h.Task), account, h.PID, mover.Printable(h.Host), h.Since.Format(time.RFC3339))
}

// Lock implements mover.Target.
func (p *Backend) Lock(ctx context.Context, name string, owner mover.WriterID) (context.Context, func() error, error) {
	if !mover.ValidName(name) {
		return nil, nil, p.fail("lock", name, fmt.Errorf("%w: bad name", mover.ErrUsage))
	}
	file := lockFile(name)
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	var was unix.Statx_t
	if err := kernel.StatxFD(p.root, &was); err != nil {
		return nil, nil, p.fail("lock", "", err)
	}
	if other := p.inTheWay(&was, file); other != "" {
		unlock, err := p.lockHere(file, owner, "the directory is shared: "+other)
		return ctx, unlock, err
	}
	fd, err := p.takeLock(p.root, file, owner)
	if p.opensUp("", err) {
		fd, err = p.takeLock(p.root, file, owner)
	}
	p.restoreTimes(&was)
	switch {
	case errors.Is(err, unix.ENOLCK) || xattrs.Without(err):
		unlock, err := p.lockHere(file, owner, "the file system has no locks")
		if err == nil {
			_ = ignoreMissing(unlink(p.root, file, 0)) // made in vain
		}
		return ctx, unlock, err
	case full(err): // what is to be removed makes room
		unlock, err := p.lockHere(file, owner, "the file system is full")
		if err == nil {
			_ = ignoreMissing(unlink(p.root, file, 0)) // made in vain
		}
		return ctx, unlock, err
	}
	if err != nil {
		return nil, nil, p.fail("lock", "", err)
	}
	return ctx, func() error { return p.fail("unlock", "", p.unlock(file, fd)) }, nil
}

// lockTries bounds the races with runs that end just now.
const lockTries = 100

// takeLock locks the file name in dirfd and writes the holder into it. A lock on a
// file that its holder removed meanwhile holds nothing, so the name must still
// lead to it.
func (p *Backend) takeLock(dirfd int, name string, owner mover.WriterID) (int, error) {
	for range lockTries {
		fd, err := openLock(dirfd, name)
		if err == unix.EEXIST || err == unix.ENOENT {
			continue // another run made it, or removed it, just now
		}
		if err != nil {
			return -1, err
		}
		err = lockFD(fd)
		if err == nil && !leadsTo(dirfd, name, fd) {
			kernel.Close(fd)
			continue
		}
		if err == nil {
			share(dirfd, fd)
			if err = sign(fd, owner); full(err) { // it is held, and does not name its holder
				err = nil
			}
		}
		if err != nil {
			if err == unix.EAGAIN || err == unix.EACCES {
				err = read(fd)
			}
			kernel.Close(fd)
			return -1, err
		}
		return fd, nil
	}
	return -1, fmt.Errorf("%w: runs that come and go", mover.ErrHeld)
}

// openLock opens a lock file, or makes it. One that is there is never opened with O_CREAT: of another account in a sticky directory
// the kernel refuses that (fs.protected_regular), to root as well.
func openLock(dirfd int, name string) (int, error) {
	const flags = unix.O_RDWR | unix.O_NOFOLLOW | unix.O_NONBLOCK
	var there unix.Statx_t
	err := kernel.StatxSegment(dirfd, name, &there)
	switch {
	case err == unix.ENOENT:
		fd, err := kernel.OpenSegment(dirfd, name, flags|unix.O_CREAT|unix.O_EXCL, 0o644)
		if err != nil && err != unix.EEXIST {
			err = immutable(dirfd, ".", err)
		}
		return fd, err
	case err != nil:
		return -1, err
	case there.Mode&unix.S_IFMT != unix.S_IFREG:
		return -1, noLock(name, &there, "is no file")
	}
	fd, err := kernel.OpenSegment(dirfd, name, flags, 0)
	if err == unix.EACCES {
		return -1, noLock(name, &there, "may not be opened")
	}
	return fd, err
}

// noLock is the error of a name that should lead to a lock and does not.
func noLock(name string, there *unix.Statx_t, why string) error {
	return fmt.Errorf("%w: %s in it %s, and belongs to uid %d; remove it, or have that account or root do so", mover.ErrConflict, name, why, there.Uid)
}

// inTheWay names another account's file at the name of a lock in a sticky directory, where it can not be removed; "" is none. It blocks no
// run of another account, because accounts change nothing of each other there. The owner of the directory, and root, can block others in any case.
func (p *Backend) inTheWay(dir *unix.Statx_t, file string) string {
	var there unix.Statx_t
	if dir.Mode&unix.S_ISVTX == 0 || kernel.StatxSegment(p.root, file, &there) != nil {
		return ""
	}
	if there.Uid == uint32(os.Geteuid()) || there.Uid == 0 || there.Uid == dir.Uid {
		return ""
	}
	return fmt.Sprintf("%s in it belongs to uid %d, which keeps no other account away", file, there.Uid)
}

// full reports whether an error is one of room.
func full(err error) bool { return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) }

func lockFD(fd int) error {
	whole := unix.Flock_t{Type: unix.F_WRLCK, Whence: unix.SEEK_SET}
	return kernel.Again(func() error { return unix.FcntlFlock(uintptr(fd), unix.F_OFD_SETLK, &whole) })
}

// share lets all accounts that may write in the directory hold the lock, too. To ask for it
// takes the right to write, and a killed process may have left the file. A
// file that is not ours stays as it is.
func share(dirfd, fd int) {
	var dir unix.Statx_t
	if kernel.StatxFD(dirfd, &dir) != nil || dir.Mode&0o022 == 0 {
		return
	}
	if dir.Mode&0o020 != 0 {
		_ = unix.Fchown(fd, -1, int(dir.Gid))
	}
	_ = unix.Fchmod(fd, 0o644|uint32(dir.Mode)&0o022)
}

func leadsTo(dirfd int, name string, fd int) bool {
	var a, b unix.Statx_t
	return kernel.StatxFD(fd, &a) == nil && kernel.StatxSegment(dirfd, name, &b) == nil &&
		a.Ino == b.Ino && kernel.DeviceOf(&a) == kernel.DeviceOf(&b)
}

func sign(fd int, owner mover.WriterID) error {
	host, _ := os.Hostname() // for people: empty when it has none
	uid := os.Geteuid()
	text, err := json.Marshal(holder{host, os.Getpid(), owner.String(), time.Now().UTC().Truncate(time.Second), &uid})
	if err != nil {
		return err
	}
	if err := unix.Ftruncate(fd, 0); err != nil {
		return err
	}
	return kernel.PwriteAll(fd, append(text, '\n'), 0)
}

// read returns the holder of the lock. The text may be anything: the file lies where
// others can write.
func read(fd int) *mover.HeldError {
	b := make([]byte, 1024)
	n, err := kernel.Pread(fd, b, 0)
	var h holder
	if err != nil || json.Unmarshal(b[:n], &h) != nil || h.PID == 0 {
		text := "the holder did not write down its name"
		var st unix.Statx_t
		if kernel.StatxFD(fd, &st) == nil {
			text += fmt.Sprintf("; the lock belongs to uid %d", st.Uid)
		}
		return &mover.HeldError{Text: text}
	}
	by, _ := mover.ParseOwner(h.Task)
	return &mover.HeldError{By: by, Text: h.String()}
}

// BreakLock implements mover.LockBreaker: the name leads to another file from now on.
func (p *Backend) BreakLock(_ context.Context, name string, over mover.WriterID) error {
	file := lockFile(name)
	fd, err := kernel.OpenSegment(p.root, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return p.fail("unlock", "", ignoreMissing(err))
	}
	if held := read(fd); held.By != over || !leadsTo(p.root, file, fd) {
		kernel.Close(fd)
		return nil
	}
	var was unix.Statx_t
	if err := kernel.StatxFD(p.root, &was); err != nil {
		kernel.Close(fd)
		return p.fail("unlock", "", err)
	}
	file, fd = p.setAside(file, fd)
	err = ignoreMissing(unlink(p.root, file, 0))
	p.restoreTimes(&was)
	if fd >= 0 {
		kernel.Close(fd)
	}
	return p.fail("unlock", "", err)
}

// asideNumber is that of the temporary name of a lock which is over; drafts count from 0.
const asideNumber = 1 << 40

// setAside gives a lock file that is to be removed a temporary name, and closes it, on
// NFS and FUSE only: there a file that is removed while it is open gets a name (.nfs,
// .fuse_hidden) until it is closed, and moves the root's mtime some time later. It returns the name
// to remove, and what is still open. A name that is left by a death in between is a
// stray like others.
func (p *Backend) setAside(file string, fd int) (string, int) {
	if p.system.Name != "nfs" && p.system.Name != "fuse" {
		return file, fd
	}
	by := read(fd).By
	if by.Task == "" {
		return file, fd
	}
	aside := by.TempName(asideNumber)
	if err := kernel.Again(func() error { return unix.Renameat(p.root, file, p.root, aside) }); err != nil {
		return file, fd // it goes in the other way
	}
	kernel.Close(fd)
	return aside, -1
}

// unlock removes the lock file while it is held, so that no other run locks it in
// between.
func (p *Backend) unlock(file string, fd int) error {
	if !leadsTo(p.root, file, fd) { // it was broken, and is another's
		kernel.Close(fd)
		return nil
	}
	var was unix.Statx_t
	if err := kernel.StatxFD(p.root, &was); err != nil {
		kernel.Close(fd)
		return err
	}
	file, fd = p.setAside(file, fd)
	err := ignoreMissing(unlink(p.root, file, 0))
	if p.opensUp("", err) { // the root has its facts by now, and is read-only
		err = ignoreMissing(unlink(p.root, file, 0))
		mode := uint32(was.Mode) & modes
		err = errors.Join(err, kernel.Again(func() error { return unix.Fchmod(p.root, mode) }))
	}
	p.restoreTimes(&was)
	if fd >= 0 {
		kernel.Close(fd)
	}
	return err
}

// restoreTimes undoes what making and removing the lock file does to the root's
// mtime, which may be a copied fact. A root that is not ours has none.
func (p *Backend) restoreTimes(was *unix.Statx_t) {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Sec: was.Mtime.Sec, Nsec: int64(was.Mtime.Nsec)}}
	_ = kernel.Futimens(p.root, &times)
}

// lockHere locks on this host, for this account. why is what keeps the directory from doing it.
func (p *Backend) lockHere(file string, owner mover.WriterID, why string) (func() error, error) {
	dir := p.opts.StateDir
	if dir == "" {
		var err error
		if dir, err = mover.StateDir(os.Getenv); err != nil {
			return nil, p.fail("lock", "", err)
		}
	}
	dir = filepath.Join(dir, "locks")
	if err := mover.MakeStateDir(dir); err != nil {
		return nil, p.fail("lock", "", err)
	}
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, p.fail("lock", "", err)
	}
	sum := fnv.New64a()
	sum.Write([]byte(p.address + "/" + file))
	name := fmt.Sprintf("%x.lock", sum.Sum64())
	fd, err := p.takeLock(at, name, owner)
	if err != nil {
		kernel.Close(at)
		return nil, p.fail("lock", "", err)
	}
	p.notes.add(why + ": runs on other hosts are not noticed")
	return func() error {
		defer kernel.Close(at)
		defer kernel.Close(fd)
		return p.fail("unlock", "", ignoreMissing(unlink(at, name, 0)))
	}, nil
}
