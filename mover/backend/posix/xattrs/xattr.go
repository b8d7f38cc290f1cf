// Package xattrs reads and sets the extended attributes of one inode that belong to its content: those of users, ACLs, and those of rights that the process may set.
//
// What says where bytes lie (trusted.* of Lustre), and an ACL that says no more than the mode, is no attribute here. An essential one (of users, an ACL) is never lost
// without an error; others are left out where the target refuses them. All functions may be called from many goroutines, for different inodes. Errors are those
// of the kernel, with the name of the attribute; one that its inode has no place for is mover.ErrUnsupported. TestEveryFact of package posix shows it.
package xattrs

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pkg/xattr"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// Attributes are the extended attributes of one inode.
type Attributes interface {
	list() ([]string, error)
	get(name string) ([]byte, error)
	set(name string, value []byte) error
	remove(name string) error
	// free is how many bytes their file system has free; 0 where it does not tell.
	free() int64
}

// OfFD are those of an open file or directory.
type OfFD int

func (fd OfFD) list() ([]string, error) {
	var small [256]byte
	b := small[:]
	for {
		n, err := kernel.Flistxattr(int(fd), b)
		switch {
		case err == nil && n == 0: // nearly all files have none
			return nil, nil
		case err == nil:
			return strings.Split(strings.TrimSuffix(string(b[:n]), "\x00"), "\x00"), nil
		case err == unix.ERANGE:
			b = make([]byte, 64<<10) // XATTR_LIST_MAX
		case err != unix.EINTR:
			return nil, err
		}
	}
}

func (fd OfFD) get(name string) ([]byte, error) {
	b := make([]byte, 256)
	for {
		n, err := unix.Fgetxattr(int(fd), name, b)
		switch {
		case err == nil:
			return b[:n:n], nil
		case err == unix.ERANGE && len(b) < 64<<10:
			b = make([]byte, 64<<10) // XATTR_SIZE_MAX
		case err != unix.EINTR:
			return nil, err
		}
	}
}

func (fd OfFD) set(name string, value []byte) error {
	return kernel.Again(func() error { return unix.Fsetxattr(int(fd), name, value, 0) })
}

func (fd OfFD) remove(name string) error {
	return kernel.Again(func() error { return unix.Fremovexattr(int(fd), name) })
}

func (fd OfFD) free() int64 {
	var st unix.Statfs_t
	return freeOf(&st, unix.Fstatfs(int(fd), &st))
}

// freeOf is what of a file system's free bytes this process may write.
func freeOf(st *unix.Statfs_t, err error) int64 {
	switch {
	case err != nil:
		return 0
	case kernel.Capable(unix.CAP_SYS_RESOURCE):
		return int64(st.Bfree) * st.Bsize
	}
	return int64(st.Bavail) * st.Bsize
}

// OfPath are those of one name in an open directory, reached through
// /proc so that the directory is the open one; the last segment is not followed.
type OfPath string

func (path OfPath) list() ([]string, error)         { return xattr.LList(string(path)) }
func (path OfPath) get(name string) ([]byte, error) { return xattr.LGet(string(path), name) }
func (path OfPath) set(name string, value []byte) error {
	return xattr.LSet(string(path), name, value)
}
func (path OfPath) remove(name string) error { return xattr.LRemove(string(path), name) }

// free asks the directory: the name itself may be a link, which would be followed.
func (path OfPath) free() int64 {
	var st unix.Statfs_t
	return freeOf(&st, unix.Statfs(filepath.Dir(string(path)), &st))
}

// Get returns the value of one attribute; unix.ENODATA where there is none.
func Get(a Attributes, name string) ([]byte, error) { return a.get(name) }

// trustedOfLustre are what Lustre keeps in trusted.*: where the bytes of this very
// file are. On another file they would be a lie, or damage.
var trustedOfLustre = []string{"lov", "lma", "lmv", "dmv", "link", "hsm", "som", "fid", "projid"}

// carried reports whether an attribute belongs to the content and not to the
// file system that it is on.
func carried(name string) bool {
	if rest, ok := strings.CutPrefix(name, "trusted."); ok {
		return !slices.Contains(trustedOfLustre, rest)
	}
	return name != "" && !strings.HasPrefix(name, "lustre.")
}

// essential reports whether an attribute must not be lost where the file system
// has attributes of its namespace at all.
func essential(name string) bool {
	return strings.HasPrefix(name, "user.") || name == mover.XattrAccessACL || name == mover.XattrDefaultACL
}

// Without reports whether err says that there are no such attributes here.
func Without(err error) bool {
	return errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
}

