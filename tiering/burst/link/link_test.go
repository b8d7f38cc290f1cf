package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/test/must"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/checkpoint"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// world is a directory here, and a real store there.
type world struct {
	*testing.T
	dir   string
	store *s3test.Server
	site  backend.Resolver
	way   *Link
	seen  seen
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, dir: t.TempDir(), store: s3test.Start(t, false)}
	t.Setenv("AWS_ENDPOINT_URL_S3", w.store.Endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", w.store.Access)
	t.Setenv("AWS_SECRET_ACCESS_KEY", w.store.Secret)
	w.way = &Link{Open: w.open, Request: engine.Request{StateDir: filepath.Join(w.dir, "state"), Jobs: 4}}
	return w
}

// open opens places, and has the test see what reaches the store.
func (w *world) open(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
	p, err := w.site.Open(ctx, l, o)
	if err != nil || l.Scheme != location.S3 {
		return p, err
	}
	return &watched{p, &w.seen}, nil
}

// seen is what has reached the store.
type seen struct {
	mu            sync.Mutex
	written, read []int64 // bytes of parts that began
	then          func()  // is told of each before it begins
}

func (s *seen) note(to *[]int64, n int64) {
	s.mu.Lock()
	*to = append(*to, n)
	then := s.then
	s.mu.Unlock()
	if then != nil {
		then()
	}
}

// took is what was seen since the last time.
func (s *seen) took() (written, read []int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	written, read = s.written, s.read
	s.written, s.read = nil, nil
	return written, read
}

func sum(all []int64) (n int64) {
	for _, one := range all {
		n += one
	}
	return n
}

type watched struct {
	mover.Backend
	seen *seen
}

func (p *watched) Unwrap() any { return p.Backend }

func (p *watched) Open(ctx context.Context, e mover.Entry) (mover.Content, error) {
	c, err := p.Backend.Open(ctx, e)
	if err != nil {
		return nil, err
	}
	return &watchedContent{c, p.seen}, nil
}

func (p *watched) Draft(ctx context.Context, e mover.Entry, h mover.Hints) (mover.Draft, error) {
	d, err := p.Backend.Draft(ctx, e, h)
	if err != nil {
		return nil, err
	}
	return &watchedDraft{d, p.seen}, nil
}

func (p *watched) Adopt(ctx context.Context, t mover.Token) (mover.Draft, error) {
	d, err := p.Backend.Adopt(ctx, t)
	if err != nil {
		return nil, err
	}
	return &watchedDraft{d, p.seen}, nil
}

type watchedContent struct {
	mover.Content
	seen *seen
}

func (c *watchedContent) Unwrap() any { return c.Content }

func (c *watchedContent) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	c.seen.note(&c.seen.read, n)
	return c.Content.Range(ctx, off, n)
}

type watchedDraft struct {
	mover.Draft
	seen *seen
}

func (d *watchedDraft) Unwrap() any { return d.Draft }

func (d *watchedDraft) WritePart(ctx context.Context, p mover.Part, f mover.Feed) (mover.Receipt, error) {
	d.seen.note(&d.seen.written, p.Length)
	return d.Draft.WritePart(ctx, p, f)
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// here and there are places of the test.
func (w *world) here(name string) location.Location { return w.parse(filepath.Join(w.dir, name)) }

func (w *world) there(name string) location.Location {
	return w.parse("s3://" + w.store.Bucket + "/" + name)
}

func (w *world) parse(text string) location.Location {
	w.Helper()
	l, err := location.Parse(text)
	w.must(err)
	return l
}

// put writes a file below the directory, of the age of an hour.
func (w *world) put(name string, text []byte) {
	w.Helper()
	at := filepath.Join(w.dir, name)
	w.must(os.MkdirAll(filepath.Dir(at), 0o755))
	w.must(os.WriteFile(at, text, 0o644))
	when := time.Now().Add(-time.Hour)
	w.must(os.Chtimes(at, when, when))
}

// sent brings a directory there, for a test of the way back.
func (w *world) sent(name, to string) {
	w.Helper()
	_, err := w.way.Send(w.Context(), w.here(name), w.there(to), free)
	w.must(err)
	w.seen.took()
}

// tree is what a directory has, by name, but for what is ours.
func (w *world) tree(name string) map[string]string {
	w.Helper()
	all := map[string]string{}
	root := filepath.Join(w.dir, name)
	w.must(filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == checkpoint.Committed || strings.Contains(path, "/.datamove") {
			return err
		}
		text, err := os.ReadFile(path)
		at, _ := filepath.Rel(root, path)
		all[at] = string(text)
		return err
	}))
	return all
}

