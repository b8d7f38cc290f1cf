package localfs

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// fromOutside asks by a descriptor in another subvolume of the btrfs that fd is on. Newer
// kernels (seen on Linux 6.18) take the room for a change of a group from the subvolume of
// the descriptor, so that a full one could not be given more by itself.
func fromOutside(fd int, ask func(fd int) error) error {
	system, err := systemID(fd)
	if err != nil {
		return err
	}
	id, err := subvolume(fd)
	if err != nil {
		return err
	}
	outside, err := above(fd, system, id)
	if err != nil {
		if outside, err = topOf(system); err != nil {
			return err
		}
	}
	defer func() { _ = unix.Close(outside) }()
	return ask(outside)
}

// above finds the directory that the subvolume of fd is in, as far as that is mounted.
func above(fd int, system string, id uint64) (int, error) {
	return upwards(fd, func(at int) (bool, error) {
		there, err := systemID(at)
		if err != nil || there != system {
			return false, unix.EDQUOT // of another file system: the way up ends here
		}
		other, err := subvolume(at)
		return err == nil && other != id, nil
	})
}

// topOf mounts the top of a btrfs without a path: the mount has no name, and ends
// with the descriptor.
func topOf(system string) (int, error) {
	devices, err := os.ReadDir(filepath.Join(sysfs, system, "devices"))
	if err != nil || len(devices) == 0 {
		return -1, unix.EDQUOT
	}
	var last error
	for _, device := range devices {
		top, err := mountTop("/dev/" + device.Name())
		if err != nil {
			last = cmp.Or(last, err)
			continue
		}
		if there, err := systemID(top); err == nil && there == system {
			return top, nil
		}
		_ = unix.Close(top)
	}
	return -1, fmt.Errorf("%w (and its top can not be mounted: %w)", unix.EDQUOT, cmp.Or(last, errors.New("it is another one")))
}

func mountTop(device string) (int, error) {
	context, err := unix.Fsopen("btrfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(context) }()
	for _, option := range [][2]string{{"source", device}, {"subvolid", "5"}} {
		if err := unix.FsconfigSetString(context, option[0], option[1]); err != nil {
			return -1, err
		}
	}
	if err := unix.FsconfigCreate(context); err != nil {
		return -1, err
	}
	mount, err := unix.Fsmount(context, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_NOATIME)
	if err != nil {
		return -1, err
	}
	defer func() { _ = unix.Close(mount) }()
	return reopen(mount) // a mount is a name only; questions need what is open
}
