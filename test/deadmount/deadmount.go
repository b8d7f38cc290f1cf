// Package deadmount mounts file systems of FUSE that do not answer.
package deadmount

import (
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// Open mounts a file system of FUSE at a directory, and returns the descriptor on which its questions come, the first of which is [IsInit]. It is unmounted with the
// end of the test; end is called behind that, before the descriptor is closed.
func Open(t *testing.T, dir string, end func()) (fd int) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skip("needs /dev/fuse: ", err)
	}
	if err := unix.Mount("dead", dir, "fuse.dead", 0, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)); err != nil {
		_ = unix.Close(fd)
		t.Skip("needs root, to mount: ", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_FORCE|unix.MNT_DETACH); err != nil {
			t.Error("unmount: ", err)
		}
		end()
		_ = unix.Close(fd)
	})
	return fd
}

// Stopped mounts a file system whose process is stopped, as by SIGSTOP: it takes no question. A call that waits for it ends with its process, and with nothing else.
func Stopped(t *testing.T, dir string) {
	t.Helper()
	fd := Open(t, dir, func() {})
	request := make([]byte, 1<<20)
	n, err := unix.Read(fd, request)
	for err == unix.EINTR {
		n, err = unix.Read(fd, request)
	}
	must.Do(t, err)
	if !IsInit(request[:n]) {
		t.Fatalf("the kernel's first question is %x", request[:n])
	}
	must.Get(unix.Write(fd, Ready(request)))(t)
}

// From include/uapi/linux/fuse.h: the size of a request's head, and the first request.
const (
	fuseHeader = 40
	fuseInit   = 26
)

// IsInit says whether a request is the first one of a mount.
func IsInit(request []byte) bool {
	return len(request) >= fuseHeader && binary.NativeEndian.Uint32(request[4:]) == fuseInit
}

// Ready answers the first request: version 7.31, and writes of 64 KiB.
func Ready(request []byte) []byte {
	answer := make([]byte, 16+64) // fuse_out_header, fuse_init_out
	order := binary.NativeEndian
	order.PutUint32(answer, uint32(len(answer)))
	copy(answer[8:16], request[8:16]) // the number of the request
	order.PutUint32(answer[16:], 7)
	order.PutUint32(answer[20:], 31)
	order.PutUint32(answer[24:], 64<<10) // read ahead
	order.PutUint32(answer[36:], 64<<10)
	return answer
}
