package localfs

import (
	"context"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// Space is how full a file system is as a whole.
type Space struct {
	Pool string // its name for people
}

// Targets returns one pool: that of the whole file system, as statfs(2) tells it. Below
// a project of ext4 or xfs with a limit, that is what the project may hold.
func (s Space) Targets(ctx context.Context, fd int) ([]lustre.Target, error) {
	if err := ended(ctx); err != nil {
		return nil, err
	}
	t, err := spaceOf(fd)
	if err != nil {
		return nil, failed("space", fd, err, nil)
	}
	t.Name = s.Pool
	return []lustre.Target{t}, nil
}

func spaceOf(fd int) (lustre.Target, error) {
	var f unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &f)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return lustre.Target{}, err
		}
	}
	unit := uint64(max(f.Frsize, 0))
	if unit == 0 {
		unit = uint64(max(f.Bsize, 1))
	}
	t := lustre.Target{Kind: lustre.InPool, TotalBytes: lustre.Times(f.Blocks, unit), FreeBytes: lustre.Times(f.Bavail, unit),
		TotalFiles: int64(min(f.Files, math.MaxInt64)), FreeFiles: int64(min(f.Ffree, math.MaxInt64))}
	if f.Flags&unix.ST_RDONLY != 0 {
		t.State |= lustre.ReadOnlyState
	}
	return t, nil
}
