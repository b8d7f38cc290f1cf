package xattrs

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix/kernel"
)

// TestUnset: an attribute that its inode has no place for is a limit of that entry, and the file system is not full.
func TestUnset(t *testing.T) {
	const plenty = 250 << 20
	for _, c := range []struct {
		err   error
		bytes int
		free  int64
		want  error
	}{
		{unix.ENOSPC, 5000, plenty, mover.ErrUnsupported},
		{unix.EDQUOT, 5000, plenty, mover.ErrUnsupported},
		{unix.E2BIG, 5000, 0, mover.ErrUnsupported},
		{unix.ERANGE, 5000, 0, mover.ErrUnsupported},
		{unix.ENOSPC, 5000, 0, mover.ErrFull},
		{unix.ENOSPC, 5000, freeBesides, mover.ErrFull},
		{unix.EDQUOT, 5000, 0, mover.ErrFull},
		{unix.EPERM, 5000, plenty, mover.ErrPermission},
	} {
		if got := kernel.Kinded(unset(c.err, c.bytes, c.free)); !errors.Is(got, c.want) || errors.Is(got, mover.ErrFull) != (c.want == mover.ErrFull) {
			t.Errorf("%v of %d bytes, %d are free: %v, want %v", c.err, c.bytes, c.free, got, c.want)
		}
	}
}
