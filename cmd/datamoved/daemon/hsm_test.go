package daemon

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/lustre"
	"datamove.dev/lustre/copytool"
	"datamove.dev/lustre/copytool/copytest"
	"datamove.dev/lustre/uapi"
	"datamove.dev/mover"
	"datamove.dev/mover/archive"
	"datamove.dev/mover/backend/retry"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/config"
	"datamove.dev/test/must"
)

// archiveTier is where copies are kept.
type archiveTier struct {
	name string
	tier func(t *testing.T) config.Tier
}

var backends = []archiveTier{
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
		progress: time.Millisecond, ioctl: l.Ioctl, pay: func(context.Context, string, bool, int64, int64) error { return nil },
	}
}

func (a *archiving) is(cookie uint64, want unix.Errno, wantRetry bool) {
	a.t.Helper()
	if errno, again := a.End(cookie); errno != want || again != wantRetry {
		a.t.Errorf("it ended with %v, retry %v; want %v, %v", errno, again, want, wantRetry)
	}
}

// place opens the place of the copies as somebody else.
func (a *archiving) place() mover.Backend {
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
		if e.Kind == mover.File && e.Name != archive.IdentityKey && e.Name != archive.ForKey {
			files = append(files, e.Name)
		}
	}
	return files, int(n.Load())
}

func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte(binary.LittleEndian.AppendUint64(make([]byte, 24), uint64(size)))).Read(b) // never fails
	return b
}

const large = 16<<20 + 17 // two parts

// TestHSM: files are archived, written and archived again, released, restored and removed.
func TestHSM(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			a := serveHSM(t, b.tier(t), t.TempDir(), t.TempDir())
			for n, size := range []int{0, 5000, large} {
				f := a.Write(uint32(n+1), noise(max(size-1, 0)))
				a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
				a.Write(uint32(n+1), noise(size))
				a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
				a.Release(f)
				a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
				if got := a.Read(f); !bytes.Equal(got, noise(size)) {
					t.Errorf("%d bytes came back of %d", len(got), size)
				}
			}
			if files, strays := a.files(); len(files) != 3 || strays != 0 || !slices.Contains(files, copytool.Key(copytest.Name, copytest.FID(1))) {
				t.Errorf("copies %q, and %d half written", files, strays)
			}
			for n := range uint32(3) {
				a.is(a.Do(uapi.CopyRemove, copytest.FID(n+1))[0], 0, false)
			}
			if files, strays := a.files(); len(files)+strays != 0 {
				t.Errorf("copies %q, and %d half written", files, strays)
			}
		})
	}
}

// TestHSMWritten: a file that is written until the last moment keeps its old copy, and is
// archived when it is handed out again.
//
//safety:1 with mover/archive TestOldCopyStays
func TestHSMWritten(t *testing.T) {
	for _, b := range backends {
		for _, size := range []int{5000, large} {
			t.Run(fmt.Sprint(b.name, " ", size), func(t *testing.T) {
				var writes atomic.Bool
				a := serveHSM(t, b.tier(t), t.TempDir(), t.TempDir(), func(a *archiving) {
					a.hsm.ioctl = func(fd int, request uint, arg []byte) (int, error) {
						if request == uapi.IocDataVersion && writes.CompareAndSwap(true, false) {
							a.Write(1, noise(size))
						}
						return a.Ioctl(fd, request, arg)
					}
				})
				f := a.Write(1, noise(10))
				a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
				old, _ := a.files()
				before, err := a.place().Stat(t.Context(), old[0])
				must.Do(t, err)
				a.Write(1, noise(size-1))
				writes.Store(true)
				cookie := a.Do(uapi.CopyArchive, f)[0]
				a.is(cookie, unix.EBUSY, true)
				after, err := a.place().Stat(t.Context(), old[0])
				if _, strays := a.files(); err != nil || after.Identity() != before.Identity() || strays > 0 {
					t.Errorf("the copy was %+v and is %+v, %v; %d half written", before, after, err, strays)
				}
				a.Again(cookie)
				a.is(cookie, 0, false)
				a.Release(f)
				a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
				if !bytes.Equal(a.Read(f), noise(size)) {
					t.Error("another content came back")
				}
			})
		}
	}
}

