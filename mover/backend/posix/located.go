package posix

import (
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/fstype"
)

// Located implements mover.Locator. What a bind mount shows elsewhere has one path in its file system; and what servers keep is one
// file system behind all of its mounts, where they have a number for it.
func (p *Backend) Located() (volume, inside string, err error) {
	seen, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(p.root))
	if err != nil {
		return "", "", fmt.Errorf("%w: %w", mover.ErrUnsupported, err)
	}
	var st unix.Statx_t
	if err := unix.Statx(p.root, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return "", "", mover.ErrUnsupported
	}
	mounts, err := mountinfo.GetMounts(func(m *mountinfo.Info) (skip, stop bool) {
		is := uint64(m.ID) == st.Mnt_id
		return !is, is
	})
	if err != nil || len(mounts) == 0 || !mover.Within(strings.Trim(seen, "/"), strings.Trim(mounts[0].Mountpoint, "/")) {
		return "", "", fmt.Errorf("%w: the mount is not to be seen from here", mover.ErrUnsupported)
	}
	m := mounts[0]
	inside = path.Join(m.Root, strings.TrimPrefix(seen, strings.TrimSuffix(m.Mountpoint, "/")))
	return p.volume(m), strings.Trim(inside, "/"), nil
}

func (p *Backend) volume(m *mountinfo.Info) string {
	if number, ok := fstype.NumberOf(p.root); ok {
		return fmt.Sprintf("%s %x", p.system.Name, number)
	}
	return fmt.Sprintf("device %d:%d", m.Major, m.Minor)
}
