package loopfs

import (
	"encoding/binary"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Groupless makes a subvolume of a btrfs in a directory, and asks for no qgroup to be around it: the kernel lets everybody, and the
// limits that hold for the directory do not hold there.
func Groupless(dir, name string) error {
	none := make([]byte, 72)  // struct btrfs_qgroup_inherit, of no group
	var pinned runtime.Pinner // the kernel is given its address as a number
	pinned.Pin(&none[0])
	defer pinned.Unpin()
	args := make([]byte, 4096)                     // struct btrfs_ioctl_vol_args_v2
	binary.NativeEndian.PutUint64(args[16:], 1<<2) // BTRFS_SUBVOL_QGROUP_INHERIT
	binary.NativeEndian.PutUint64(args[24:], uint64(len(none)))
	binary.NativeEndian.PutUint64(args[32:], uint64(uintptr(unsafe.Pointer(&none[0]))))
	copy(args[56:4095], name)
	return command(dir, 0x50009418, args) // BTRFS_IOC_SUBVOL_CREATE_V2
}

// CleanUp has a btrfs remove soon, and not within half a minute, what was deleted from it.
func CleanUp(dir string) error { return command(dir, 0x9408, nil) } // BTRFS_IOC_SYNC

func command(dir string, request uintptr, args []byte) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, d.Fd(), request, uintptr(unsafe.Pointer(unsafe.SliceData(args)))); errno != 0 {
		return errno
	}
	return nil
}
