package rig

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Root skips a test that only root can do.
func Root(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: it mounts file systems or gives files away")
	}
}

// Memory returns a directory on a file system in memory.
func Memory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "datamove-")
	if err != nil {
		t.Skip("no file system in memory: ", err)
	}
	t.Cleanup(func() {
		must.Tell(t, os.RemoveAll(dir))
	})
	return dir
}

// Tmpfs mounts a file system in memory with the given options, like size=8m.
func Tmpfs(t testing.TB, options string) string {
	t.Helper()
	Root(t)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Skip("can not mount a tmpfs: ", err)
	}
	t.Cleanup(func() { Unmount(t, dir) })
	return dir
}

// Image makes a file system of a type (ext4, xfs, btrfs) in a new file.
func Image(t testing.TB, file, system string, bytes int64) {
	t.Helper()
	f := must.Get(os.Create(file))(t)
	must.Do(t, f.Truncate(bytes))
	must.Do(t, f.Close())
	args := map[string][]string{
		"ext4":  {"mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,nodiscard"},
		"xfs":   {"mkfs.xfs", "-q", "-f", "-K", "-m", "reflink=1"},
		"btrfs": {"mkfs.btrfs", "-q", "-f", "-K"},
	}[system]
	if _, err := exec.LookPath(args[0]); err != nil {
		t.Skip("no ", args[0])
	}
	if out, err := exec.Command(args[0], append(args[1:], file)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", args[0], err, out)
	}
}

// Loop mounts a file with a file system in it.
func Loop(t testing.TB, file, options string) string {
	t.Helper()
	Root(t)
	dir := t.TempDir()
	args := []string{"-o", strings.TrimSuffix("loop,"+options, ","), file, dir}
	if out, err := exec.Command("mount", args...).CombinedOutput(); err != nil {
		if strings.Contains(string(out), "loop device") {
			t.Skipf("no loop device: %s", out)
		}
		t.Fatalf("mount %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	t.Cleanup(func() { Unmount(t, dir) })
	return dir
}

// Disk mounts a new file system of the given type and size.
func Disk(t testing.TB, system string, bytes int64) string {
	t.Helper()
	Root(t)
	file := filepath.Join(t.TempDir(), system+".img")
	Image(t, file, system, bytes)
	return Loop(t, file, "")
}

// Unmount unmounts a directory if it is mounted.
func Unmount(t testing.TB, dir string) {
	t.Helper()
	err := unix.Unmount(dir, 0)
	if err == unix.EBUSY { // somebody looks at it: it goes when they are done
		err = unix.Unmount(dir, unix.MNT_DETACH)
	}
	if err != nil && err != unix.EINVAL {
		t.Errorf("unmount %s: %v", dir, err)
	}
}
