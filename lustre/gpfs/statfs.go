package gpfs

import (
	"fmt"

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
		TotalBytes: lustre.Times(st.Blocks, unit), FreeBytes: lustre.Times(st.Bavail, unit),
		TotalFiles: lustre.Times(st.Files, 1), FreeFiles: lustre.Times(st.Ffree, 1),
	}, nil
}
