package posix

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
	"datamove.dev/mover/backend/posix/xattrs"
)

const (
	setIDs = unix.S_ISUID | unix.S_ISGID
	modes  = 0o7777
)

// inode is an entry that gets its facts: an open file, or a name in an open
// directory. mode, uid and gid are what it has now.
type inode struct {
	fd        int
	base      string // "" means fd itself
	kind      mover.Kind
	mode      uint32
	uid, gid  uint32
	inherited bool // it may have an ACL that the entry does not ask for
}

// setFacts gives the inode those facts of e that are known and that we may give,
// in the order in which none undoes another: a change of owner clears setuid
// and capabilities, an ACL changes the mode, and everything but the last changes
// times.
func (n *inode) setFacts(e *mover.Entry, fresh bool) error {
	if err := n.own(e); err != nil {
		return fmt.Errorf("owner: %w", err)
	}
	if err := n.attribute(e, fresh); err != nil {
		return err
	}
	if err := n.permit(e); err != nil {
		return fmt.Errorf("mode: %w", err)
	}
	if err := n.date(e); err != nil {
		return fmt.Errorf("times: %w", err)
	}
	return nil
}

// own sets owner and group. Without the right to give files away, what can not
// be set is left quietly; Capabilities.Keeps does not claim it.
func (n *inode) own(e *mover.Entry) error {
	uid, gid := -1, -1
	if e.Known.Has(mover.FactOwner) && e.UID != n.uid {
		uid = int(e.UID)
	}
	if e.Known.Has(mover.FactGroup) && e.GID != n.gid {
		gid = int(e.GID)
	}
	if uid < 0 && gid < 0 {
		return nil
	}
	err := n.chown(uid, gid)
	if errors.Is(err, unix.EPERM) && uid >= 0 && gid >= 0 {
		uid = -1
		err = n.chown(uid, gid) // a group that we are a member of can be given without the owner
	}
	if err != nil {
		return ignorePermission(err)
	}
	if uid >= 0 {
		n.uid = e.UID
	}
	if gid >= 0 {
		n.gid = e.GID
	}
	if n.mode&setIDs != 0 {
		n.mode = modes + 1 // the kernel clears them, but not always: not known any more
	}
	return nil
}

func ignorePermission(err error) error {
	if err == unix.EPERM || err == unix.EINVAL { // EINVAL: an id that this user namespace does not map
		return nil
	}
	return err
}

func (n *inode) chown(uid, gid int) error {
	return kernel.Again(func() error {
		if n.base == "" {
			return unix.Fchown(n.fd, uid, gid)
		}
		return unix.Fchownat(n.fd, n.base, uid, gid, unix.AT_SYMLINK_NOFOLLOW)
	})
}

func (n *inode) attributes() xattrs.Attributes {
	if n.base == "" {
		return xattrs.OfFD(n.fd)
	}
	return spot{fd: n.fd, base: n.base}.attributes()
}

// attribute sets the extended attributes. Those of users need the right to write the file: a read-only file of this UID is
// writable for that moment.
func (n *inode) attribute(e *mover.Entry, fresh bool) error {
	err := n.attributeNow(e, fresh)
	if !errors.Is(err, unix.EACCES) || n.kind == mover.Symlink || n.uid != uint32(os.Geteuid()) {
		return err
	}
	var st unix.Statx_t
	if n.base == "" {
		err = kernel.StatxFD(n.fd, &st)
	} else {
		err = kernel.StatxSegment(n.fd, n.base, &st)
	}
	was := uint32(st.Mode) & modes
	if err == nil {
		err = n.chmod(was | 0o200)
	}
	if err != nil {
		return err
	}
	return errors.Join(n.attributeNow(e, fresh), n.chmod(was))
}

