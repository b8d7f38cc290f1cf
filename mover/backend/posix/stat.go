package posix

import (
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// known is what one statx tells of every entry.
const known = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime |
	mover.FactCtime | mover.FactLinks

func deviceOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// mountIn is the number of the mount that an entry is seen in; 0 is not known.
func mountIn(st *unix.Statx_t) uint64 {
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

// elsewhere reports whether another file system, or another part of this one, is mounted at an entry or above it. Before Linux 5.8
// only another device tells.
func (p *Backend) elsewhere(st *unix.Statx_t) bool {
	if mount := mountIn(st); mount != 0 && p.mount != 0 {
		return mount != p.mount
	}
	return deviceOf(st) != p.device && p.system.name != "btrfs" // btrfs subvolumes have devices of their own
}

func kindOf(mode uint16) mover.Kind {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return mover.File
	case unix.S_IFDIR:
		return mover.Dir
	case unix.S_IFLNK:
		return mover.Symlink
	case unix.S_IFIFO:
		return mover.FIFO
	case unix.S_IFSOCK:
		return mover.Socket
	case unix.S_IFCHR:
		return mover.CharDevice
	case unix.S_IFBLK:
		return mover.BlockDevice
	}
	return 0
}

func timeOf(t unix.StatxTimestamp) mover.Time { return mover.Time{Sec: t.Sec, Nsec: int32(t.Nsec)} }

// fill sets all that st tells but the name. The size of a symlink is left for
// readlink, as a hint.
func fill(e *mover.Entry, st *unix.Statx_t) {
	e.Kind = kindOf(st.Mode)
	e.Known = known
	e.Mode = uint32(st.Mode) & 0o7777
	e.UID, e.GID = st.Uid, st.Gid
	e.Mtime, e.Atime, e.Ctime = timeOf(st.Mtime), timeOf(st.Atime), timeOf(st.Ctime)
	e.Dev, e.Ino, e.Nlink = deviceOf(st), st.Ino, st.Nlink
	switch e.Kind {
	case mover.File:
		e.Size, e.Stored = int64(st.Size), int64(st.Blocks)*512
	case mover.Symlink:
		e.Size = int64(st.Size)
	case mover.CharDevice, mover.BlockDevice:
		e.Rdev = unix.Mkdev(st.Rdev_major, st.Rdev_minor)
	}
}

func entryOf(name string, st *unix.Statx_t) mover.Entry {
	e := mover.Entry{Name: name}
	fill(&e, st)
	return e
}

// is reports whether st is still the very entry e. What a directory contains
// changes its times, so these are not compared.
func is(st *unix.Statx_t, e *mover.Entry) bool {
	return moved(st, e) && (e.Kind == mover.Dir || timeOf(st.Ctime) == e.Ctime)
}

// moved is like is, but does not look at the ctime, which a rename changes, and
// the coming and going of other names of a hard link.
func moved(st *unix.Statx_t, e *mover.Entry) bool {
	if kindOf(st.Mode) != e.Kind || st.Ino != e.Ino || deviceOf(st) != e.Dev {
		return false
	}
	return e.Kind == mover.Dir || timeOf(st.Mtime) == e.Mtime && (e.Kind != mover.File || int64(st.Size) == e.Size)
}

// readlink returns the target of the symlink base in dirfd; hint is its length
// where the file system knew it.
func readlink(dirfd int, base string, hint int64) (string, error) {
	for size := max(int(min(hint, 1<<16))+1, 64); ; size *= 2 {
		b := make([]byte, size)
		var n int
		err := again(func() (err error) {
			n, err = unix.Readlinkat(dirfd, base, b)
			return err
		})
		if err != nil {
			return "", err
		}
		if n < size {
			return string(b[:n]), nil
		}
	}
}
