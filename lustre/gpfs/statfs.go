package gpfs

import (
	"fmt"
	"math"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// capacity is what statfs says of an open file or directory: of the whole file system or,
// where filesetdf is on and the fileset has a quota, of the fileset. Anybody may ask.
func capacity(fd int) (lustre.Target, error) {
	var st unix.Statfs_t
	for {
		err := unix.Fstatfs(fd, &st)
		if err == nil {
			break
		}
		if err != unix.EINTR {
			return lustre.Target{}, fmt.Errorf("statfs: %w", err)
		}
	}
	unit := uint64(max(st.Frsize, 0)) // as df reckons
	if unit == 0 {
		unit = uint64(max(st.Bsize, 0))
	}
	return lustre.Target{
		Kind:       lustre.InPool,
		TotalBytes: product(st.Blocks, unit), FreeBytes: product(st.Bavail, unit),
		TotalFiles: product(st.Files, 1), FreeFiles: product(st.Ffree, 1),
	}, nil
}

// product is a*b, or the largest int64.
func product(a, b uint64) int64 {
	if b != 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return int64(a * b)
}
