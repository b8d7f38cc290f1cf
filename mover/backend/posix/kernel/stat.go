package kernel

import (
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
)

// Known is what one statx tells of every entry.
const Known = mover.FactMode | mover.FactOwner | mover.FactGroup | mover.FactMtime | mover.FactAtime |
	mover.FactCtime | mover.FactLinks

// DeviceOf is the device of an entry, as mover.Entry.Dev has it.
func DeviceOf(st *unix.Statx_t) uint64 { return unix.Mkdev(st.Dev_major, st.Dev_minor) }

// MountIn is the number of the mount that an entry is seen in; 0 is not known.
func MountIn(st *unix.Statx_t) uint64 {
	if st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

// KindOf is the kind of an entry by its st_mode; 0 is none of ours.
func KindOf(mode uint16) mover.Kind {
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

// Fill sets all that st tells but the name. The size of a symlink is left for
// readlink, as a hint.
func Fill(e *mover.Entry, st *unix.Statx_t) {
	e.Kind = KindOf(st.Mode)
	e.Known = Known
	e.Mode = uint32(st.Mode) & 0o7777
	e.UID, e.GID = st.Uid, st.Gid
	e.Mtime, e.Atime, e.Ctime = timeOf(st.Mtime), timeOf(st.Atime), timeOf(st.Ctime)
	e.Dev, e.Ino, e.Nlink = DeviceOf(st), st.Ino, st.Nlink
	switch e.Kind {
	case mover.File:
		e.Size, e.Stored = int64(st.Size), int64(st.Blocks)*512
	case mover.Symlink:
		e.Size = int64(st.Size)
	case mover.CharDevice, mover.BlockDevice:
		e.Rdev = unix.Mkdev(st.Rdev_major, st.Rdev_minor)
	}
}

// EntryOf is an entry of that name with all that st tells.
func EntryOf(name string, st *unix.Statx_t) mover.Entry {
	e := mover.Entry{Name: name}
	Fill(&e, st)
	return e
}

// Same reports whether st is still the very entry e. What a directory contains
// changes its times, so these are not compared.
func Same(st *unix.Statx_t, e *mover.Entry) bool {
	return SameMoved(st, e) && (e.Kind == mover.Dir || timeOf(st.Ctime) == e.Ctime)
}

// SameMoved is like Same, but does not look at the ctime, which a rename changes, and
// the coming and going of other names of a hard link.
func SameMoved(st *unix.Statx_t, e *mover.Entry) bool {
	if KindOf(st.Mode) != e.Kind || st.Ino != e.Ino || DeviceOf(st) != e.Dev {
		return false
	}
	return e.Kind == mover.Dir || timeOf(st.Mtime) == e.Mtime && (e.Kind != mover.File || int64(st.Size) == e.Size)
}

// Readlink returns the target of the symlink base in dirfd; hint is its length
// where the file system knew it.
func Readlink(dirfd int, base string, hint int64) (string, error) {
	for size := max(int(min(hint, 1<<16))+1, 64); ; size *= 2 {
		b := make([]byte, size)
		var n int
		err := Again(func() (err error) {
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