func random(n int) []byte {
	text, source := make([]byte, n), rand.NewChaCha8([32]byte{byte(n)})
	_, _ = source.Read(text)
	return text
}

// free is a toll that asks for nothing.
func free(context.Context, int64, int64) error { return nil }

// tollKeeper lets some parts pass, and refuses the next.
type tollKeeper struct {
	mu              sync.Mutex
	left            int
	passed          int
	bytes, requests int64
}

func (k *tollKeeper) pass(_ context.Context, bytes, requests int64) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.left == 0 {
		return fmt.Errorf("%w: the cap of $5 is reached", mover.ErrRefused)
	}
	k.left--
	k.passed++
	k.bytes, k.requests = k.bytes+bytes, k.requests+requests
	return nil
}

const part = 16 << 20 // of an upload, as long as it is no larger one

// TestToll: where a toll refuses nothing more begins than what it let pass, and the error is its own. The same call goes on with the rest, and sends nothing again but what was in flight.
func TestToll(t *testing.T) {
	w := newWorld(t)
	total := int64(0)
	w.way.Request.Jobs = 2
	for i, size := range []int{2*part + 1, part + 1, 1000, 17, 2000} {
		w.put(fmt.Sprintf("data/d%d/f%d", i%2, i), random(size))
		total += int64(size)
	}
	for _, k := range []int{1, 2, 4, 7} {
		to := w.there(fmt.Sprintf("after-%d", k))
		keeper := &tollKeeper{left: k}
		m, err := w.way.Send(t.Context(), w.here("data"), to, keeper.pass)
		if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "the cap of $5") || strings.Contains(err.Error(), "cancel") {
			t.Errorf("after %d parts: %v", k, err)
		}
		first, _ := w.seen.took()
		if len(first) > k || keeper.passed != k || keeper.requests != int64(k) {
			t.Errorf("after %d parts %d began, %d had passed for %d requests", k, len(first), keeper.passed, keeper.requests)
		}
		if m.Sent > sum(first) {
			t.Errorf("%+v, and %d bytes began", m, sum(first))
		}
		again := &tollKeeper{left: 1000}
		m, err = w.way.Send(t.Context(), w.here("data"), to, again.pass)
		w.must(err)
		second, _ := w.seen.took()
		if twice := sum(first) + sum(second) - total; twice < 0 || twice > int64(w.way.Request.Jobs)*part {
			t.Errorf("after %d parts: %d bytes went twice, %d and then %d", k, twice, first, second)
		}
		if m.Files != 5 || m.Bytes != total || again.bytes != sum(second) {
			t.Errorf("%+v; %d bytes were paid for, and %d written", m, again.bytes, sum(second))
		}
		m, err = w.way.Send(t.Context(), w.here("data"), to, (&tollKeeper{}).pass)
		if w.must(err); m.Sent != 0 || m.Files != 5 || m.Bytes != total {
			t.Errorf("all is there: %+v", m)
		}
	}
	keeper := &tollKeeper{left: 1000}
	m, err := w.way.Home(t.Context(), w.there("after-1"), w.here("back"), keeper.pass)
	w.must(err)
	_, read := w.seen.took()
	if keeper.bytes != sum(read) || keeper.bytes < total || m.Bytes != total || m.Files != 5 || !maps.Equal(w.tree("data"), w.tree("back")) {
		t.Errorf("%+v: %d bytes were paid for, %d read of %d", m, keeper.bytes, sum(read), total)
	}
}

