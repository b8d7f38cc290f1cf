package client

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/test/must"
)

// The real device's reading, on a pipe: what is there is read, and who waits for what is
// not can be stopped.
func TestDeviceIsRead(t *testing.T) {
	t.Parallel()
	ends := make([]int, 2)
	must.Do(t, unix.Pipe2(ends, unix.O_CLOEXEC))
	in, out := linuxDevice(ends[0]), linuxDevice(ends[1])
	must.Do(t, out.write([]byte("a record")))
	buffer := make([]byte, 100)
	if n, err := in.read(t.Context(), buffer); err != nil || string(buffer[:n]) != "a record" {
		t.Errorf("read %q, %v", buffer[:n], err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stopped := make(chan error)
	go func() {
		_, err := in.read(ctx, buffer)
		stopped <- err
	}()
	stop()
	if err := <-stopped; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	must.Do(t, out.close())
	if n, err := in.read(t.Context(), buffer); n != 0 || err != nil {
		t.Errorf("at the end: %d, %v", n, err)
	}
	if err := in.seek(1); !errors.Is(err, unix.ESPIPE) {
		t.Errorf("seek in a pipe: %v", err)
	}
	if err := in.setFlags(1); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("flags of a pipe: %v", err)
	}
	must.Tell(t, in.close())
	if _, err := (linuxDevices{}).open("changelog-none-MDT0000", unix.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a device that there is not: %v", err)
	}
}

// Restripe copies with the real calls, on a file system that has holes.
func TestCopyContent(t *testing.T) {
	t.Parallel()
	k, dir := linux{}, t.TempDir()
	at := func(name string) int {
		fd := must.Get(k.openat(unix.AT_FDCWD, dir+"/"+name, unix.O_RDWR|unix.O_CREAT, 0o600))(t)
		t.Cleanup(func() { _ = k.close(fd) })
		return fd
	}
	from, to := at("from"), at("to")
	const size = 40 << 20
	for _, off := range []int64{0, 3 << 20, 30<<20 - 5, size - 9} {
		if _, err := k.pwrite(from, []byte("some data"), off); err != nil {
			t.Fatal(err)
		}
	}
	never, quiet := func() error { return nil }, func(int64) {}
	must.Do(t, copyContent(t.Context(), k, from, to, size, never, quiet))
	a, b := make([]byte, size), make([]byte, size+1)
	_, err1 := k.pread(from, a, 0)
	n, err2 := k.pread(to, b, 0)
	if err := errors.Join(err1, err2); err != nil || n != size || string(a) != string(b[:n]) {
		t.Errorf("%d bytes, %v; want the same %d", n, err, size)
	}
	was, err1 := k.fstat(from)
	is, err2 := k.fstat(to)
	if err := errors.Join(err1, err2); err != nil || is.Blocks > was.Blocks+2048 {
		t.Errorf("%d blocks, of %d: the holes were filled (%v)", is.Blocks, was.Blocks, err)
	}
	enough := errors.New("enough")
	if err := copyContent(t.Context(), k, from, to, size, func() error { return enough }, quiet); !errors.Is(err, enough) {
		t.Errorf("stopped: %v", err)
	}
	must.Do(t, k.truncate(from, 10))
	if err := copyPiece(k, from, to, make([]byte, 20), 5); err == nil {
		t.Error("a file that became shorter was copied")
	}
	must.Do(t, k.setTimes(to, unix.Timespec{Sec: 5}, unix.Timespec{Sec: 1700000000, Nsec: 7}))
	if st, err := k.fstat(to); err != nil || st.Mtim.Sec != 1700000000 || st.Atim.Sec != 5 {
		t.Errorf("times %+v, %+v, %v", st.Atim, st.Mtim, err)
	}
	must.Tell(t, k.chown(to, int(is.Uid), int(is.Gid)))
}
