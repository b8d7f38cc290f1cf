package localfs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// The requests for what ext4, xfs and others keep of a file beside its mode (linux/fs.h).
const (
	getAttribute = 0x801c581f // FS_IOC_FSGETXATTR
	setAttribute = 0x401c5820 // FS_IOC_FSSETXATTR
	inherits     = 0x200      // FS_XFLAG_PROJINHERIT
)

// MaxProject is the largest project ID: the one after it means "none" to the kernel.
const MaxProject = math.MaxUint32 - 1

// attribute is the struct fsxattr of linux/fs.h: xflags, extsize, nextents, projid,
// cowextsize of 4 bytes each, and 8 bytes for later.
type attribute [28]byte

func (a *attribute) project() lustre.Project {
	return lustre.Project{ID: binary.NativeEndian.Uint32(a[12:]), Inherit: a.flags()&inherits != 0}
}

func (a *attribute) flags() uint32 { return binary.NativeEndian.Uint32(a[:]) }

// put changes the project only: what else is in it goes back as it came.
func (a *attribute) put(p lustre.Project) {
	flags := a.flags() &^ inherits
	if p.Inherit {
		flags |= inherits
	}
	binary.NativeEndian.PutUint32(a[:], flags)
	binary.NativeEndian.PutUint32(a[12:], p.ID)
}

// noAttribute are the errors of file systems and files without one.
var noAttribute = map[error]string{
	unix.ENOTTY:     "this file system, or its driver, has no project IDs",
	unix.EOPNOTSUPP: "this file system has no project IDs; ext4 has them after tune2fs -O project, unmounted",
	unix.EINVAL:     "not from within a user namespace (a container), and not beyond the largest ID of the file system",
	unix.EPERM:      "only the owner of a directory, or who has CAP_FOWNER, changes its project",
	unix.EACCES:     "only the owner of a directory, or who has CAP_FOWNER, changes its project",
}

func readAttribute(fd int) (attribute, error) {
	var a attribute
	if err := ioctl(fd, getAttribute, a[:]); err != nil {
		return a, unsupported(failed("project ID", fd, err, noAttribute))
	}
	return a, nil
}

// writeAttribute sets it and reads it by another descriptor: one that was open before may
// tell what was.
func writeAttribute(dir int, a attribute) error {
	if err := ioctl(dir, setAttribute, a[:]); err != nil {
		return unsupported(failed("set project ID", dir, err, noAttribute))
	}
	fresh, err := reopen(dir)
	if err != nil {
		return failed("read the project ID again", dir, err, nil)
	}
	defer func() { _ = unix.Close(fresh) }()
	got, err := readAttribute(fresh)
	if err != nil {
		return err
	}
	if got.project() != a.project() {
		return fmt.Errorf("set project ID %d of %s: %w: it has %d", a.project().ID, lustre.Where(dir), lustre.ErrNotApplied, got.project().ID)
	}
	return nil
}

// reopen opens a directory once more.
func reopen(dir int) (int, error) {
	return unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
}

// unsupported makes an error for what a kernel does not know one that says so.
func unsupported(err error) error {
	if errors.Is(err, unix.ENOTTY) && !errors.Is(err, errors.ErrUnsupported) {
		return fmt.Errorf("%w (%w)", err, errors.ErrUnsupported)
	}
	return err
}
