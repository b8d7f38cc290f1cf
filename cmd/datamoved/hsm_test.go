package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/lustre"
	"datamove.dev/lustre/abi"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/retry"
	"datamove.dev/mover/s3/s3test"
	"datamove.dev/mover/vault"
)

// backend is where copies are kept.
type backend struct {
	name string
	tier func(t *testing.T) config.Tier
}

var backends = []backend{
	{"directory", func(t *testing.T) config.Tier { return config.Tier{Path: t.TempDir()} }},
	{"store", func(t *testing.T) config.Tier { return bucketTier(t, s3test.Start(t, false)) }},
}

func bucketTier(t *testing.T, s *s3test.Server) config.Tier {
	o := s.Options(t)
	return config.Tier{S3: &config.S3{Endpoint: o.Endpoint, Bucket: o.Bucket, Prefix: o.Prefix, Credentials: o.Credentials, CA: o.CABundle}}
}

// archiving is datamoved serving a Lustre.
type archiving struct {
	*copytest.Lustre
	t    *testing.T
	hsm  *hsm
	stop func()
}

// serveHSM serves the Lustre in a folder into a tier, with what it remembers in state.
func serveHSM(t *testing.T, tier config.Tier, mount, state string, change ...func(*archiving)) *archiving {
	t.Helper()
	a := &archiving{Lustre: copytest.New(t, mount), t: t}
	a.hsm = hsmOf(a.Lustre, tier, state)
	for _, c := range change {
		c(a)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- a.hsm.run(ctx) }()
	a.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(a.stop)
	a.Registered()
	return a
}

func hsmOf(l *copytest.Lustre, tier config.Tier, state string) *hsm {
	return &hsm{
		HSM: config.HSM{Mount: l.Mount, Archive: copytest.Archive, To: "cold:hsm", Jobs: 4}, tiers: map[string]config.Tier{"cold": tier},
		node: "n1", dir: state, log: slog.New(slog.DiscardHandler), retry: retry.Options{Tries: 2, First: time.Millisecond},
		progress: time.Millisecond, ioctl: l.Ioctl,
	}
}

func (a *archiving) is(cookie uint64, want unix.Errno, wantRetry bool) {
	a.t.Helper()
	if errno, again := a.End(cookie); errno != want || again != wantRetry {
		a.t.Errorf("it ended with %v, retry %v; want %v, %v", errno, again, want, wantRetry)
	}
}

// place opens the place of the copies as somebody else.
func (a *archiving) place() mover.Place {
	a.t.Helper()
	other := *a.hsm
	other.dir = a.t.TempDir()
	p, err := other.open(a.t.Context())
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = p.Close() })
	return p
}

// files are the copies, and strays what is half written.
func (a *archiving) files() (files []string, strays int) {
	a.t.Helper()
	var n atomic.Int64
	for e, err := range a.place().Walk(a.t.Context(), mover.WalkOptions{Stray: func(mover.Stray) { n.Add(1) }}) {
		if err != nil {
			a.t.Fatal(err)
		}
		if e.Kind == mover.File && e.Name != vault.IdentityKey {
			files = append(files, e.Name)
		}
	}
	return files, int(n.Load())
}

func noise(size int) []byte {
	b := make([]byte, size)
	r := rand.New(rand.NewPCG(7, uint64(size)))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

const large = 40<<20 + 17

// TestHSM: files are archived, written and archived again, released, restored and removed.
func TestHSM(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			a := serveHSM(t, b.tier(t), t.TempDir(), t.TempDir())
			for n, size := range []int{0, 5000, large} {
				f := a.Write(uint32(n+1), noise(max(size-1, 0)))
				a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
				a.Write(uint32(n+1), noise(size))
				a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
				a.Release(f)
				a.is(a.Do(abi.CopyRestore, f)[0], 0, false)
				if got := a.Read(f); !bytes.Equal(got, noise(size)) {
					t.Errorf("%d bytes came back of %d", len(got), size)
				}
			}
			if files, strays := a.files(); len(files) != 3 || strays != 0 || files[0] != copytool.Key(copytest.Name, copytest.FID(1)) {
				t.Errorf("copies %q, and %d half written", files, strays)
			}
			for n := range uint32(3) {
				a.is(a.Do(abi.CopyRemove, copytest.FID(n+1))[0], 0, false)
			}
			if files, strays := a.files(); len(files)+strays != 0 {
				t.Errorf("copies %q, and %d half written", files, strays)
			}
		})
	}
}