// TestTollClone: what a store copies by itself is asked for, too, and no byte of it comes over the link.
func TestTollClone(t *testing.T) {
	w := newWorld(t)
	w.put("data/a", random(3<<20))
	w.put("data/b", random(100))
	w.sent("data", "one")
	k := &tollKeeper{}
	if _, err := w.way.Send(t.Context(), w.there("one"), w.there("two"), k.pass); !errors.Is(err, mover.ErrRefused) {
		t.Errorf("nothing was asked for it: %v", err)
	}
	k = &tollKeeper{left: 100}
	m, err := w.way.Send(t.Context(), w.there("one"), w.there("two"), k.pass)
	if w.must(err); m.Files != 2 || k.requests < 2 {
		t.Errorf("%+v for %d requests", m, k.requests)
	}
	_, err = w.way.Home(t.Context(), w.there("two"), w.here("back"), free)
	if w.must(err); !maps.Equal(w.tree("back"), w.tree("data")) {
		t.Error("it is not the same")
	}
}

// TestStopped: a caller that ends is not a toll that refuses.
func TestStopped(t *testing.T) {
	w := newWorld(t)
	w.put("data/a", random(3*part))
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	w.seen.then = func() { stop(why) }
	if _, err := w.way.Send(ctx, w.here("data"), w.there("x"), free); !errors.Is(err, why) || errors.Is(err, mover.ErrRefused) {
		t.Errorf("%v", err)
	}
}

// TestHome: what comes home is read again there, and all of it has to be there.
func TestHome(t *testing.T) {
	w := newWorld(t)
	for name, size := range map[string]int{"a": 10, "d/b": 3000, "d/e/c": 0} {
		w.put("data/"+name, random(size))
	}
	w.sent("data", "results")
	for range 2 { // the second time there is nothing to do
		m, err := w.way.Home(t.Context(), w.there("results"), w.here("home"), free)
		if w.must(err); m.Files != 3 || m.Bytes != 3010 || len(m.Left) > 0 || !maps.Equal(w.tree("home"), w.tree("data")) {
			t.Errorf("%+v", m)
		}
	}
	if _, read := w.seen.took(); sum(read) != 3010 {
		t.Errorf("%d bytes came twice", sum(read)-3010)
	}
	// What was there before stays, and what differs is brought again.
	w.put("home/own", []byte("mine"))
	w.put("home/a", []byte("torn"))
	w.must(os.Remove(filepath.Join(w.dir, "home/d/b")))
	m, err := w.way.Home(t.Context(), w.there("results"), w.here("home"), free)
	want := w.tree("data")
	want["own"] = "mine"
	if w.must(err); m.Files != 3 || !maps.Equal(w.tree("home"), want) {
		t.Errorf("%+v: %v", m, slices.Sorted(maps.Keys(w.tree("home"))))
	}
	if _, err := w.way.Home(t.Context(), w.there("none"), w.here("home2"), free); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("what is not there came home: %v", err)
	}
}

// TestCovered: after it came home something happens to it, in the moment before it is looked at: that is found.
func TestCovered(t *testing.T) {
	for what, spoil := range map[string]func(at string) error{
		"one is missing": os.Remove,
		"one differs":    func(at string) error { return os.WriteFile(at, []byte("x"), 0o644) },
		"one is older":   func(at string) error { return os.Chtimes(at, time.Unix(1, 0), time.Unix(1, 0)) },
		"one is a directory": func(at string) error {
			return errors.Join(os.Remove(at), os.Mkdir(at, 0o755))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			w.put("data/a", random(10))
			w.put("data/b", random(20))
			w.sent("data", "results")
			n := 0
			spoiled := &Link{Request: w.way.Request, Open: func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
				if _, err := os.Stat(filepath.Join(w.dir, "home/b")); err == nil && l.Scheme == location.S3 && n == 0 { // the copy is over, and what is there is counted
					n++
					w.must(spoil(filepath.Join(w.dir, "home/b")))
				}
				return w.open(ctx, l, o)
			}}
			_, err := spoiled.Home(t.Context(), w.there("results"), w.here("home"), free)
			if !errors.Is(err, mover.ErrChanged) || !strings.Contains(err.Error(), "b") || n != 1 {
				t.Errorf("%v after %d places", err, n)
			}
		})
	}
}

