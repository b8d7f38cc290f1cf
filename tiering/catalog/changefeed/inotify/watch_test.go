package inotify_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/feedtest"
	"datamove.dev/tiering/catalog/changefeed/inotify"
)

func TestMain(m *testing.M) {
	kill.Main(map[string]func(string) error{"follow": follow})
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

// telling asks at each entry that is walked, each name that is looked at, and each batch that was taken.
type telling struct {
	*posix.Backend
	changefeed.Feed
}

func (s telling) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range s.Backend.Walk(ctx, o) {
			if kill.Ask("walked"); !yield(e, err) {
				return
			}
		}
	}
}

func (s telling) Glance(ctx context.Context, name string) (mover.Entry, error) {
	kill.Ask("glanced")
	return s.Backend.Glance(ctx, name)
}

func (s telling) Run(ctx context.Context, marks changefeed.Marks, take changefeed.Take) error {
	return s.Feed.Run(ctx, marks, func(ctx context.Context, b changefeed.Batch) error {
		err := take(ctx, b)
		kill.Ask("took")
		return err
	})
}

// follow follows a tree until it is killed.
func follow(dir string) error {
	c, err := catalog.Open(filepath.Join(dir, "catalog"), catalog.Options{})
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	src, err := posix.Open(tree, posix.Options{})
	if err != nil {
		return err
	}
	tells := telling{src, inotify.New(tree, inotify.Options{Window: 10 * time.Millisecond})}
	k := &changefeed.Follower{Catalog: c, Tree: scratch, Source: tells, Feed: tells}
	return k.Run(context.Background())
}

var scratch = catalog.Tree{Tier: "scratch"}

// world is a tree, a catalog, and who keeps it.
type world struct {
	t       testing.TB
	dir     string
	catalog *catalog.Catalog
	source  *posix.Backend
	keeper  *changefeed.Follower
	stop    context.CancelFunc
	ended   chan error
}

func newWorld(t testing.TB, dir string, o inotify.Options) *world {
	t.Helper()
	w := &world{t: t, dir: filepath.Join(dir, "tree"), ended: make(chan error, 1)}
	must.Do(t, os.MkdirAll(w.dir, 0o755))
	c := must.Get(catalog.Open(filepath.Join(dir, "catalog"), catalog.Options{}))(t)
	src := must.Get(posix.Open(w.dir, posix.Options{}))(t)
	w.catalog, w.source = c, src
	w.keeper = &changefeed.Follower{Catalog: c, Tree: scratch, Source: src, Feed: inotify.New(w.dir, o), Options: changefeed.Options{Logger: slog.New(slog.NewTextHandler(testLog{t}, nil))}}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { w.ended <- w.keeper.Run(ctx) }()
	t.Cleanup(w.close)
	return w
}

type testLog struct{ t testing.TB }

func (l testLog) Write(b []byte) (int, error) {
	l.t.Log(string(bytes.TrimSpace(b)))
	return len(b), nil
}

func (w *world) close() {
	w.stop()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		w.t.Errorf("the keeper ended: %v", err)
	}
	must.Do(w.t, w.source.Close())
	must.Do(w.t, w.catalog.Close())
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

// settled waits until the catalog is what the tree is.
func (w *world) settled() {
	w.t.Helper()
	feedtest.Settled(w.t, w.catalog, scratch, w.source)
}

// churn changes a tree.
type churn struct {
	dir    string
	random *rand.Rand
	n      int
}

var segments = []string{"a", "b", "a-", "a.", "c\n", "\xff\xfe", "d d", "é", ".datamove-x", strings.Repeat("n", 255)}

func (c *churn) some(depth int) string {
	var s []string
	for range 1 + c.random.IntN(depth) {
		s = append(s, segments[c.random.IntN(len(segments))])
	}
	return filepath.Join(append([]string{c.dir}, s...)...)
}

// once does something. What is not there, or is in the way, makes it nothing.
func (c *churn) once() {
	c.n++
	name, other := c.some(5), c.some(5)
	switch c.random.IntN(16) {
	case 0:
		_ = os.RemoveAll(c.some(3))
	case 1, 2, 3:
		_ = os.Rename(name, other)
	case 4:
		_ = os.Rename(c.some(2), c.some(3))
	case 5:
		_ = unix.Renameat2(unix.AT_FDCWD, name, unix.AT_FDCWD, other, unix.RENAME_EXCHANGE)
	case 6:
		_ = os.Symlink("a/b", name)
	case 7:
		_ = os.Chmod(name, os.FileMode(0o700|c.random.IntN(0o100)))
	case 8:
		_ = os.Remove(name)
	case 9:
		_ = os.Mkdir(name, 0o755)
	case 10:
		_ = os.Truncate(name, c.random.Int64N(3000))
	case 11: // out of the tree, and perhaps back
		out := c.dir + ".out"
		if os.Rename(name, out) == nil && c.random.IntN(2) == 0 {
			_ = os.MkdirAll(filepath.Join(out, "new", "newer"), 0o755)
			_ = os.WriteFile(filepath.Join(out, "new", "newer", "f"), []byte("x"), 0o600)
			_ = os.Rename(out, other)
		}
		_ = os.RemoveAll(out)
	default:
		_ = os.MkdirAll(filepath.Dir(name), 0o755)
		_ = os.WriteFile(name, make([]byte, c.random.IntN(2000)), 0o600)
	}
}

