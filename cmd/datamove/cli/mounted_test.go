package cli

import (
	"fmt"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
)

// TestKindly: what a kernel says has the exit code that a shell is promised.
func TestKindly(t *testing.T) {
	for err, want := range map[error]int{
		unix.ENOSPC: 7, unix.EDQUOT: 7, unix.EEXIST: 5, unix.EBUSY: 5, unix.EPERM: 4, unix.EACCES: 4, unix.ENOENT: 3, unix.EOPNOTSUPP: 1, unix.ENOSYS: 1,
		unix.ETIMEDOUT: 10, unix.ESHUTDOWN: 8, fs.ErrInvalid: 2, unix.EIO: 1, lustre.ErrNotApplied: 1,
	} {
		if got := ExitCode(WithKernelKind(fmt.Errorf("layout of /lustre: %w", err))); got != want {
			t.Errorf("%v: exit %d, want %d", err, got, want)
		}
	}
}
