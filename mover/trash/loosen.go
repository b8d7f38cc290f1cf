package trash

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// seal takes a directory from its owner: only we and root can change any more what is in it, though the owner has it
// open. What can not be done here does no harm: then removals fail, and say so.
func makeMutable(fd int, st *unix.Stat_t) {
	me := uint32(unix.Geteuid())
	if st.Mode&0o7777 != 0o700 && unix.Fchmod(fd, 0o700) == unix.EPERM && free(fd) {
		_ = unix.Fchmod(fd, 0o700)
	}
	if st.Uid != me || me == 0 && st.Gid != 0 {
		_ = unix.Fchown(fd, int(me), unix.Getegid())
	}
}

// loosen takes away what keeps an entry of a directory from being removed, as far as that is the entry's alone.
func loosen(dir int, name string) {
	var st unix.Stat_t
	if unix.Fstat(dir, &st) == nil {
		makeMutable(dir, &st)
		free(dir)
	}
	// The entry is looked at before it is opened: opening a device or a pipe does something to it. What was looked at is
	// what is opened, because it is held.
	held, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(held) }()
	if unix.Fstat(held, &st) != nil {
		return
	}
	isDir := st.Mode&unix.S_IFMT == unix.S_IFDIR
	if !isDir && (st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink > 1) || mounted(held) {
		return // the other name of a file may have good reasons
	}
	if isDir && st.Mode&0o700 != 0o700 && int(st.Uid) == unix.Geteuid() {
		_ = unix.Chmod(proc(held), 0o700)
	}
	fd, err := unix.Open(proc(held), unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer func() { _ = unix.Close(fd) }()
	free(fd)
	thaw(fd, &st)
}

// mounted reports whether something is mounted at what is open, and in doubt that it is.
func mounted(fd int) bool {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO, &st)
	return err != nil || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// free clears the attributes that keep a file or directory as it is, and those that keep what is moved
// into a directory to a project, and reports whether there were any.
func free(fd int) bool {
	const immutable, appendOnly, inherit = 0x10, 0x20, 0x20000000 // FS_IMMUTABLE_FL, FS_APPEND_FL, FS_PROJINHERIT_FL
	flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
	if err != nil || flags&(immutable|appendOnly|inherit) == 0 {
		return false
	}
	return unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, int(flags&^(immutable|appendOnly|inherit))) == nil
}

// thaw lets what is in a subvolume of a btrfs be changed, where it is read-only.
func thaw(fd int, st *unix.Stat_t) {
	const getFlags, setFlags, readOnly = 0x80089419, 0x4008941a, 1 << 1 // BTRFS_IOC_SUBVOL_GETFLAGS, _SETFLAGS
	var flags uint64
	if st.Ino != subvolumeInode || command(fd, getFlags, &flags) != 0 || flags&readOnly == 0 {
		return
	}
	flags &^= readOnly
	_ = command(fd, setFlags, &flags)
}

// subvolumeInode is that of the root of every subvolume of a btrfs.
const subvolumeInode = 256

func command(fd int, request uintptr, arg *uint64) unix.Errno {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(arg)))
	return errno
}