// TestHSMWritten: a file that is written until the last moment keeps its old copy, and is
// archived when it is handed out again.
func TestHSMWritten(t *testing.T) {
	for _, b := range backends {
		for _, size := range []int{5000, large} {
			t.Run(fmt.Sprint(b.name, " ", size), func(t *testing.T) {
				var writes atomic.Bool
				a := serveHSM(t, b.tier(t), t.TempDir(), t.TempDir(), func(a *archiving) {
					a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
						if request == abi.IocDataVersion && writes.CompareAndSwap(true, false) {
							a.Write(1, noise(size))
						}
						return a.Ioctl(fd, request, arg)
					}
				})
				f := a.Write(1, noise(10))
				a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
				old, _ := a.files()
				before, err := a.place().Stat(t.Context(), old[0])
				if err != nil {
					t.Fatal(err)
				}
				a.Write(1, noise(size-1))
				writes.Store(true)
				cookie := a.Do(abi.CopyArchive, f)[0]
				a.is(cookie, unix.EBUSY, true)
				after, err := a.place().Stat(t.Context(), old[0])
				if _, strays := a.files(); err != nil || after.Identity() != before.Identity() || strays > 0 {
					t.Errorf("the copy was %+v and is %+v, %v; %d half written", before, after, err, strays)
				}
				a.Again(cookie)
				a.is(cookie, 0, false)
				a.Release(f)
				a.is(a.Do(abi.CopyRestore, f)[0], 0, false)
				if !bytes.Equal(a.Read(f), noise(size)) {
					t.Error("another content came back")
				}
			})
		}
	}
}

// TestHSMMany: many more actions at once than are in work.
func TestHSMMany(t *testing.T) {
	a := serveHSM(t, backends[0].tier(t), t.TempDir(), t.TempDir())
	var files []lustre.FID
	for n := range uint32(300) {
		files = append(files, a.Write(n, fmt.Appendf(nil, "content %d", n)))
	}
	for _, cookie := range append(a.Do(abi.CopyArchive, files[:200]...), a.Do(abi.CopyArchive, files[200:]...)...) {
		a.is(cookie, 0, false)
	}
	for _, f := range files {
		a.Release(f)
	}
	for i, cookie := range a.Do(abi.CopyRestore, files...) {
		a.is(cookie, 0, false)
		if got, want := string(a.Read(files[i])), fmt.Sprintf("content %d", i); got != want {
			t.Fatalf("%q came back, want %q", got, want)
		}
	}
}

