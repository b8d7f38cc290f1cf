package localfs

import (
	"context"
	"encoding/binary"
	"fmt"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// CloneProject makes a snapshot of the subvolume that is open as source; source has to be
// its root. It can be written, and its limit is none.
func (s *Subvolumes) CloneProject(ctx context.Context, source, dir int, base string) (lustre.Project, error) {
	var none lustre.Project
	if err := ended(ctx); err != nil {
		return none, err
	}
	if err := validBase(base); err != nil {
		return none, fmt.Errorf("make a snapshot in %s: %w", lustre.Where(dir), err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(source, &st); err != nil {
		return none, failed("make a snapshot of", source, err, nil)
	}
	if st.Ino != firstInode {
		return none, fmt.Errorf("make a snapshot of %s: %w: it is not the root of a subvolume", lustre.Where(source), unix.EINVAL)
	}
	args := volumeArgs(0, base, 0)
	binary.NativeEndian.PutUint64(args, uint64(source))
	if err := ioctl(dir, snapshot, args); err != nil {
		return none, unsupported(failed("make snapshot "+base, dir, err, map[error]string{
			unix.ENOTTY: "this is no btrfs",
			unix.EXDEV:  "the subvolume is on another file system, or behind another mount",
			unix.EPERM:  "that is for the owner of the subvolume, and root",
		}))
	}
	fd, p, err := s.made(ctx, dir, base, int(st.Uid))
	if err != nil {
		return none, err
	}
	return p, unix.Close(fd)
}

// Freeze makes a subvolume read-only, for root as well.
func (s *Subvolumes) Freeze(ctx context.Context, root int, frozen bool) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := freeze(root, frozen); err != nil {
		return unsupported(failed("make read-only", root, err, map[error]string{unix.EPERM: "that is for the owner of the subvolume, and root"}))
	}
	return nil
}

// freeze makes a subvolume read-only, or lets it be changed.
func freeze(root int, frozen bool) error {
	const readOnly = 1 << 1 // BTRFS_SUBVOL_RDONLY
	b := make([]byte, 8)
	if err := ioctl(root, getFlags, b); err != nil {
		return err
	}
	flags := binary.NativeEndian.Uint64(b) &^ readOnly
	if frozen {
		flags |= readOnly
	}
	binary.NativeEndian.PutUint64(b, flags)
	return ioctl(root, setFlags, b)
}
