package client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// The real kernel, asked what every Linux answers: the wiring of buffers, not Lustre.
func TestLinuxIoctl(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	must.Do(t, err)
	defer r.Close()
	defer w.Close()
	if _, err := w.WriteString("seven b"); err != nil {
		t.Fatal(err)
	}
	count := make([]byte, 4)
	if _, err := (linux{}).ioctl(int(r.Fd()), unix.TIOCINQ, count); err != nil || binary.NativeEndian.Uint32(count) != 7 {
		t.Errorf("how much a pipe holds: %v, %v; want 7 bytes", count, err)
	}
	if _, err := (linux{}).ioctl(int(r.Fd()), 0x800866ad, make([]byte, 16)); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a pipe has a FID: %v; want ENOTTY", err)
	}
	if _, err := (linux{}).ioctlAt(int(r.Fd()), 1, make([]byte, 8), pointer{1, make([]byte, 1)}); err == nil {
		t.Error("an address beyond the struct was taken")
	}
}

// The kernel fills a buffer whose address is in a struct: here the list of addresses of
// this machine (struct ifconf: a length, and where the list goes).
func TestLinuxIoctlAt(t *testing.T) {
	t.Parallel()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs a network: ", err)
	}
	defer func() { _ = unix.Close(fd) }()
	arg, list := make([]byte, 16), make([]byte, 4096)
	binary.NativeEndian.PutUint32(arg, uint32(len(list)))
	if _, err := (linux{}).ioctlAt(fd, unix.SIOCGIFCONF, arg, pointer{8, list}); err != nil {
		t.Fatal(err)
	}
	n := binary.NativeEndian.Uint32(arg)
	if n == 0 {
		t.Skip("needs an interface with an address")
	}
	if name, _, ok := bytes.Cut(list[:n], []byte{0}); !ok || len(name) == 0 {
		t.Errorf("the first interface of %d bytes is %q", n, name)
	}
	if !bytes.Equal(arg[8:], make([]byte, 8)) {
		t.Errorf("an address was left in the struct: %x", arg[8:])
	}
}

func TestLinuxXattr(t *testing.T) {
	t.Parallel()
	f := must.Get(os.CreateTemp(t.TempDir(), ""))(t)
	defer f.Close()
	k, fd := linux{}, int(f.Fd())
	value := bytes.Repeat([]byte("layout"), 500)
	if err := k.setxattr(fd, "user.lov", value); errors.Is(err, unix.EOPNOTSUPP) {
		t.Skip("needs a file system with user attributes")
	} else if err != nil {
		t.Fatal(err)
	}
	if got, err := k.getxattr(fd, "user.lov"); err != nil || !bytes.Equal(got, value) {
		t.Errorf("getxattr: %d bytes, %v; want %d", len(got), err, len(value))
	}
	must.Tell(t, k.removexattr(fd, "user.lov"))
	if _, err := k.getxattr(fd, "user.lov"); !errors.Is(err, unix.ENODATA) {
		t.Errorf("after removexattr: %v; want ENODATA", err)
	}
}

func TestLinuxFiles(t *testing.T) {
	t.Parallel()
	d := must.Get(os.Open(t.TempDir()))(t)
	defer d.Close()
	k, dir := linux{}, int(d.Fd())
	fd := must.Get(k.openat(dir, "new", unix.O_CREAT|unix.O_EXCL|unix.O_RDWR, 0o640))(t)
	defer func() { _ = k.close(fd) }()
	if mode, err := k.stat(fd); err != nil || mode&unix.S_IFMT != unix.S_IFREG {
		t.Errorf("stat: %o, %v; want a regular file", mode, err)
	}
	must.Tell(t, k.unlinkat(dir, "new"))
	if _, err := k.openat(dir, "new", unix.O_RDONLY, 0); !errors.Is(err, unix.ENOENT) {
		t.Errorf("open after unlink: %v; want ENOENT", err)
	}
	if mounts, err := k.files().Open("proc/self/mountinfo"); err != nil {
		t.Error(err)
	} else {
		mounts.Close()
	}
}

// An answer that only kernels have a name for is no answer that a question is known.
func TestAnswersForUsers(t *testing.T) {
	t.Parallel()
	for from, want := range map[unix.Errno]error{524: errors.ErrUnsupported, unix.EOPNOTSUPP: errors.ErrUnsupported, unix.ENOENT: os.ErrNotExist, unix.EBUSY: unix.EBUSY} {
		if got := unsupported(forUsers(from)); !errors.Is(got, want) {
			t.Errorf("%d: %v; want %v", from, got, want)
		}
	}
}

// The real kernel says that of any file, and not of one that is not open.
func TestEncrypted(t *testing.T) {
	t.Parallel()
	f := must.Get(os.Create(t.TempDir() + "/f"))(t)
	if secret, err := Encrypted(int(f.Fd())); err != nil || secret {
		t.Errorf("a file here: %v, %v", secret, err)
	}
	must.Do(t, f.Close())
	if _, err := Encrypted(-1); !errors.Is(err, unix.EBADF) {
		t.Errorf("no file: %v", err)
	}
}