// TestHSMSpoilt: a copy that is not what was archived, and one that is gone, end the restore
// with an error; the file stays as it is.
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
		for _, size := range []int{5000, large} {
			t.Run(fmt.Sprint(row.name, " ", size), func(t *testing.T) {
				a := serveHSM(t, row.tier, t.TempDir(), t.TempDir())
				f := a.Write(1, noise(size))
				a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
				a.Release(f)
				path := filepath.Join(row.at, copytool.Key(copytest.Name, f))
				spoil(t, path, int64(size)/2)
				a.is(a.Do(abi.CopyRestore, f)[0], unix.EIO, false)
				spoil(t, path, int64(size)/2)
				if err := os.Truncate(path, int64(size)-1); err != nil {
					t.Fatal(err)
				}
				a.is(a.Do(abi.CopyRestore, f)[0], unix.EIO, false)
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
				a.is(a.Do(abi.CopyRestore, f)[0], unix.ENOENT, false)
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
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
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
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	a := serveHSM(t, config.Tier{Path: dir}, t.TempDir(), t.TempDir())
	t.Cleanup(a.stop) // before it is unmounted
	f := a.Write(1, noise(1000))
	a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
	g := a.Write(2, noise(5<<20))
	cookie := a.Do(abi.CopyArchive, g)[0]
	a.is(cookie, unix.ENOSPC, true)
	a.Release(f)
	a.is(a.Do(abi.CopyRestore, f)[0], 0, false)
	if err := unix.Mount("", dir, "tmpfs", unix.MS_REMOUNT, "size=30m"); err != nil {
		t.Fatal(err)
	}
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
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	u, err := url.Parse(tier.S3.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	r := newRelay(t, u.Host)
	tier.S3.Endpoint = "http://" + r.Addr().String()
	a := serveHSM(t, tier, t.TempDir(), t.TempDir())
	f := a.Write(1, noise(5000))
	a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
	a.Release(f)
	g := a.Write(2, noise(large))
	r.cut(true)
	archive, restore := a.Do(abi.CopyArchive, g)[0], a.Do(abi.CopyRestore, f)[0]
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

// TestHSMStopped: what is in work when the service ends comes to its end, or is handed
// back; nothing half is left in the archive, and the next process takes it up.
func TestHSMStopped(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			tier, mount, state := b.tier(t), t.TempDir(), t.TempDir()
			begun, stopping := make(chan struct{}), make(chan struct{})
			var once, ending sync.Once
			a := serveHSM(t, tier, mount, state, func(a *archiving) {
				a.hsm.grace = 10 * time.Millisecond
				a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
					if p, err := abi.DecodeProgress(arg); request == abi.IocCopyProgress && err == nil && p.Extent.Length > 1<<20 {
						once.Do(func() { close(begun) })
						<-stopping
					}
					if r, err := abi.DecodeRegistration(arg); request == abi.IocCopytool && err == nil && r.Stop {
						defer ending.Do(func() { close(stopping) })
					}
					return a.Ioctl(fd, request, arg)
				}
			})
			f := a.Write(1, noise(large))
			cookie := a.Do(abi.CopyArchive, f)[0]
			<-begun
			a.stop()
			errno, again := a.End(cookie)
			files, strays := a.files()
			switch {
			case strays > 0:
				t.Errorf("%d half written", strays)
			case errno == 0 && len(files) == 1:
				return
			case errno != unix.EAGAIN || !again || len(files) > 0:
				t.Errorf("it ended with %v, retry %v, and %q are in the archive", errno, again, files)
			}
			next := serveHSM(t, tier, mount, state)
			f = next.Write(1, noise(large))
			next.is(next.Do(abi.CopyArchive, f)[0], 0, false)
		})
	}
}

// TestHSMKilled: a process that is killed in the middle leaves nothing half in the archive
// when the next one has begun, and its action, handed out again, is done.
func TestHSMKilled(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			tier, mount, state := b.tier(t), t.TempDir(), t.TempDir()
			cmd := exec.Command(os.Args[0], "-test.run=^TestHSMChild$")
			cmd.Env = append(os.Environ(), "DATAMOVED_HSM_CHILD="+strings.Join([]string{mount, state, tier.Path}, ";"))
			if tier.S3 != nil {
				cmd.Env = append(cmd.Env, "DATAMOVED_HSM_S3="+strings.Join([]string{tier.S3.Endpoint, tier.S3.Bucket, tier.S3.Prefix, tier.S3.Credentials}, ";"))
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() && lines.Text() != childHalf {
				t.Log(lines.Text())
			}
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait() // it was killed

			l := copytest.New(t, mount)
			before := &archiving{Lustre: l, t: t, hsm: hsmOf(l, tier, state)}
			if files, strays := before.files(); len(files) != 0 || strays == 0 {
				t.Fatalf("the child left %q and %d half written", files, strays)
			}
			a := serveHSM(t, tier, mount, state)
			if files, strays := a.files(); len(files)+strays != 0 {
				t.Errorf("left in the archive: %q, and %d half written", files, strays)
			}
			f := a.Write(1, noise(large))
			a.is(a.Do(abi.CopyArchive, f)[0], 0, false)
			a.Release(f)
			a.is(a.Do(abi.CopyRestore, f)[0], 0, false)
			if !bytes.Equal(a.Read(f), noise(large)) {
				t.Error("another content came back")
			}
		})
	}
}