// When a tree changes no more, after some who changed it at the same time, the catalog is what a scan of it is.
func TestModel(t *testing.T) {
	w := newWorld(t, t.TempDir(), inotify.Options{Window: 2 * time.Millisecond})
	for seed := range uint64(12) {
		var g sync.WaitGroup
		for k := range uint64(3) {
			c := &churn{dir: w.dir, random: rand.New(rand.NewPCG(seed, k))}
			g.Go(func() {
				for range 400 {
					c.once()
					if c.random.IntN(50) == 0 {
						time.Sleep(time.Millisecond) // others go on, and the feed
					}
				}
			})
		}
		g.Wait()
		w.settled()
	}
	if p := w.keeper.Progress(); p.Names == 0 || p.Events == 0 || p.Batches < 12 || p.Scans != 1 || p.Left != 0 {
		t.Errorf("%+v", p)
	} else {
		t.Logf("%+v", p)
	}
}

// Killed while a tree changes, a keeper makes at last of the catalog what a scan would.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestKill(t *testing.T) {
	random := kill.Random(t)
	dir := t.TempDir()
	c := &churn{dir: filepath.Join(dir, "tree"), random: rand.New(rand.NewPCG(20, 20))}
	must.Do(t, os.Mkdir(c.dir, 0o755))
	for range 2000 {
		c.once()
	}
	live := func(kind string, n int) {
		lines := 0
		kill.AtLine(t, "follow", dir, kind, n, func(line string) {
			if lines++; lines%16 == 0 || line == "took" {
				c.once()
				must.Do(t, os.WriteFile(filepath.Join(c.dir, "last"), nil, 0o600)) // what was done may be nothing
			}
		})
	}
	for range kill.Times(1, 5) {
		live("walked", 1+random.IntN(100))
	}
	live("took", 1+random.IntN(15))
	for range kill.Times(2, 45) {
		live("glanced", 1+random.IntN(60))
	}
	w := newWorld(t, dir, inotify.Options{})
	for range 500 {
		c.once()
	}
	w.settled()
	t.Logf("%d changes; %+v", c.n, w.keeper.Progress())
}

// A queue that is too short loses events, and everything is scanned.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestOverflow(t *testing.T) {
	heard, go1 := make(chan struct{}, 1), make(chan struct{})
	var once sync.Once
	o := inotify.Options{Window: -1}.Stall(func() {
		once.Do(func() {
			heard <- struct{}{}
			<-go1
		})
	})
	w := newWorld(t, t.TempDir(), o)
	w.settled() // it listens
	must.Do(t, os.WriteFile(w.path("first"), nil, 0o600))
	<-heard // and reads nothing any more
	must.Do(t, os.Mkdir(w.path("d"), 0o755))
	for i := range 40_000 {
		must.Do(t, os.WriteFile(w.path(fmt.Sprintf("f%d", i%100)), nil, 0o600))
		must.Do(t, os.Remove(w.path(fmt.Sprintf("f%d", i%100))))
	}
	must.Do(t, os.WriteFile(w.path("d/last"), []byte("x"), 0o600))
	close(go1)
	w.settled()
	must.Do(t, os.WriteFile(w.path("d/later"), []byte("x"), 0o600)) // and it goes on
	w.settled()
	if p := w.keeper.Progress(); p.Scans < 1 {
		t.Errorf("%+v", p)
	} else {
		t.Logf("%+v", p)
	}
}

// More names than a window keeps become their directories, and what is there is known all the same.
func TestFold(t *testing.T) {
	w := newWorld(t, t.TempDir(), inotify.Options{Names: 100})
	for d := range 10 {
		must.Do(t, os.MkdirAll(w.path(fmt.Sprintf("d%d/e", d)), 0o755))
		for i := range 500 {
			must.Do(t, os.WriteFile(w.path(fmt.Sprintf("d%d/e/%d", d, i)), make([]byte, i), 0o600))
		}
	}
	w.settled()
}

// A directory that no watch is left for, one that is on another host, and none.
func TestRefused(t *testing.T) {
	dir := t.TempDir()
	for i := range 20 {
		must.Do(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o755))
	}
	none := func(context.Context, changefeed.Batch) error { return nil }
	if err := inotify.New(dir, inotify.Options{Watches: 10}).Run(t.Context(), nil, none); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("more directories than watches: %v", err)
	}
	if err := inotify.New(dir+"/none", inotify.Options{}).Run(t.Context(), nil, none); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

// BenchmarkEvents: four writers change 20,000 files in 200 directories, and it is measured until the catalog has it.
func BenchmarkEvents(b *testing.B) {
	w := newWorld(b, b.TempDir(), inotify.Options{})
	const dirs, files = 200, 100
	for d := range dirs {
		must.Do(b, os.Mkdir(w.path(fmt.Sprint("d", d)), 0o755))
		for f := range files {
			must.Do(b, os.WriteFile(w.path(fmt.Sprintf("d%d/%d", d, f)), nil, 0o600))
		}
	}
	w.settled()
	began, lag := w.keeper.Progress(), time.Duration(0)
	size := 0
	for b.Loop() {
		size++
		var g sync.WaitGroup
		for k := range 4 {
			g.Go(func() {
				for d := k; d < dirs; d += 4 {
					for f := range files {
						must.Do(b, os.WriteFile(w.path(fmt.Sprintf("d%d/%d", d, f)), make([]byte, size), 0o600))
					}
				}
			})
		}
		g.Wait()
		for w.behind(int64(size)) {
			lag = max(lag, w.keeper.Progress().Lag)
			time.Sleep(5 * time.Millisecond)
		}
	}
	p := w.keeper.Progress()
	b.ReportMetric(float64(p.Events-began.Events)/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(p.Names-began.Names)/b.Elapsed().Seconds(), "names/s")
	b.ReportMetric(lag.Seconds(), "lag-s")
}

// behind reports whether a file is known with another size.
func (w *world) behind(size int64) bool {
	for f, err := range w.catalog.Below(context.Background(), scratch, "") {
		must.Do(w.t, err)
		if f.Kind == mover.File && f.Size != size {
			return true
		}
	}
	return false
}
