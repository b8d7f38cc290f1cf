package remote

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/catalog/changefeed"
	"datamove.dev/tiering/catalog/changefeed/feedtest"
	"datamove.dev/tiering/catalog/changefeed/inotify"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

// line is a conversation in memory.
type line struct {
	ctx  context.Context
	cut  context.CancelFunc
	up   chan *agentv1.FollowRequest
	down chan *agentv1.FollowResponse
}

func newLine(ctx context.Context) *line {
	l := &line{up: make(chan *agentv1.FollowRequest, 3), down: make(chan *agentv1.FollowResponse, 3)}
	l.ctx, l.cut = context.WithCancel(ctx)
	return l
}

func pass[T any](ctx context.Context, c chan T, v T) error {
	select {
	case c <- v:
		return nil
	case <-ctx.Done():
		return io.EOF
	}
}

func get[T any](ctx context.Context, c chan T) (v T, err error) {
	select {
	case v = <-c:
		return v, nil
	case <-ctx.Done():
		return v, io.EOF
	}
}

type (
	there struct{ *line }
	here  struct{ *line }
)

func (l there) Send(r *agentv1.FollowRequest) error    { return pass(l.ctx, l.up, r) }
func (l there) Recv() (*agentv1.FollowResponse, error) { return get(l.ctx, l.down) }
func (l here) Send(r *agentv1.FollowResponse) error    { return pass(l.ctx, l.down, r) }
func (l here) Recv() (*agentv1.FollowRequest, error)   { return get(l.ctx, l.up) }

var scratch = catalog.Tree{Tier: "scratch", Node: "n1"}

// follow has a catalog follow a tree over a line, until the line is cut.
func follow(t testing.TB, l *line, c *catalog.Catalog, dir string) {
	t.Helper()
	var g sync.WaitGroup
	g.Go(func() {
		src, err := posix.Open(dir, posix.Options{})
		must.Do(t, err)
		defer src.Close()
		err = Tell(l.ctx, there{l}, src, func(f *agentv1.FollowFeed) (changefeed.Feed, error) {
			if f.GetKind() != "inotify" {
				t.Errorf("it is asked for %v", f)
			}
			return inotify.New(dir, inotify.Options{Window: time.Millisecond}), nil
		}, slog.New(slog.DiscardHandler))
		if l.ctx.Err() == nil {
			t.Errorf("it was told no more: %v", err)
		}
	})
	f := must.Get(Hear(here{l}, &agentv1.FollowFeed{Kind: "inotify"}))(t)
	k := &changefeed.Follower{Catalog: c, Tree: scratch, Source: f, Feed: f, Options: changefeed.Options{Retry: time.Millisecond, Left: 50 * time.Millisecond}}
	g.Go(func() { _ = k.Run(l.ctx) })
	if err := f.Listen(l.ctx); l.ctx.Err() == nil {
		t.Errorf("it was heard no more: %v", err)
	}
	g.Wait()
}

// A tree changes, and the line is cut again and again: in the end the catalog here is what a scan would make of the tree there.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestModel(t *testing.T) {
	dir := t.TempDir()
	c := must.Get(catalog.Open(t.TempDir(), catalog.Options{}))(t)
	defer c.Close()
	src := must.Get(posix.Open(dir, posix.Options{}))(t)
	defer src.Close()
	random := rand.New(rand.NewPCG(3, 4))
	segments := []string{"a", "b", "c d", "\xff", strings.Repeat("n", 100)}
	some := func() string {
		var s []string
		for range 1 + random.IntN(4) {
			s = append(s, segments[random.IntN(len(segments))])
		}
		return filepath.Join(dir, filepath.Join(s...))
	}
	for life := range 12 {
		l := newLine(t.Context())
		var g sync.WaitGroup
		g.Go(func() { follow(t, l, c, dir) })
		for range 200 {
			name := some()
			switch random.IntN(6) {
			case 0:
				_ = os.RemoveAll(name)
			case 1:
				_ = os.Rename(name, some())
			case 2:
				_ = os.Symlink("none", name)
			default:
				_ = os.MkdirAll(filepath.Dir(name), 0o755)
				_ = os.WriteFile(name, make([]byte, random.IntN(2000)), 0o600)
			}
			if random.IntN(20) == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		if life%4 == 3 {
			feedtest.Settled(t, c, scratch, src)
		}
		l.cut()
		g.Wait()
	}
}