const childHalf = "half way"

// TestHSMChild is the process that TestHSMKilled kills: it stops in the middle of an archive.
func TestHSMChild(t *testing.T) {
	words := strings.Split(os.Getenv("DATAMOVED_HSM_CHILD"), ";")
	if len(words) != 3 {
		return // TestHSMKilled starts it
	}
	tier := config.Tier{Path: words[2]}
	if s := strings.Split(os.Getenv("DATAMOVED_HSM_S3"), ";"); len(s) == 4 {
		tier.S3 = &config.S3{Endpoint: s[0], Bucket: s[1], Prefix: s[2], Credentials: s[3]}
	}
	a := &archiving{Lustre: copytest.New(t, words[0]), t: t}
	a.hsm = hsmOf(a.Lustre, tier, words[1])
	a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
		if p, err := abi.DecodeProgress(arg); request == abi.IocCopyProgress && err == nil && p.Extent.Length > 1<<20 {
			fmt.Println(childHalf)
			select {} // until we are killed
		}
		return a.Ioctl(fd, request, arg)
	}
	go func() { _ = a.hsm.run(t.Context()) }()
	a.Registered()
	a.Do(abi.CopyArchive, a.Write(1, noise(large)))
	<-t.Context().Done()
}

// TestHSMKinds: each kind of error has a number for the MDT, and what the copytool said
// itself keeps its own.
func TestHSMKinds(t *testing.T) {
	for _, kind := range mover.Kinds() {
		var f *copytool.Failure
		if err := told(fmt.Errorf("read: %w", kind)); !errors.As(err, &f) || f.Errno == 0 || !errors.Is(err, kind) {
			t.Errorf("%v is told as %v", kind, err)
		}
	}
	own := &copytool.Failure{Errno: unix.ECANCELED, Err: mover.ErrCorrupt}
	if err := told(fmt.Errorf("archive: %w", own)); !errors.Is(err, own) {
		t.Errorf("it became %v", err)
	}
	if told(nil) != nil {
		t.Error("nothing became an error")
	}
}

// TestHSMNoLustre: a mount that is no Lustre is told, with what it is; the service goes on
// without it, and ends when it is asked to.
func TestHSMNoLustre(t *testing.T) {
	dir := shortDir(t)
	conf := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("tiers:\n  cold: {level: cold, path: %[1]s/cold}\nhsm:\n  - {mount: %[1]s, archive: 3, to: cold}\n", dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := launch(t, dir, "--config", conf)
	c := p.started()
	p.eventually("it says that HSM is not served", func() bool {
		log := p.log.String()
		return strings.Contains(log, "HSM is not served") && strings.Contains(log, "it is no Lustre")
	})
	if _, err := c.GetInfo(t.Context(), &datamovev1.GetInfoRequest{}); err != nil {
		t.Error(err)
	}
	p.signal(unix.SIGTERM)
	if code := p.code(); code != 0 {
		t.Errorf("it ends with %d", code)
	}
}

// TestHSMTwice: one archive is in one place.
func TestHSMTwice(t *testing.T) {
	err := twice([]config.HSM{{Mount: "/l", Archive: 1, To: "a"}, {Mount: "/l", Archive: 2, To: "a"}, {Mount: "/l/", Archive: 1, To: "b"}})
	if !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "archive 1 of /l") {
		t.Errorf("%v", err)
	}
}
