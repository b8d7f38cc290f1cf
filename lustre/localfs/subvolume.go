package localfs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// MakeProject makes the subvolume base in dir. Its mode is mode, whatever the umask.
func (s *Subvolumes) MakeProject(ctx context.Context, dir int, base string, mode uint32) (lustre.Project, error) {
	var none lustre.Project
	if err := ended(ctx); err != nil {
		return none, err
	}
	if err := validBase(base); err != nil {
		return none, fmt.Errorf("make a subvolume in %s: %w", lustre.Where(dir), err)
	}
	if err := ioctl(dir, makeVolume, volumeArgs(0, base, 0)); err != nil {
		return none, unsupported(failed("make subvolume "+base, dir, err, map[error]string{unix.ENOTTY: "this is no btrfs"}))
	}
	fd, p, err := s.made(ctx, dir, base, unix.Geteuid())
	if err != nil {
		return none, err
	}
	defer func() { _ = unix.Close(fd) }()
	if err := unix.Fchmod(fd, mode); err != nil {
		return none, errors.Join(failed("set the mode", fd, err, nil), unix.Unlinkat(dir, base, unix.AT_REMOVEDIR))
	}
	return p, nil
}

// made opens a subvolume that was just made in dir, and checks that it is that one: its UID has to be owner.
func (s *Subvolumes) made(ctx context.Context, dir int, base string, owner int) (fd int, p lustre.Project, err error) {
	fd, err = openBase(dir, base)
	if err != nil {
		return -1, p, err
	}
	var st unix.Stat_t
	if p, err = s.Project(ctx, fd); err == nil {
		err = unix.Fstat(fd, &st)
	}
	if err == nil && (st.Ino != firstInode || int(st.Uid) != owner) {
		err = fmt.Errorf("make subvolume %q in %s: somebody replaced it at once", base, lustre.Where(dir))
	}
	if err != nil {
		return -1, lustre.Project{}, errors.Join(err, unix.Close(fd))
	}
	return fd, p, nil
}

// RemoveProject removes a subvolume and everything in it, other subvolumes, too. It is named
// to the kernel by its ID, so that another one under that name is not touched. btrfs gives its
// space back after the call, and then its groups can go: Forget.
func (s *Subvolumes) RemoveProject(ctx context.Context, dir int, base string, p lustre.Project) error {
	if err := validBase(base); err != nil {
		return fmt.Errorf("remove a subvolume in %s: %w", lustre.Where(dir), err)
	}
	fd, err := openBase(dir, base)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	got, err := s.Project(ctx, fd)
	if err == nil {
		err = unix.Fstat(fd, &st)
	}
	_ = unix.Close(fd)
	if err != nil {
		return err
	}
	if st.Ino != firstInode || got.ID != p.ID {
		return fmt.Errorf("remove %q in %s: %w: it is in subvolume %d, and not the root of subvolume %d", base, lustre.Where(dir), fs.ErrInvalid, got.ID, p.ID)
	}
	err = destroyID(dir, uint64(p.ID))
	if err == unix.ENOTEMPTY { // everybody can make a subvolume in it
		_ = s.Gather(ctx, dir, p) // so that Forget knows their groups; kernels before 6.11 leave those
		if err = uproot(ctx, dir, uint64(p.ID)); err == nil {
			err = destroyID(dir, uint64(p.ID))
		}
	}
	if err != nil {
		return unsupported(failed("remove subvolume "+base, dir, err, map[error]string{
			unix.EPERM:  "that needs CAP_SYS_ADMIN (root), or the mount option user_subvol_rm_allowed",
			unix.EBUSY:  "something is mounted in it, or it is used for swap or by a send",
			unix.ENOTTY: "this needs Linux 5.7",
		}))
	}
	_, _ = s.Forget(ctx, dir, p) // most often it is too early
	return nil
}

func openBase(dir int, base string) (int, error) {
	fd, err := unix.Openat(dir, base, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, failed("open "+base, dir, err, nil)
	}
	return fd, nil
}

func validBase(base string) error {
	if base == "" || base == "." || base == ".." || len(base) > 255 || strings.ContainsAny(base, "/\x00") {
		return fmt.Errorf("%q is no name of an entry: %w", base, fs.ErrInvalid)
	}
	return nil
}

// Enable switches quotas of the btrfs of fd on, for all of it. Full ones then count what
// is there, which goes on after the call, and cost at every write;
// simple ones (Linux 6.7) count from now on, and belong to the file system for good.
func (s *Subvolumes) Enable(ctx context.Context, fd int, simple bool) error {
	if err := ended(ctx); err != nil {
		return err
	}
	command := uint64(1) // BTRFS_QUOTA_CTL_ENABLE
	if simple {
		command = 4 // BTRFS_QUOTA_CTL_ENABLE_SIMPLE_QUOTA
	}
	return control(fd, command)
}

// Disable switches quotas off, and forgets all limits.
func (s *Subvolumes) Disable(ctx context.Context, fd int) error {
	if err := ended(ctx); err != nil {
		return err
	}
	return control(fd, 2) // BTRFS_QUOTA_CTL_DISABLE
}

func control(fd int, command uint64) error {
	b := make([]byte, 16)
	binary.NativeEndian.PutUint64(b, command)
	if err := ioctl(fd, quotaControl, b); err != nil {
		return unsupported(failed("switch quotas", fd, err, map[error]string{
			unix.EPERM:  "that needs CAP_SYS_ADMIN (root)",
			unix.EINVAL: "this kernel has no simple quotas: they came with Linux 6.7",
			unix.ENOTTY: "this is no btrfs",
		}))
	}
	return nil
}

// Rescan lets btrfs count anew what all subvolumes hold; it goes on after the call. One
// that runs already is enough.
func (s *Subvolumes) Rescan(ctx context.Context, fd int) error {
	if err := ended(ctx); err != nil {
		return err
	}
	if err := ioctl(fd, quotaRescan, make([]byte, 64)); err != nil && err != unix.EINPROGRESS {
		return failed("count anew", fd, err, quotaHints)
	}
	return nil
}

// Rescanning reports whether a count runs, and how far it is: an address in the
// file system, which says only that it moves.
func (s *Subvolumes) Rescanning(ctx context.Context, fd int) (running bool, progress uint64, err error) {
	if err := ended(ctx); err != nil {
		return false, 0, err
	}
	b := make([]byte, 64)
	if err := ioctl(fd, rescanStatus, b); err != nil {
		return false, 0, failed("progress of counting", fd, err, quotaHints)
	}
	return binary.NativeEndian.Uint64(b) != 0, binary.NativeEndian.Uint64(b[8:]), nil
}