// modeACLBytes is an access ACL of the three entries that a mode has: a version of four bytes, and eight for each
// (linux/posix_acl_xattr.h). Most file systems keep none then; one that does says nothing more by it.
const modeACLBytes = 4 + 3*8

// Read returns what is carried, sorted by name.
func Read(a Attributes) ([]mover.Xattr, error) {
	names, err := a.list()
	if err != nil && !Without(err) {
		return nil, err
	}
	if len(names) == 0 {
		return nil, nil
	}
	slices.Sort(names)
	var all []mover.Xattr
	for _, name := range names {
		if !carried(name) {
			continue
		}
		value, err := a.get(name)
		switch {
		case err == nil && name == mover.XattrNFS4ACL && saysMode(value):
		case err == nil && name == mover.XattrAccessACL && len(value) == modeACLBytes:
		case err == nil:
			all = append(all, mover.Xattr{Name: name, Value: value})
		case errors.Is(err, unix.ENODATA): // removed since the listing
		case !essential(name) && (Without(err) || errors.Is(err, mover.ErrPermission)):
		default:
			return nil, fmt.Errorf("%s: %w", mover.Printable(name), err)
		}
	}
	return all, nil
}

// NamesOf finds out which attributes the file system of fd knows, and which of them we may set.
func NamesOf(fd int) (names mover.XattrNames) {
	for _, of := range []struct {
		names      mover.XattrNames
		example    string
		capability int // that it takes to set them; -1 is none
	}{
		{mover.XattrsOfUsers, "user.datamove", -1},
		{mover.XattrsOfACL, mover.XattrAccessACL, -1},
		{mover.XattrsOfNFS4, mover.XattrNFS4ACL, -1},
		{mover.XattrsOfRights, "security.capability", unix.CAP_SETFCAP},
		{mover.XattrsOfLabels, "security.datamove", unix.CAP_SYS_ADMIN},
		{mover.XattrsOfRoot, "trusted.datamove", unix.CAP_SYS_ADMIN},
	} {
		if !kernel.LacksXattr(fd, of.example) && (of.capability < 0 || kernel.Capable(of.capability)) {
			names |= of.names
		}
	}
	return names
}

// Set sets all of want. What the target has no room or no right for is
// an error for essential attributes, and left out quietly for those of a
// security module, of root, or of a file system.
func Set(a Attributes, want []mover.Xattr) error {
	for _, x := range want {
		if !carried(x.Name) {
			continue
		}
		err := a.set(x.Name, x.Value)
		if err == nil || Without(err) {
			continue
		}
		refused := errors.Is(err, mover.ErrPermission) || errors.Is(err, unix.EINVAL)
		if essential(x.Name) || !refused {
			return fmt.Errorf("set %s: %w", mover.Printable(x.Name), unset(err, len(x.Value), a.free()))
		}
	}
	return nil
}

// freeBesides is how many free bytes a file system has beside those of an attribute, when lack of room is not why it was refused.
const freeBesides = 1 << 20

// unset is why an attribute of so many bytes can not be set, on a file system with so many free. What its inode has no place
// for would not fit later either: it is no lack of room (ENOSPC and EDQUOT of ext4, xfs and Ceph; E2BIG and ERANGE of others).
func unset(err error, bytes int, free int64) error {
	var is unix.Errno
	if !errors.As(err, &is) {
		return err
	}
	switch is {
	case unix.ENOSPC, unix.EDQUOT:
		if free < int64(bytes)+freeBesides {
			return err
		}
	case unix.E2BIG, unix.ERANGE:
	default:
		return err
	}
	return fmt.Errorf("%w: its %d bytes, with those that are there, are more than the file system keeps of attributes of one file (%s); --preserve without xattrs leaves all of them out",
		mover.ErrUnsupported, bytes, is.Error())
}

// Equal makes the attributes equal to want: what differs is set, and
// what is not wanted is removed, of those that are told of.
func Equal(a Attributes, have, want []mover.Xattr, told func(name string) bool) error {
	var missing []mover.Xattr
	for _, w := range want {
		i, found := find(have, w.Name)
		if !found || !bytes.Equal(have[i].Value, w.Value) {
			missing = append(missing, w)
		}
	}
	for _, h := range have {
		if _, wanted := find(want, h.Name); wanted || !told(h.Name) {
			continue
		}
		err := a.remove(h.Name)
		if err != nil && !errors.Is(err, unix.ENODATA) && essential(h.Name) {
			return fmt.Errorf("remove %s: %w", mover.Printable(h.Name), err)
		}
	}
	return Set(a, missing)
}

func find(list []mover.Xattr, name string) (int, bool) {
	i := slices.IndexFunc(list, func(x mover.Xattr) bool { return x.Name == name })
	return i, i >= 0
}