// TestHSMLimited: what goes to the archive and comes back is charged to its tier.
func TestHSMLimited(t *testing.T) {
	var written, read atomic.Int64
	a := serveHSM(t, backends[0].tier(t), t.TempDir(), t.TempDir(), func(a *archiving) {
		a.hsm.pay = func(_ context.Context, tier string, write bool, bytes, _ int64) error {
			switch {
			case tier != "cold":
				t.Errorf("%d bytes are charged to %q", bytes, tier)
			case write:
				written.Add(bytes)
			default:
				read.Add(bytes)
			}
			return nil
		}
	})
	f := a.Write(1, noise(large))
	a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
	a.Release(f)
	a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
	for _, n := range []int64{written.Load(), read.Load()} {
		if n < large || n > large+1000 { // and what the archive says of itself
			t.Errorf("%d bytes were charged for %d", n, large)
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
	for _, cookie := range append(a.Do(uapi.CopyArchive, files[:200]...), a.Do(uapi.CopyArchive, files[200:]...)...) {
		a.is(cookie, 0, false)
	}
	for _, f := range files {
		a.Release(f)
	}
	for i, cookie := range a.Do(uapi.CopyRestore, files...) {
		a.is(cookie, 0, false)
		if got, want := string(a.Read(files[i])), fmt.Sprintf("content %d", i); got != want {
			t.Fatalf("%q came back, want %q", got, want)
		}
	}
}

// TestHSMNoLustre: a mount that is no Lustre is told, with what it is; the service goes on
// without it, and ends when it is asked to.
func TestHSMNoLustre(t *testing.T) {
	dir := shortDir(t)
	conf := filepath.Join(dir, "c.yaml")
	text := fmt.Sprintf("tiers:\n  cold: {level: cold, path: %[1]s/cold}\nhsm:\n  - {mount: %[1]s, archive: 3, to: cold}\n", dir)
	must.Do(t, os.WriteFile(conf, []byte(text), 0o600))
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

// TestHSMOther: a file system whose names and FIDs are those of another one does not get its
// copies, and does not replace them.
//
//safety:1 two file systems with the same name and FIDs and one archive; two MDTs with actions of the same number
func TestHSMOther(t *testing.T) {
	for _, b := range backends {
		t.Run(b.name, func(t *testing.T) {
			tier := b.tier(t)
			a := serveHSM(t, tier, t.TempDir(), t.TempDir())
			f := a.Write(1, noise(5000))
			a.is(a.Do(uapi.CopyArchive, f)[0], 0, false)
			a.Release(f)
			other := hsmOf(copytest.New(t, t.TempDir()), tier, t.TempDir())
			if err := other.serve(t.Context()); !errors.Is(err, mover.ErrConflict) || !strings.Contains(err.Error(), "path of its own") {
				t.Errorf("another file system: %v", err)
			}
			a.is(a.Do(uapi.CopyRestore, f)[0], 0, false)
			if !bytes.Equal(a.Read(f), noise(5000)) {
				t.Error("another content came back")
			}
		})
	}
}

// TestHSMTwice: a mount has one copytool.
func TestHSMTwice(t *testing.T) {
	for _, bad := range [][]config.HSM{
		{{Mount: "/l", Archive: 1, To: "a"}, {Mount: "/m", Archive: 2, To: "a"}, {Mount: "/l/", Archive: 1, To: "b"}},
		{{Mount: "/l", Archive: 1, To: "a"}, {Mount: "/l", Archive: 2, To: "b"}},
	} {
		if err := twice(bad); !errors.Is(err, mover.ErrUsage) || !strings.Contains(err.Error(), "/l stands twice") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	must.Tell(t, twice([]config.HSM{{Mount: "/l", Archive: 1, To: "a"}, {Mount: "/m", Archive: 1, To: "a"}}))
}
