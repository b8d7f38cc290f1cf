package mount

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Flags are how a directory is mounted. Set-user-ID bits and devices are never honoured.
type Flags struct {
	ReadOnly, NoExec, NoAtime, NoSymFollow bool
}

// attributes are the flags as mount_setattr(2) has them.
func (f Flags) attributes() uint64 {
	set := uint64(unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV)
	for _, one := range []struct {
		on   bool
		flag uint64
	}{{f.ReadOnly, unix.MOUNT_ATTR_RDONLY}, {f.NoExec, unix.MOUNT_ATTR_NOEXEC}, {f.NoAtime, unix.MOUNT_ATTR_NOATIME}, {f.NoSymFollow, unix.MOUNT_ATTR_NOSYMFOLLOW}} {
		if one.on {
			set |= one.flag
		}
	}
	return set
}

// Otherwise is the error for a directory that is mounted at its target already, with other options than it has to have.
type Otherwise struct{ Target, Options string }

func (o *Otherwise) Error() string {
	return fmt.Sprintf("%s: it is mounted at %s with other options (%s)", mover.ErrConflict, mover.Printable(o.Target), o.Options)
}

// Unwrap is its kind.
func (o *Otherwise) Unwrap() error { return mover.ErrConflict }

// Bind mounts an open directory at target, without what is mounted below it. When it is there
// already, with these flags, nothing is done; with others the error is an *Otherwise. A mount at target of a dead file system
// is taken away; one of something else is mover.ErrConflict.
func Bind(dir int, target string, f Flags) error {
	fail := func(err error) error {
		if err == nil {
			return nil
		}
		return &mover.Error{Op: "mount", Location: target, Err: err}
	}
	m, mounted, err := find(target)
	if err == nil && mounted {
		if err = same(dir, target, m, f); !Dead(err) {
			return fail(err)
		}
		err = Unmount(target, Detach)
	}
	if err != nil {
		return fail(err)
	}
	at, err := openTarget(target)
	if err != nil {
		return fail(err)
	}
	defer unix.Close(at)
	err = attach(dir, at, f)
	if errors.Is(err, unix.ENOSYS) {
		err = attachInSteps(dir, at, target, f)
	}
	if err != nil {
		return fail(err)
	}
	switch m, mounted, err = At(target); {
	case err != nil:
		return fail(err)
	case !mounted:
		return fail(fmt.Errorf("%w: it was mounted, and is not there", mover.ErrChanged))
	}
	return fail(same(dir, target, m, f))
}

// attach makes a mount without a path, gives it its flags, and moves it to the target.
func attach(dir, target int, f Flags) error {
	tree, err := unix.OpenTree(dir, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return err
	}
	defer unix.Close(tree)
	attr := unix.MountAttr{Attr_set: f.attributes(), Propagation: unix.MS_PRIVATE}
	if f.NoAtime {
		attr.Attr_clr = unix.MOUNT_ATTR__ATIME
	}
	if err := unix.MountSetattr(tree, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		return err
	}
	return unix.MoveMount(tree, "", target, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
}

// attachInSteps is attach for kernels before 5.12. Between its steps the mount has not all of
// its flags yet; no pod is told of it then.
func attachInSteps(dir, at int, target string, f Flags) error {
	if err := unix.Mount(procPath(dir), procPath(at), "", unix.MS_BIND, ""); err != nil {
		return err
	}
	flags := uintptr(unix.MS_BIND | unix.MS_REMOUNT | unix.MS_NOSUID | unix.MS_NODEV)
	for _, one := range []struct {
		on   bool
		flag uintptr
	}{{f.ReadOnly, unix.MS_RDONLY}, {f.NoExec, unix.MS_NOEXEC}, {f.NoAtime, unix.MS_NOATIME}} {
		if one.on {
			flags |= one.flag
		}
	}
	err := unix.Mount("", target, "", flags, "")
	if err == nil && f.NoSymFollow {
		err = fmt.Errorf("%w: nosymfollow needs Linux 5.12", mover.ErrUnsupported)
	}
	if err != nil {
		err = errors.Join(err, unix.Unmount(target, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH))
	}
	return err
}

func procPath(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// find is At for a target from a request, which it checks.
func find(target string) (Mount, bool, error) {
	if err := valid(target); err != nil {
		return Mount{}, false, err
	}
	return At(target)
}

func valid(target string) error {
	if !filepath.IsAbs(target) || filepath.Clean(target) != target || target == "/" {
		return fmt.Errorf("%w: a target is an absolute path without empty, . and .. parts", mover.ErrUsage)
	}
	return nil
}

// openTarget opens the directory to mount at, which is made when it is not there. The kubelet makes what is
// above it, where no user of a pod comes.
func openTarget(target string) (int, error) {
	above, base := filepath.Split(target)
	at, err := unix.Open(above, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(at)
	if err := unix.Mkdirat(at, base, 0o750); err != nil && err != unix.EEXIST {
		return -1, err
	}
	fd, err := unix.Openat(at, base, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == unix.ELOOP || err == unix.ENOTDIR {
		err = fmt.Errorf("%w: it is no directory", mover.ErrConflict)
	}
	return fd, err
}

// same reports why what is mounted at target is not dir with these flags.
func same(dir int, target string, m Mount, f Flags) error {
	var want, got unix.Stat_t
	if err := errors.Join(unix.Fstat(dir, &want), unix.Stat(target, &got)); err != nil {
		return err
	}
	if want.Dev != got.Dev || want.Ino != got.Ino {
		return fmt.Errorf("%w: %s of %s (%s) is mounted there", mover.ErrConflict, mover.Printable(m.Root), mover.Printable(m.Source), m.Type)
	}
	options := strings.Split(m.Options, ",")
	for _, one := range []struct {
		option string
		want   bool
		strict bool // it may not be there either when it is not wanted
	}{{"nosuid", true, true}, {"nodev", true, true}, {"ro", f.ReadOnly, true}, {"noexec", f.NoExec, false}, {"noatime", f.NoAtime, false}, {"nosymfollow", f.NoSymFollow, false}} {
		if is := slices.Contains(options, one.option); is != one.want && (one.want || one.strict) {
			return &Otherwise{target, m.Options}
		}
	}
	return nil
}

// Dead reports whether an error is of a file system that has lost its server, or program, for good.
func Dead(err error) bool {
	return errors.Is(err, unix.ENOTCONN) || errors.Is(err, unix.ESTALE) || errors.Is(err, unix.ESHUTDOWN)
}

// RemoveTarget removes the directory that was mounted at. One that is not there is removed.
func RemoveTarget(target string) error {
	if err := unix.Rmdir(target); err != nil && err != unix.ENOENT {
		return &mover.Error{Op: "remove", Location: target, Err: os.NewSyscallError("rmdir", err)}
	}
	return nil
}