// What is said over there is checked here: an answer that is too short, and what is no entry.
//
//safety:5 with tiering/catalog/changefeed/s3events TestQueued
func TestHostile(t *testing.T) {
	for what, answer := range map[string]*agentv1.FollowSights{
		"too few":  {},
		"no entry": {Sights: []*agentv1.FollowSight{{Entry: []byte{1, 2, 3}}}},
		"too many": {Sights: []*agentv1.FollowSight{{}, {}}},
	} {
		l := newLine(t.Context())
		f := must.Get(Hear(here{l}, &agentv1.FollowFeed{}))(t)
		var g sync.WaitGroup
		g.Go(func() { _ = f.Listen(l.ctx) })
		g.Go(func() {
			for {
				r, err := there{l}.Recv()
				if err != nil {
					return
				}
				if r.GetLook() != nil {
					answer.Id = r.GetLook().GetId()
					_ = there{l}.Send(&agentv1.FollowRequest{Sights: answer})
				}
			}
		})
		if _, err := f.Stat(t.Context(), "x"); !errors.Is(err, mover.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
		var names []string
		_ = f.serve(t.Context(), &agentv1.FollowRequest{Batch: &agentv1.FollowBatch{Names: [][]byte{[]byte("../x"), []byte("/etc"), nil, []byte("a"), []byte("b/"), []byte("b/c"), []byte("a//b")}}}, nil,
			func(_ context.Context, b changefeed.Batch) error { names = b.Names; return nil })
		if strings.Join(names, " ") != "a b/ b/c" {
			t.Errorf("names that lead elsewhere: %q", names)
		}
		l.cut()
		g.Wait()
		if _, err := f.Stat(t.Context(), "x"); !errors.Is(err, mover.ErrUnreachable) && !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
	}
}

// none is a feed that can not be had.
type none struct{ err error }

func (n none) Run(context.Context, changefeed.Marks, changefeed.Take) error { return n.err }

// TestNoFeed: a feed that can not be had ends the telling with the reason, while nobody says anything.
func TestNoFeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, why := range []error{mover.ErrPermission, mover.ErrUsage, errors.ErrUnsupported} {
			l := newLine(t.Context())
			must.Do(t, here{l}.Send(&agentv1.FollowResponse{Feed: &agentv1.FollowFeed{Kind: "changelog"}}))
			err := Tell(l.ctx, there{l}, nil, func(*agentv1.FollowFeed) (changefeed.Feed, error) { return none{why}, nil }, slog.New(slog.DiscardHandler))
			if !errors.Is(err, why) {
				t.Errorf("%v, want %v", err, why)
			}
			l.cut()
		}
	})
}

// A batch that nobody waits for any more is answered late: the next one is taken when it is, and not when that answer comes. Of marks it is the same.
func TestLateAnswer(t *testing.T) { synctest.Test(t, lateAnswer) }

func lateAnswer(t *testing.T) {
	l := newLine(t.Context())
	teller := &teller{stream: there{l}, log: slog.New(slog.DiscardHandler), heard: make(chan heard)}
	var g sync.WaitGroup
	g.Go(func() { teller.hear(l.ctx) })
	g.Go(func() { _ = teller.listen(l.ctx, nil) })
	gone, leave := context.WithCancel(t.Context())
	first := make(chan error, 1)
	go func() { first <- teller.take(gone, changefeed.Batch{Names: []string{"a"}}) }()
	a, err := here{l}.Recv()
	must.Do(t, err)
	leave()
	if err := <-first; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	second := make(chan error, 1)
	go func() { second <- teller.take(t.Context(), changefeed.Batch{Names: []string{"b"}}) }()
	b, err := here{l}.Recv()
	must.Do(t, err)
	must.Do(t, here{l}.Send(taken(a)))
	synctest.Wait()
	select {
	case err := <-second:
		t.Errorf("the second batch is taken by the answer to the first: %v", err)
	default:
	}
	must.Do(t, here{l}.Send(taken(b)))
	must.Do(t, <-second)

	must.Do(t, here{l}.Send(&agentv1.FollowResponse{Mark: &agentv1.FollowMark{Part: "old", Value: []byte("1")}}))
	value := make(chan []byte, 1)
	go func() {
		v := must.Get(teller.markOf(t.Context(), "new"))(t)
		value <- v
	}()
	_, err = here{l}.Recv()
	must.Do(t, err)
	must.Do(t, here{l}.Send(&agentv1.FollowResponse{Mark: &agentv1.FollowMark{Part: "old", Value: []byte("1")}}))
	must.Do(t, here{l}.Send(&agentv1.FollowResponse{Mark: &agentv1.FollowMark{Part: "new", Value: []byte("2")}}))
	if v := <-value; string(v) != "2" {
		t.Errorf("the mark is %s", v)
	}
	l.cut()
	g.Wait()
}

// taken is the answer to a batch.
func taken(r *agentv1.FollowRequest) *agentv1.FollowResponse {
	return &agentv1.FollowResponse{Taken: r.GetBatch().GetId()}
}