// save makes a checkpoint of PyTorch: shards with a text each, and .metadata.
func (w *world) save(name string, shards ...string) {
	w.Helper()
	for i, text := range shards {
		w.put(fmt.Sprintf("%s/__%d_0.distcp", name, i), []byte(text))
	}
	w.put(name+"/.metadata", []byte("of "+name))
}

// TestCheckpoints: complete ones come, the newest first, and with them the tracker; what does not come is named.
func TestCheckpoints(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.save(fmt.Sprintf("run/step_%d", i+1), strings.Repeat("alpha", i+1), "beta")
	}
	w.put("run/step_4/__0_0.distcp", []byte("half of it"))
	w.put("run/latest", []byte("step_3"))
	w.put("run/args.json", []byte("{}"))
	w.put("run/odd:name/file", []byte("x"))
	w.sent("run", "run")
	m, err := w.way.Checkpoints(t.Context(), w.there("run"), w.here("home"), checkpoint.DCP, time.Time{}, free)
	w.must(err)
	want := w.tree("run")
	for _, name := range []string{"step_4/__0_0.distcp", "args.json", "odd:name/file"} {
		delete(want, name)
	}
	if got := w.tree("home"); !maps.Equal(got, want) {
		t.Errorf("%v\nand not %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	slices.Sort(m.Left)
	for i, begin := range []string{`"odd:name": it is no checkpoint`, "args.json: it is no checkpoint of the profile dcp", "step_4: "} {
		if len(m.Left) != 3 || !strings.HasPrefix(m.Left[i], begin) {
			t.Fatalf("%q", m.Left)
		}
	}
	if m.Files != 9 || m.Sent < m.Bytes {
		t.Errorf("%+v", m)
	}
	again, err := w.way.Checkpoints(t.Context(), w.there("run"), w.here("home"), checkpoint.DCP, time.Time{}, free)
	if w.must(err); again.Files != 9 || again.Bytes != m.Bytes || again.Sent != 0 {
		t.Errorf("again %+v", again)
	}
}

// TestExportedInAnyOrder: a mark that came before its shards speaks for them when an export has ended that began after all of them were written.
func TestExportedInAnyOrder(t *testing.T) {
	w := newWorld(t)
	if w.store.Dir == "" {
		t.Skip("a store that is not ours keeps its times of arrival")
	}
	w.save("run/step_1", "alpha", "beta")
	w.sent("run", "run")
	early := time.Now().Add(-time.Minute)
	w.must(os.Chtimes(filepath.Join(w.store.Dir, "run/step_1/.metadata"), early, early))
	for _, row := range []struct {
		exported time.Time
		files    int64
	}{{time.Time{}, 0}, {time.Now().Add(-2 * time.Hour), 0}, {early, 3}} { // all files are of an hour ago
		m := must.Get(w.way.Checkpoints(t.Context(), w.there("run"), w.here("home"), checkpoint.DCP, row.exported, free))(t)
		if m.Files != row.files || (row.files == 0) != (len(m.Left) == 1 && strings.Contains(m.Left[0], "is younger than .metadata")) {
			t.Errorf("exported %v: %+v", row.exported, m)
		}
	}
}

// TestNewestFirst: with money for a part of it, the newest are home.
func TestNewestFirst(t *testing.T) {
	w := newWorld(t)
	for i := range 4 {
		w.save(fmt.Sprintf("run/step_%d", i+1), "alpha")
	}
	w.sent("run", "run")
	for left := range 60 {
		home := fmt.Sprintf("home%d", left)
		_, err := w.way.Checkpoints(t.Context(), w.there("run"), w.here(home), checkpoint.DCP, time.Time{}, (&tollKeeper{left: left}).pass)
		if err == nil {
			if left < 4 {
				t.Errorf("it cost only %d", left)
			}
			return
		}
		if !errors.Is(err, mover.ErrRefused) || strings.Contains(err.Error(), "cancel") {
			t.Fatalf("%v", err)
		}
		var whole []string
		entries, _ := os.ReadDir(filepath.Join(w.dir, home))
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "step_") && !strings.Contains(e.Name(), ".incomplete") {
				whole = append(whole, e.Name())
			}
		}
		if want := []string{"step_1", "step_2", "step_3", "step_4"}; !slices.Equal(whole, want[4-len(whole):]) {
			t.Errorf("with money for %d: %q", left, whole)
		}
	}
	t.Error("it never is enough")
}

