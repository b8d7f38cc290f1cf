package client

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre"
	"datamove.dev/test/must"
)

// realFile makes a file with some bytes in the directory of a test.
func realFile(t *testing.T, dir, name string, size int) (path string, data []byte) {
	t.Helper()
	data = make([]byte, size)
	_, _ = rand.Read(data)
	path = filepath.Join(dir, name)
	must.Do(t, os.WriteFile(path, data, 0o644))
	return path, data
}

// realFD opens a file until the end of the test.
func realFD(t *testing.T, path string, flags int) int {
	t.Helper()
	fd := realFDToClose(t, path, flags)
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// realFDToClose opens a file that the test closes.
func realFDToClose(t *testing.T, path string, flags int) int {
	t.Helper()
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("open %s: %v", path, err)
	}
	return fd
}

func needsRoot(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
}

func TestRealFIDs(t *testing.T) {
	c, dir := realLustre(t)
	ctx := t.Context()
	path, _ := realFile(t, dir, "one", 10)
	must.Do(t, os.Link(path, filepath.Join(dir, "two")))
	fd, at := realFDToClose(t, path, OpenToAsk), realFD(t, dir, unix.O_RDONLY|unix.O_DIRECTORY)
	id, err1 := c.FID(ctx, fd)
	parent, err2 := c.FID(ctx, at)
	must.Do(t, errors.Join(err1, err2))
	links, err := c.Links(ctx, fd)
	if os.Geteuid() != 0 && errors.Is(err, fs.ErrPermission) {
		t.Skip("needs root, or the mount option user_fid2path")
	}
	slices.SortFunc(links, func(a, b Link) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	if want := []Link{{Parent: parent, Name: "one"}, {Parent: parent, Name: "two"}}; err != nil || !reflect.DeepEqual(links, want) {
		t.Errorf("links %v, %v; want %v", links, err, want)
	}
	must.Tell(t, unix.Close(fd))
	paths, err := c.Paths(ctx, id)
	if os.Geteuid() != 0 {
		if err != nil && !errors.Is(err, fs.ErrPermission) {
			t.Errorf("paths for a user: %v", err)
		}
		return
	}
	below, _ := filepath.Rel(c.Mount, dir)
	slices.Sort(paths)
	if want := []string{filepath.Join(below, "one"), filepath.Join(below, "two")}; err != nil || !reflect.DeepEqual(paths, want) {
		t.Errorf("paths %q, %v; want %q", paths, err, want)
	}
	again, err := c.OpenFID(ctx, id, OpenToAsk)
	must.Do(t, err)
	if got, err := c.FID(ctx, again); err != nil || got != id {
		t.Errorf("opened by its FID it is %v, %v; want %v", got, err, id)
	}
	must.Do(t, errors.Join(unix.Close(again), os.Remove(path), os.Remove(filepath.Join(dir, "two"))))
	if paths, err := c.Paths(ctx, id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("paths of a file that is gone: %q, %v", paths, err)
	}
}

func TestRealDataVersion(t *testing.T) {
	c, dir := realLustre(t)
	path, _ := realFile(t, dir, "data", 1<<20)
	fd, writer := realFD(t, path, unix.O_RDONLY), realFD(t, path, unix.O_WRONLY)
	before := must.Get(c.DataVersion(t.Context(), fd))(t)
	if again, err := c.DataVersion(t.Context(), fd); err != nil || again != before {
		t.Errorf("nothing was written: %d, %v; want %d", again, err, before)
	}
	if _, err := unix.Pwrite(writer, []byte("new"), 0); err != nil { // and no fsync
		t.Fatal(err)
	}
	if after, err := c.DataVersion(t.Context(), fd); err != nil || after == before {
		t.Errorf("after a write that is in a cache: %d, %v; want another one", after, err)
	}
}

func TestRealLazySizeAndAdvice(t *testing.T) {
	c, dir := realLustre(t)
	path, data := realFile(t, dir, "data", 3<<20)
	fd := realFD(t, path, unix.O_RDONLY)
	err := errors.Join(c.WillRead(t.Context(), fd, 0, 0), c.WillRead(t.Context(), fd, 1<<20, 1<<20), c.DontNeed(t.Context(), fd, 0, 0))
	if errors.Is(err, errors.ErrUnsupported) { // some back ends take no advice
		t.Logf("note: %v", err)
	} else if err != nil {
		t.Error(err)
	}
	if os.Geteuid() != 0 {
		if size, err := c.LazySize(t.Context(), fd); !errors.Is(err, ErrNoSize) {
			t.Errorf("lazy size for a user: %+v, %v; want none", size, err)
		}
		return
	}
	var size LazySize
	// It comes with the close of who wrote, and an MDT may take its time with it.
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if size, err = c.LazySize(t.Context(), fd); err == nil && size.Bytes == int64(len(data)) {
			return
		}
	}
	t.Errorf("lazy size %+v, %v; want %d bytes", size, err, len(data))
}

// Others wait for a group lock, and for nothing after it.
func TestRealGroupLock(t *testing.T) {
	c, dir := realLustre(t)
	path, _ := realFile(t, dir, "data", 1<<20)
	fd, other := realFD(t, path, unix.O_RDWR), realFD(t, path, unix.O_RDWR)
	lock := must.Get(c.LockGroup(t.Context(), fd))(t)
	wrote := make(chan error, 1)
	go func() {
		_, err := unix.Pwrite(other, []byte("from outside"), 0)
		wrote <- err
	}()
	if _, err := unix.Pwrite(fd, []byte("from inside"), 4096); err != nil {
		t.Error(err)
	}
	select {
	case err := <-wrote:
		t.Errorf("another wrote while the lock was held: %v", err)
	case <-time.After(2 * time.Second): // long enough to see it where it does not wait
	}
	must.Do(t, lock.Unlock())
	select {
	case err := <-wrote:
		must.Tell(t, err)
	case <-time.After(2 * time.Minute):
		t.Fatal("another still waits after the lock was let go")
	}
}

func TestRealLease(t *testing.T) {
	c, dir := realLustre(t)
	path, _ := realFile(t, dir, "data", 10)
	fd := realFD(t, path, unix.O_RDWR)
	lease := must.Get(c.LeaseToWrite(t.Context(), fd))(t)
	if held, err := lease.Held(); err != nil || !held {
		t.Errorf("held %v, %v", held, err)
	}
	other := realFDToClose(t, path, unix.O_RDWR)
	if held, err := lease.Held(); err != nil || held {
		t.Errorf("after another opened it: held %v, %v", held, err)
	}
	if held, err := lease.Release(); err != nil || held {
		t.Errorf("given up after it was broken: held %v, %v", held, err)
	}
	if _, err := c.LeaseToWrite(t.Context(), fd); !errors.Is(err, lustre.ErrInUse) {
		t.Errorf("while another has it open: %v; want %v", err, lustre.ErrInUse)
	}
	must.Do(t, unix.Close(other))
}
