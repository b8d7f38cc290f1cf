package replicadir

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

const (
	immutable = 0x10 // FS_IMMUTABLE_FL
	atOnce    = 4    // directories that are immutable at one time
	someNames = 1000 // that are read at one time
)

// MakeImmutable lets no account change a replica any more. why says why it can not be immutable here: then its gate says that it is whole ([Path.Note]). What is open for writing, what belongs to another
// user than its owner, and a file system that is mounted in it, are of kind [mover.ErrConflict]. An owner 0 has files of all users.
func (s Path) MakeImmutable(ctx context.Context, owner uint32) (why string, err error) {
	fd, err := s.replica()
	if err != nil {
		return "", err
	}
	root := os.NewFile(uintptr(fd), s.String())
	defer root.Close()
	if err := setImmutable(fd, true); err != nil {
		if why := unable(err); why != "" {
			s.whole()
			return why, nil
		}
		return "", err
	}
	w := newWalk(ctx)
	w.owner = owner
	w.group.Go(func() error { return w.makeImmutable(root) })
	err = w.group.Wait()
	if err == nil { // it is called whole next, and has to be so after a power cut
		err = os.NewSyscallError("syncfs", unix.Syncfs(fd))
	}
	if err != nil {
		return "", &mover.Error{Op: "seal", Location: s.String(), Err: err}
	}
	s.stays()
	if w.blind.Load() {
		why = "its file system does not tell who has its files open for writing"
	}
	return why, nil
}

// Immutable reports whether its folder is immutable, as MakeImmutable does it first.
func (s Path) Immutable() bool {
	fd, err := s.replica()
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	sealed, err := isImmutable(fd)
	return err == nil && sealed
}

// replica opens the folder of the replica. A user can mount a file system (FUSE) over a folder of his own, and answer for it what he likes.
func (s Path) replica() (fd int, err error) { return openBelow(s.root, s.folders, openHere) }

// String is the path of the spot.
func (s Path) String() string { return path.Join(s.root, path.Join(s.folders...)) }

// unable says why nothing can be immutable here; "" is another error.
func unable(err error) string {
	switch {
	case errors.Is(err, unix.ENOTTY), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOSYS):
		return "its file system has no immutable files"
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return "the agent has not the right to make files immutable (CAP_LINUX_IMMUTABLE)"
	}
	return ""
}

// walk goes through the tree of a replica.
type walk struct {
	ctx   context.Context
	group *errgroup.Group
	owner uint32      // of what is immutable; 0 is all users
	blind atomic.Bool // it could not be told which files are open for writing
}

func newWalk(ctx context.Context) *walk {
	w := &walk{}
	w.group, w.ctx = errgroup.WithContext(ctx)
	w.group.SetLimit(atOnce)
	return w
}

// makeImmutable does it to what is in a directory that is immutable itself, so that nothing comes to it or goes.
func (w *walk) makeImmutable(dir *os.File) error {
	return w.each(dir, func(fd int, kind os.FileMode, name string) error {
		err := w.mine(fd)
		if err == nil {
			err = setImmutable(fd, true)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", mover.Printable(name), err)
		}
		if !kind.IsDir() {
			return w.writers(fd, name)
		}
		return w.deeper(fd, name, w.makeImmutable)
	})
}

// mine looks whether a file is one of the owner: a hard link can name one of another user, which is not for him to seal, or to have read. What root has staged there before, and has no other
// name, is as good as his.
func (w *walk) mine(fd int) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || w.owner == 0 || st.Uid == w.owner {
		return os.NewSyscallError("fstat", err)
	}
	if st.Uid == 0 && (st.Nlink == 1 || st.Mode&unix.S_IFMT == unix.S_IFDIR) {
		return nil
	}
	return fmt.Errorf("%w: it belongs to uid %d, and the replica is staged by uid %d; purge the replica and stage it again", mover.ErrConflict, st.Uid, w.owner)
}

// writers returns an error where a process has a file open for writing, and could go on.
func (w *walk) writers(fd int, name string) error {
	_, err := unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	switch err {
	case nil:
		_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_UNLCK)
		return os.NewSyscallError("fcntl", err)
	case unix.EAGAIN:
		return fmt.Errorf("%w: a process has %s open for writing", mover.ErrConflict, mover.Printable(name))
	}
	w.blind.Store(true)
	return nil
}

// makeMutable makes what is in a directory mutable, and then the directory.
func (w *walk) makeMutable(dir *os.File) error {
	err := w.each(dir, func(fd int, kind os.FileMode, name string) error {
		if !kind.IsDir() {
			return setImmutable(fd, false)
		}
		if sealed, err := isImmutable(fd); err != nil || !sealed {
			return err
		}
		return w.inner(fd, name, w.makeMutable)
	})
	if err != nil {
		return err
	}
	return setImmutable(int(dir.Fd()), false)
}

// each calls do for the directories and files in a directory. What is there it opens without a
// wait, and over no link.
func (w *walk) each(dir *os.File, do func(fd int, kind os.FileMode, name string) error) error {
	for {
		if err := context.Cause(w.ctx); err != nil {
			return err
		}
		entries, err := dir.ReadDir(someNames)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		for _, e := range entries {
			if kind := e.Type(); kind.IsDir() || kind.IsRegular() {
				if err := one(int(dir.Fd()), e.Name(), kind, do); err != nil {
					return err
				}
			}
		}
	}
}

func one(at int, name string, kind os.FileMode, do func(fd int, kind os.FileMode, name string) error) error {
	flags := 0
	if kind.IsDir() {
		flags = unix.O_DIRECTORY
	}
	fd, err := openHere(at, name, flags)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }()
	return do(fd, kind, name)
}

// deeper goes on in a directory: beside others, where there is room.
func (w *walk) deeper(fd int, name string, do func(*os.File) error) error {
	dir, err := again(fd, name)
	if err != nil {
		return err
	}
	job := func() error { defer dir.Close(); return do(dir) }
	if w.group.TryGo(job) {
		return nil
	}
	return job()
}

// inner goes on in a directory, and waits for its end.
func (w *walk) inner(fd int, name string, do func(*os.File) error) error {
	dir, err := again(fd, name)
	if err != nil {
		return err
	}
	defer dir.Close()
	return do(dir)
}

// again is another descriptor, which its file closes.
func again(fd int, name string) (*os.File, error) {
	fd, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("dup", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

func isImmutable(fd int) (bool, error) {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	return flags&immutable != 0, os.NewSyscallError("FS_IOC_GETFLAGS", err)
}

// setImmutable makes a file or directory immutable, or mutable again.
func setImmutable(fd int, on bool) error {
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil {
		return os.NewSyscallError("FS_IOC_GETFLAGS", err)
	}
	want := flags &^ immutable
	if on {
		want |= immutable
	}
	if want == flags {
		return nil
	}
	return os.NewSyscallError("FS_IOC_SETFLAGS", unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(want)))
}
