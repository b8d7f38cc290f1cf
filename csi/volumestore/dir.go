package volumestore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/atomicfile"
	"datamove.dev/mover/beneath"
)

// dir is an open directory, which is the caller's to close.
type dir int

const (
	asDir    = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC
	maxState = 1 << 20 // of a file with state
)

// openBeneath opens what lies below a directory: over no link, and not outside of it.
func openBeneath(at dir, path string, flags int, over beneath.Rule) (int, error) {
	fd, err := over.Open(int(at), path, flags)
	switch err {
	case nil:
		return fd, nil
	case unix.ELOOP, unix.EXDEV:
		err = fmt.Errorf("%w: a link, a mount or .. is on the way", mover.ErrPermission)
	}
	return -1, &mover.Error{Op: "open", Location: at.name(), Name: path, Err: err}
}

// sub opens a directory in d.
func (d dir) sub(name string) (dir, error) {
	fd, err := openBeneath(d, name, asDir, beneath.SameMount)
	return dir(fd), err
}

// make makes a directory in d, if it is not there, and opens it.
func (d dir) make(name string, mode uint32) (dir, error) {
	if err := unix.Mkdirat(int(d), name, mode); err != nil && err != unix.EEXIST {
		return -1, &mover.Error{Op: "make", Location: d.name(), Name: name, Err: full(err)}
	}
	return d.sub(name)
}

func (d dir) close() { _ = unix.Close(int(d)) }

// has reports whether d has an entry of that name.
func (d dir) has(name string) (bool, error) {
	var st unix.Stat_t
	switch err := unix.Fstatat(int(d), name, &st, unix.AT_SYMLINK_NOFOLLOW); err {
	case nil:
		return true, nil
	case unix.ENOENT:
		return false, nil
	default:
		return false, &mover.Error{Op: "look at", Location: d.name(), Name: name, Err: err}
	}
}

// names lists d.
func (d dir) names() ([]string, error) {
	fd, err := openBeneath(d, ".", asDir, beneath.SameMount)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), d.name())
	defer f.Close()
	return f.Readdirnames(-1)
}

// move renames an entry of d into another directory, where nothing of that name may be: then it is mover.ErrConflict.
func (d dir) move(name string, to dir, newName string) error {
	err := unix.Renameat2(int(d), name, int(to), newName, unix.RENAME_NOREPLACE)
	if err == unix.EINVAL { // NFS has no such flag; the names are ours alone
		if there, lookErr := to.has(newName); lookErr != nil || there {
			return errors.Join(lookErr, &mover.Error{Op: "move", Location: to.name(), Name: newName, Err: mover.ErrConflict})
		}
		err = unix.Renameat(int(d), name, int(to), newName)
	}
	switch err {
	case nil:
		return errors.Join(to.sync(), d.sync())
	case unix.EEXIST, unix.ENOTEMPTY:
		err = fmt.Errorf("%w: it is there", mover.ErrConflict)
	}
	if err != nil {
		return &mover.Error{Op: "move", Location: to.name(), Name: newName, Err: full(err)}
	}
	return nil
}

// sync puts the entries of d on stable storage.
func (d dir) sync() error {
	if err := unix.Fsync(int(d)); err != nil && err != unix.EINVAL { // some network file systems have none for directories
		return &mover.Error{Op: "sync", Location: d.name(), Err: full(err)}
	}
	return nil
}

// touch says that d is still needed.
func (d dir) touch() error {
	now := unix.Timespec{Nsec: unix.UTIME_NOW}
	return failed("touch", d, "", unix.UtimesNanoAt(int(d), ".", []unix.Timespec{now, now}, 0))
}

// write puts a value into a file of d, whole or not at all. With replace false a file that is
// there stays: then it is mover.ErrConflict.
func (d dir) write(name string, value any, replace bool) error {
	fail := func(err error) error {
		return &mover.Error{Op: "write", Location: d.name(), Name: name, Err: full(err)}
	}
	b, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return fail(err)
	}
	err = atomicfile.Write("/proc/self/fd/"+strconv.Itoa(int(d))+"/"+name, append(b, '\n'), atomicfile.Options{Exclusive: !replace, Draft: "." + name + ".*"})
	switch {
	case errors.Is(err, unix.EEXIST):
		return fail(fmt.Errorf("%w: it is there", mover.ErrConflict))
	case err != nil:
		return fail(err)
	}
	return nil
}

// read gets a value back.
func (d dir) read(name string, value any) error {
	fd, err := openBeneath(d, name, unix.O_RDONLY|unix.O_NONBLOCK, beneath.SameMount)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxState))
	if err == nil {
		err = json.Unmarshal(b, value)
	}
	if err != nil {
		return &mover.Error{Op: "read", Location: d.name(), Name: name, Err: err}
	}
	return nil
}

func (d dir) name() string {
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(d)))
	if err != nil {
		return "descriptor " + strconv.Itoa(int(d))
	}
	return name
}

// failed says what failed, of which entry.
func failed(op string, d dir, name string, err error) error {
	if err == nil {
		return nil
	}
	return &mover.Error{Op: op, Location: d.name(), Name: name, Err: full(err)}
}

// full gives the errors of a full file system their kind.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: %w", mover.ErrFull, err)
	}
	return err
}
