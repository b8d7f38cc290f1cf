package loadgen_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// small is a directory on a file system of so many bytes.
func small(t *testing.T, bytes int) string {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to mount a small file system")
	}
	dir := t.TempDir()
	must.Do(t, unix.Mount("small", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes)))
	t.Cleanup(func() { must.Do(t, errors.Join(unix.Unmount(dir, unix.MNT_DETACH))) })
	return dir
}