func (n *inode) attributeNow(e *mover.Entry, fresh bool) error {
	if e.Known&(mover.FactXattrs|mover.FactsOfObject) == 0 {
		return nil
	}
	if fresh && !n.inherited {
		want := e.KeptXattrs()
		if len(want) == 0 {
			return nil
		}
		n.mode = modes + 1 // an ACL may change it: not known any more
		return xattrs.Set(n.attributes(), want)
	}
	n.mode = modes + 1
	have, err := xattrs.Read(n.attributes())
	if err != nil {
		return err
	}
	onto := e.OntoObject(have)
	return xattrs.Equal(n.attributes(), have, onto.KeptXattrs(), onto.HasXattr)
}

// permit sets the mode. Setuid and setgid are given only together with the owner
// and group that they are meant for.
func (n *inode) permit(e *mover.Entry) error {
	if !e.Known.Has(mover.FactMode) || e.Kind == mover.Symlink {
		return nil
	}
	want := e.Mode & modes
	if e.Kind != mover.Dir {
		if !e.Known.Has(mover.FactOwner) || n.uid != e.UID {
			want &^= unix.S_ISUID
		}
		if !e.Known.Has(mover.FactGroup) || n.gid != e.GID {
			want &^= unix.S_ISGID
		}
	}
	if want == n.mode {
		return nil
	}
	if err := n.chmod(want); err != nil {
		return err
	}
	n.mode = want
	return nil
}

func (n *inode) chmod(mode uint32) error {
	if n.base == "" {
		return kernel.Again(func() error { return unix.Fchmod(n.fd, mode) })
	}
	err := kernel.Again(func() error { return unix.Fchmodat(n.fd, n.base, mode, unix.AT_SYMLINK_NOFOLLOW) })
	if err != unix.EOPNOTSUPP {
		return err
	}
	return n.chmodThroughProc(mode) // before Linux 6.6
}

// chmodThroughProc holds the inode by a descriptor that is not a link's target,
// and changes the mode of what it holds.
func (n *inode) chmodThroughProc(mode uint32) error {
	fd, err := kernel.OpenSegment(n.fd, n.base, unix.O_PATH|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer kernel.Close(fd)
	var st unix.Statx_t
	if err := kernel.StatxFD(fd, &st); err != nil {
		return err
	}
	if kernel.KindOf(st.Mode) != n.kind {
		return mover.ErrChanged
	}
	return kernel.Again(func() error { return unix.Chmod("/proc/self/fd/"+strconv.Itoa(fd), mode) })
}

// date sets the times that are known.
func (n *inode) date(e *mover.Entry) error {
	times := [2]unix.Timespec{{Nsec: unix.UTIME_OMIT}, {Nsec: unix.UTIME_OMIT}}
	if e.Known.Has(mover.FactAtime) {
		times[0] = unix.Timespec{Sec: e.Atime.Sec, Nsec: int64(e.Atime.Nsec)}
	}
	if e.Known.Has(mover.FactMtime) {
		times[1] = unix.Timespec{Sec: e.Mtime.Sec, Nsec: int64(e.Mtime.Nsec)}
	}
	if !e.Known.Has(mover.FactAtime) && !e.Known.Has(mover.FactMtime) {
		return nil
	}
	if n.base == "" {
		return kernel.Futimens(n.fd, &times)
	}
	return kernel.Again(func() error { return unix.UtimesNanoAt(n.fd, n.base, times[:], unix.AT_SYMLINK_NOFOLLOW) })
}

// immutable explains an EPERM that no right would help against.
func immutable(dirfd int, base string, err error) error {
	if !errors.Is(err, unix.EPERM) {
		return err
	}
	var st unix.Statx_t
	for _, name := range []string{base, "."} {
		if kernel.StatxSegment(dirfd, name, &st) != nil {
			continue
		}
		what := "the entry"
		if name == "." && base != "." {
			what = "its directory"
		}
		switch {
		case st.Attributes&unix.STATX_ATTR_IMMUTABLE != 0:
			return fmt.Errorf("%w: %s is immutable (a replica that datamove has sealed goes by datamove release or purge; chattr -i makes anything else mutable)", err, what)
		case st.Attributes&unix.STATX_ATTR_APPEND != 0:
			return fmt.Errorf("%w: %s is append-only (chattr -a lifts that)", err, what)
		}
	}
	return err
}
