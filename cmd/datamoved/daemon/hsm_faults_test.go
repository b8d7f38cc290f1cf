package daemon

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// TestHSMSpoilt: a copy that is not what was archived, and one that is gone, end the restore
// with an error; the file stays as it is.
//
//safety:2 a copy in an archive with one bit changed, cut off, without a checksum, or gone: it never becomes the content of a file
func TestHSMSpoilt(t *testing.T) {
	server := s3test.Start(t, false)
	if server.Dir == "" {
		t.Skip("the files of this server are not ours to spoil")
	}
	tier, folder := bucketTier(t, server), t.TempDir()
	for _, row := range []struct {
		name string
		tier config.Tier
		at   string
	}{
		{"directory", config.Tier{Path: folder}, filepath.Join(folder, "hsm")},
		{"store", tier, filepath.Join(server.Dir, tier.S3.Prefix, "hsm")},
	} {
		mount := t.TempDir() // an archive is that of one file system
		for _, size := range []int{5000, large} {
			t.Run(fmt.Sprint(row.name, " ", size), func(t *testing.T) {
				a := serveHSM(t, row.tier, mount, t.TempDir())
				f := a.Write(1, noise(size))
				a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
				a.Release(f)
				path := filepath.Join(row.at, copytool.Key(copytest.Name, f))
				spoil(t, path, int64(size)/2)
				a.is(a.Do(uapi.CopyRestore, f)[0], unix.EIO, false)
				spoil(t, path, int64(size)/2)
				must.Do(t, os.Truncate(path, int64(size)-1))
				a.is(a.Do(uapi.CopyRestore, f)[0], unix.EIO, false)
				must.Do(t, os.Remove(path))
				a.is(a.Do(uapi.CopyRestore, f)[0], unix.ENOENT, false)
				if !a.Released(f) || bytes.Contains(a.Read(f), noise(size)[:100]) {
					t.Error("something became the file's content")
				}
			})
		}
	}
}

// spoil changes one bit, or changes it back.
func spoil(t *testing.T, path string, off int64) {
	t.Helper()
	f := must.Get(os.OpenFile(path, os.O_RDWR, 0))(t)
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, off); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 0x10
	if _, err := f.WriteAt(b, off); err != nil {
		t.Fatal(err)
	}
}

// TestHSMFull: an archive without room ends with ENOSPC and may be tried again; the old
// copy stays, and with room it goes on.
func TestHSMFull(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("no tmpfs can be mounted: %v", err)
	}
	t.Cleanup(func() {
		must.Tell(t, unix.Unmount(dir, 0))
	})
	a := serveHSM(t, config.Tier{Path: dir}, t.TempDir(), t.TempDir())
	t.Cleanup(a.stop) // before it is unmounted
	f := a.Write(1, noise(1000))
	a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
	g := a.Write(2, noise(5<<20))
	cookie := a.Do(uapi.CopyArchive, g)[0]
	a.is(cookie, unix.ENOSPC, true)
	a.Release(f)
	a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
	must.Do(t, unix.Mount("", dir, "tmpfs", unix.MS_REMOUNT, "size=30m"))
	a.Again(cookie)
	a.is(cookie, 0, false)
	a.stop()
}

// relay passes connections on to an address until it is cut.
type relay struct {
	net.Listener
	to    string
	mu    sync.Mutex
	open  map[net.Conn]bool // guarded by mu, as cut
	isCut bool
	all   sync.WaitGroup
}

func newRelay(t *testing.T, to string) *relay {
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	r := &relay{Listener: l, to: to, open: map[net.Conn]bool{}}
	r.all.Go(r.accept)
	t.Cleanup(func() { _ = l.Close(); r.cut(true); r.all.Wait() })
	return r
}

func (r *relay) accept() {
	for {
		in, err := r.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", r.to)
		if err != nil || !r.hold(in, out) {
			_ = in.Close()
			continue
		}
		for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
			r.all.Go(func() {
				_, _ = bufio.NewReader(way[0]).WriteTo(way[1])
				_, _ = way[0].Close(), way[1].Close()
			})
		}
	}
}

func (r *relay) hold(conns ...net.Conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range conns {
		if r.isCut {
			_ = c.Close()
		}
		r.open[c] = true
	}
	return !r.isCut
}

// cut ends all connections, and every new one; or lets them through again.
func (r *relay) cut(off bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.isCut = off
	for c := range r.open {
		_ = c.Close()
	}
	r.open = map[net.Conn]bool{}
}

// TestHSMUnreachable: a store that can not be reached ends actions so that they come again,
// and then they are done.
func TestHSMUnreachable(t *testing.T) {
	tier := bucketTier(t, s3test.Start(t, false))
	u := must.Get(url.Parse(tier.S3.Endpoint))(t)
	r := newRelay(t, u.Host)
	tier.S3.Endpoint = "http://" + r.Addr().String()
	a := serveHSM(t, tier, t.TempDir(), t.TempDir())
	f := a.Write(1, noise(5000))
	a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
	a.Release(f)
	g := a.Write(2, noise(large))
	r.cut(true)
	archive, restore := a.Do(uapi.CopyArchive, g)[0], a.Do(uapi.CopyRestore, f)[0]
	for _, cookie := range []uint64{archive, restore} {
		if errno, again := a.End(cookie); errno == 0 || !again {
			t.Errorf("cut off: %v, retry %v", errno, again)
		}
	}
	r.cut(false)
	for _, cookie := range []uint64{archive, restore} {
		a.Again(cookie)
		a.is(cookie, 0, false)
	}
	if !bytes.Equal(a.Read(f), noise(5000)) {
		t.Error("another content came back")
	}
}
