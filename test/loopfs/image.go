// Package loopfs gives tests a file system of their own: an image in a file, on a loop
// device, mounted, and gone at the end of the test. It runs no program but mkfs, so that it
// works in a guest that has little else.
package loopfs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Spec says which file system.
type Spec struct {
	Type    string   // ext4, xfs, btrfs: mkfs.TYPE makes it
	Bytes   int64    // of the image, which is sparse; 0 means 512 MiB
	Make    []string // options of mkfs
	Options string   // of the mount
	Rare    bool     // many kernels lack it: then the test is for a guest (make e2e-vm)
}

// Guest is the variable that says that a test runs where everything it needs is there.
const Guest = "DATAMOVE_GUEST"

// Skip skips a test for want of something. In a guest nothing may be missing.
func Skip(t testing.TB, reason string) {
	t.Helper()
	if os.Getenv(Guest) == "1" {
		t.Fatalf("in the guest nothing may be missing: %s", reason)
	}
	t.Skip(reason)
}

// SkipRare skips a test for what kernels of many machines lack, and that of a guest has.
func SkipRare(t testing.TB, reason string) {
	t.Helper()
	Skip(t, "elsewhere: make e2e-vm: "+reason)
}

// Mount makes and mounts one. It skips where that is not possible.
func Mount(t testing.TB, s Spec) string {
	t.Helper()
	if os.Geteuid() != 0 {
		Skip(t, "needs root")
	}
	program, err := exec.LookPath("mkfs." + s.Type)
	if err != nil {
		Skip(t, "needs mkfs."+s.Type+": test/setup installs it")
	}
	dir := scratch(t)
	file, point := filepath.Join(dir, "image"), filepath.Join(dir, "mount")
	if s.Bytes == 0 {
		s.Bytes = 512 << 20
	}
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		defer f.Close()
		err = errors.Join(f.Truncate(s.Bytes), os.Mkdir(point, 0o755))
	}
	must.Do(t, err)
	if out, err := exec.Command(program, append(s.Make, file)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, out)
	}
	device, loop := attach(t, f)
	err = unix.Mount(device, point, s.Type, 0, s.Options)
	// The device goes when nobody has it any more: now, or with the mount.
	_ = loop.Close()
	if err != nil {
		skip := Skip
		if s.Rare {
			skip = SkipRare
		}
		skip(t, "this kernel does not mount "+s.Type+" with "+strconv.Quote(s.Options)+": "+err.Error())
	}
	t.Cleanup(func() { unmount(t, point) })
	return point
}

// scratch is a directory in memory, where an image is fastest.
func scratch(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "image-")
	if err != nil {
		return t.TempDir()
	}
	must.Do(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// attach puts a file on a free loop device, which detaches itself when it is closed.
func attach(t testing.TB, f *os.File) (string, *os.File) {
	t.Helper()
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		Skip(t, "needs loop devices: "+err.Error())
	}
	defer control.Close()
	for range 100 {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			Skip(t, "needs a free loop device: "+err.Error())
		}
		device := "/dev/loop" + strconv.Itoa(n)
		if _, err := os.Stat(device); errors.Is(err, os.ErrNotExist) { // no udev here
			_ = unix.Mknod(device, unix.S_IFBLK|0o600, int(unix.Mkdev(7, uint32(n))))
		}
		loop, err := os.OpenFile(device, os.O_RDWR, 0)
		if err != nil {
			continue
		}
		config := unix.LoopConfig{Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}}
		if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil {
			return device, loop
		}
		_ = loop.Close() // somebody else took it
	}
	Skip(t, "no loop device stayed free")
	return "", nil
}

// unmount waits until nothing uses it: a quota file or a removed subvolume can for a while.
func unmount(t testing.TB, point string) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := unix.Unmount(point, 0)
		if err == nil || errors.Is(err, unix.EINVAL) {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("unmount %s: %v", point, err)
			_ = unix.Unmount(point, unix.MNT_DETACH)
			return
		}
	}
}