// TestChanging: one that is written again while it comes is named, and the others come.
func TestChanging(t *testing.T) {
	w := newWorld(t)
	for i := range 3 {
		w.save(fmt.Sprintf("run/step_%d", i+1), "alpha", "beta")
	}
	w.sent("run", "run")
	w.save("other/step_3", "gamma and more", "delta")
	var once sync.Once
	w.seen.then = func() {
		once.Do(func() {
			w.seen.then = nil
			_, err := (&Link{Open: w.site.Open, Request: w.way.Request}).Send(w.Context(), w.here("other/step_3"), w.there("run/step_3"), free)
			must.Tell(t, err)
		})
	}
	m, err := w.way.Checkpoints(t.Context(), w.there("run"), w.here("home"), checkpoint.DCP, time.Time{}, free)
	w.must(err)
	if len(m.Left) != 1 || !strings.HasPrefix(m.Left[0], "step_3: ") || m.Files != 6 {
		t.Errorf("%+v", m)
	}
	got := w.tree("home")
	for _, name := range []string{"step_1/.metadata", "step_2/__1_0.distcp"} {
		if _, has := got[name]; !has {
			t.Errorf("%s did not come", name)
		}
	}
	if _, has := got["step_3/.metadata"]; has {
		t.Error("what changed came")
	}
	m, err = w.way.Checkpoints(t.Context(), w.there("run"), w.here("home"), checkpoint.DCP, time.Time{}, free)
	if w.must(err); len(m.Left) != 0 || m.Files != 9 {
		t.Errorf("afterwards %+v", m)
	}
	if got := w.tree("home"); got["step_3/__0_0.distcp"] != "gamma and more" {
		t.Errorf("%v", got)
	}
}

// TestNothingSaved: a directory that nobody wrote to is home, and one whose bucket is not there is not.
func TestNothingSaved(t *testing.T) {
	w := newWorld(t)
	w.must(w.way.Folder(t.Context(), w.there("bursts/x/run")))
	for _, at := range []string{"bursts/x/run", "bursts/x/never"} {
		m, err := w.way.Checkpoints(t.Context(), w.there(at), w.here("home"), "", time.Time{}, free)
		if w.must(err); m.Files != 0 || len(m.Left) != 0 {
			t.Errorf("%s: %+v", at, m)
		}
	}
	if _, err := w.way.Checkpoints(t.Context(), w.parse("s3://no-such-bucket/run"), w.here("home"), checkpoint.DCP, time.Time{}, free); err == nil {
		t.Error("a bucket that is not there has nothing that could be lost")
	}
}

// TestMeasure: what is there counts as there, and where the target can not be looked at nothing does.
func TestMeasure(t *testing.T) {
	w := newWorld(t)
	w.put("data/a", random(1000))
	w.put("data/d/b", random(200))
	w.put("data/d/c", random(30))
	w.must(os.Symlink("a", filepath.Join(w.dir, "data/link")))
	check := func(what string, to location.Location, want burst.Measured) {
		t.Helper()
		got, err := w.way.Measure(t.Context(), w.here("data"), to)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", what, got, err, want)
		}
	}
	check("nothing is there", w.there("x"), burst.Measured{Files: 3, Bytes: 1230})
	w.sent("data", "x")
	check("all is there", w.there("x"), burst.Measured{Files: 3, Bytes: 1230, There: 1230, Kept: 3})
	w.put("data/d/new", random(7))
	w.put("data/a", random(1001))
	check("some is new, and some differs", w.there("x"), burst.Measured{Files: 4, Bytes: 1238, There: 230, Kept: 2})
	check("the bucket is not there", w.parse("s3://no-such-bucket/x"), burst.Measured{Files: 4, Bytes: 1238})
	if written, read := w.seen.took(); len(written) > 0 || len(read) > 0 {
		t.Errorf("it was looked at by %d and %d parts", written, read)
	}
	if _, err := w.way.Measure(t.Context(), w.here("none"), w.there("x")); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("the source is not there: %v", err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := w.way.Measure(ctx, w.here("data"), w.there("x")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestUnreachable: a store that nobody answers for has nothing.
func TestUnreachable(t *testing.T) {
	w := newWorld(t)
	w.put("data/a", random(1000))
	synctest.Test(t, func(t *testing.T) { // opening is tried for minutes
		gone := fmt.Errorf("%w: connection refused", mover.ErrUnreachable)
		way := &Link{Request: w.way.Request, Open: func(ctx context.Context, l location.Location, o engine.OpenOptions) (mover.Backend, error) {
			if l.Scheme == location.S3 {
				return nil, gone
			}
			return w.open(ctx, l, o)
		}}
		if m, err := way.Measure(t.Context(), w.here("data"), w.there("x")); err != nil || m != (burst.Measured{Files: 1, Bytes: 1000}) {
			t.Errorf("%+v, %v", m, err)
		}
		for what, err := range map[string]error{
			"measure":     errOf(way.Measure(t.Context(), w.there("x"), w.there("y"))),
			"send":        errOf(way.Send(t.Context(), w.here("data"), w.there("x"), free)),
			"home":        errOf(way.Home(t.Context(), w.there("x"), w.here("h"), free)),
			"checkpoints": errOf(way.Checkpoints(t.Context(), w.there("x"), w.here("h"), "", time.Time{}, free)),
			"text":        errOf(way.Text(t.Context(), w.there("x/y"), 10)),
			"folder":      way.Folder(t.Context(), w.there("x/y")),
			"remove":      way.Remove(t.Context(), w.there("x")),
		} {
			if !errors.Is(err, mover.ErrUnreachable) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func errOf[T any](_ T, err error) error { return err }

// TestText: what is small is read whole, and no more than may be.
func TestText(t *testing.T) {
	w := newWorld(t)
	text := []byte("FilePath,FileStatus,ErrorCode\n")
	w.put("data/report.csv", text)
	w.put("data/empty", nil)
	w.put("data/d/file", text)
	w.sent("data", "x")
	for _, test := range []struct {
		at   location.Location
		most int64
		want []byte
		kind error
	}{
		{w.there("x/report.csv"), int64(len(text)), text, nil},
		{w.there("x/report.csv"), int64(len(text)) - 1, nil, mover.ErrRefused},
		{w.there("x/empty"), 0, nil, nil},
		{w.there("x/none"), 10, nil, mover.ErrNotExist},
		{w.there("none/none"), 10, nil, mover.ErrNotExist},
		{w.there("x/d"), 1000, nil, mover.ErrConflict},
		{w.parse("s3://" + w.store.Bucket), 10, nil, mover.ErrUsage},
		{w.here("data/report.csv"), 100, text, nil},
	} {
		got, err := w.way.Text(t.Context(), test.at, test.most)
		if !errors.Is(err, test.kind) || test.kind == nil && err != nil || !bytes.Equal(got, test.want) {
			t.Errorf("%s: %q, %v; want %v", test.at, got, err, test.kind)
		}
	}
}

// TestRemove: what is below a prefix goes, and nothing beside it; a folder is there before anything is in it.
func TestRemove(t *testing.T) {
	w := newWorld(t)
	w.put("data/a", random(10))
	w.sent("data", "bursts/x")
	w.sent("data", "bursts/xy")
	w.must(w.way.Folder(t.Context(), w.there("bursts/x/results")))
	w.must(w.way.Folder(t.Context(), w.there("bursts/x/results")))
	if st, err := os.Stat(filepath.Join(w.store.Dir, "bursts/x/results")); err != nil || !st.IsDir() {
		t.Errorf("%v", err)
	}
	if err := w.way.Folder(t.Context(), w.parse("s3://"+w.store.Bucket)); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("%v", err)
	}
	w.must(w.way.Remove(t.Context(), w.there("bursts/x")))
	if _, err := os.Stat(filepath.Join(w.store.Dir, "bursts/x/a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if m, err := w.way.Home(t.Context(), w.there("bursts/xy"), w.here("home"), free); err != nil || m.Files != 1 {
		t.Errorf("%+v, %v", m, err)
	}
}
