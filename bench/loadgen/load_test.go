package loadgen_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"datamove.dev/bench/loadgen"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/backend/s3/s3test"
	"datamove.dev/test/mountns"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

func TestMain(m *testing.M) { mountns.Main(m) }

const id = "0123456789abcdef"

// paths opens targets that are directories.
func paths(_ context.Context, target, _ string) (string, mover.Backend, error) {
	return target, nil, nil
}

// crew is the nodes of a run.
type crew struct {
	*testing.T
	nodes []*loadgen.Node
	have  map[string][]loadgen.Have
}

func newCrew(t *testing.T, nodes int, open loadgen.Opener, targets ...string) *crew {
	c := &crew{T: t, have: map[string][]loadgen.Have{}}
	for i := range nodes {
		n := must.Get(loadgen.Open(t.Context(), loadgen.Setup{ID: id, Targets: targets, Index: i, Seed: 7}, open))(t)
		c.nodes = append(c.nodes, n)
	}
	t.Cleanup(func() {
		for _, n := range c.nodes {
			must.Do(t, errors.Join(n.Clean(context.Background()), n.Close()))
		}
	})
	return c
}

// do has all nodes do a work, one after the other, and adds up what they did.
func (c *crew) do(w loadgen.Work) (sum loadgen.Result, err error) {
	c.Helper()
	w.Nodes, w.Have = len(c.nodes), c.have[w.Tree.Name]
	var have []loadgen.Have
	for _, n := range c.nodes {
		if err := n.Prepare(c.Context(), w); err != nil {
			return sum, err
		}
		r := n.Begin(c.Context(), time.Now())
		if r.Err() != nil {
			err = errors.Join(err, r.Err())
		}
		h, bad := hdrhistogram.Decode([]byte(r.Histogram))
		must.Do(c, bad)
		if r.Failed == "" && w.Do != loadgen.List && w.Do != loadgen.Find && h.TotalCount() != r.Ops() {
			c.Errorf("%s: %d latencies of %d operations", w.Do, h.TotalCount(), r.Ops())
		}
		if len(r.Ends) != w.Ranks || r.End <= 0 || r.Every <= 0 || r.CPU < 0 || r.PeakBytes <= 0 {
			c.Errorf("%+v", r)
		}
		have = append(have, r.Have...)
		sum.Targets = append(sum.Targets, r.Targets...)
		sum.Wrong, sum.Files, sum.Cache = sum.Wrong+r.Wrong, sum.Files+r.Files, r.Cache
	}
	if w.Do == loadgen.Write || w.Do == loadgen.Create || w.Do == loadgen.Rename {
		c.have[w.Tree.Name] = have
	}
	return sum, err
}

// TestPhases: each deed does what it says, to as many files and bytes as it should, at two nodes with two ranks each on two directories.
func TestPhases(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	c := newCrew(t, 2, paths, one, two)
	large := loadgen.Tree{Name: "large", Files: 1, Bytes: 1<<20 + 4096, Block: 256 << 10}
	odd := loadgen.Tree{Name: "odd", Files: 2, Bytes: 100_000, Block: 47_008}
	shared := loadgen.Tree{Name: "shared", Files: 1, Bytes: 1 << 20, Block: 64 << 10, Shared: true}
	small := loadgen.Tree{Name: "small", Dirs: 3, Files: 10, Bytes: 5000}
	storm := loadgen.Tree{Name: "storm", Files: 20}
	for _, row := range []struct {
		work              loadgen.Work
		bytes, ops, files int64 // of all four ranks
	}{
		{loadgen.Work{Do: loadgen.Write, Tree: large, Cache: loadgen.Direct, Durable: loadgen.EachEnd}, 4 * (1<<20 + 4096), 4 * 5, 4},
		{loadgen.Work{Do: loadgen.Read, Tree: large, Cache: loadgen.Direct, Verify: true, Shift: 2}, 4 * (1<<20 + 4096), 4 * 5, 4},
		{loadgen.Work{Do: loadgen.Read, Tree: large, Cache: loadgen.Drop, Verify: true, Order: loadgen.Shuffled}, 4 * (1<<20 + 4096), 4 * 5, 4},
		{loadgen.Work{Do: loadgen.Read, Tree: large, Cache: loadgen.Keep, Verify: true, Order: loadgen.Global}, 4 * (1<<20 + 4096), 4 * 5, -1},
		{loadgen.Work{Do: loadgen.Write, Tree: odd, Cache: loadgen.Direct, Durable: loadgen.AtEnd}, 8 * 100_000, 8 * 3, 8},
		{loadgen.Work{Do: loadgen.Read, Tree: odd, Cache: loadgen.Direct, Verify: true, Shift: 1}, 8 * 100_000, 8 * 3, 8},
		{loadgen.Work{Do: loadgen.Write, Tree: shared, Cache: loadgen.Direct}, 4 << 20, 64, -1},
		{loadgen.Work{Do: loadgen.Read, Tree: shared, Cache: loadgen.Direct, Verify: true, Shift: 3}, 4 << 20, 64, -1},
		{loadgen.Work{Do: loadgen.Read, Tree: shared, Cache: loadgen.Direct, Verify: true, Order: loadgen.Global}, 4 << 20, 64, -1},
		{loadgen.Work{Do: loadgen.Mkdir, Tree: small, Cache: loadgen.Direct}, 0, 12, 0},
		{loadgen.Work{Do: loadgen.Write, Tree: small, Cache: loadgen.Direct, Durable: loadgen.AtEnd}, 40 * 5000, 40, 40},
		{loadgen.Work{Do: loadgen.Read, Tree: small, Cache: loadgen.Direct, Verify: true, Shift: 2}, 40 * 5000, 40, 40},
		{loadgen.Work{Do: loadgen.Stat, Tree: small, Cache: loadgen.Direct, Shift: 2}, 0, 40, 40},
		{loadgen.Work{Do: loadgen.List, Tree: small, Cache: loadgen.Direct}, 0, 40, 40},
		{loadgen.Work{Do: loadgen.Find, Tree: small, Cache: loadgen.Direct}, 0, 40, 40},
		{loadgen.Work{Do: loadgen.Rename, Tree: small, Cache: loadgen.Direct}, 0, 40, 40},
		{loadgen.Work{Do: loadgen.Read, Tree: small, Cache: loadgen.Direct, Verify: true}, 40 * 5000, 40, 40},
		{loadgen.Work{Do: loadgen.Unlink, Tree: small, Cache: loadgen.Direct}, 0, 40, 40},
		{loadgen.Work{Do: loadgen.Create, Tree: storm, Cache: loadgen.Direct}, 0, 80, 80},
		{loadgen.Work{Do: loadgen.Rename, Tree: storm, Cache: loadgen.Direct}, 0, 80, 80},
		{loadgen.Work{Do: loadgen.Stat, Tree: storm, Cache: loadgen.Direct, Shift: 2}, 0, 80, 80},
		{loadgen.Work{Do: loadgen.List, Tree: storm, Cache: loadgen.Direct}, 0, 80, 80},
		{loadgen.Work{Do: loadgen.Unlink, Tree: storm, Cache: loadgen.Direct}, 0, 80, 80},
		{loadgen.Work{Do: loadgen.List, Tree: storm, Cache: loadgen.Direct}, 0, 0, 0},
	} {
		row.work.Ranks = 2
		got := must.Get(c.do(row.work))(t)
		if got.Bytes() != row.bytes || got.Ops() != row.ops || row.files >= 0 && got.Files != row.files || got.Wrong != 0 {
			t.Errorf("%s of %s: %d bytes, %d operations, %d files, %d wrong", row.work.Do, row.work.Tree.Name, got.Bytes(), got.Ops(), got.Files, got.Wrong)
		}
	}
	for _, dir := range []string{one, two} {
		if all, err := os.ReadDir(dir); err != nil || len(all) != 1 {
			t.Errorf("%v, %v", all, err)
		}
	}
}

// TestWrong: a block that is not what was written is found, and only that one.
func TestWrong(t *testing.T) {
	dir := t.TempDir()
	c := newCrew(t, 1, paths, dir)
	tree := loadgen.Tree{Name: "large", Files: 2, Bytes: 1 << 20, Block: 64 << 10}
	_, err := c.do(loadgen.Work{Do: loadgen.Write, Tree: tree, Ranks: 2, Cache: loadgen.Direct})
	must.Do(t, err)
	name := filepath.Join(dir, loadgen.DirPrefix+id, "large", "r000001-f00000001")
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	must.Do(t, err)
	_, err = f.WriteAt([]byte{1, 2, 3}, 70_000)
	must.Do(t, errors.Join(err, f.Close()))
	for _, order := range []loadgen.Order{loadgen.Forward, loadgen.Shuffled, loadgen.Global} {
		got, err := c.do(loadgen.Work{Do: loadgen.Read, Tree: tree, Ranks: 2, Verify: true, Cache: loadgen.Drop, Order: order})
		if !errors.Is(err, mover.ErrCorrupt) || !strings.Contains(err.Error(), "large/r000001-f00000001, 65536 bytes at 65536") || got.Wrong != 1 || got.Ops() != 64 {
			t.Errorf("%q: %d wrong of %d, %v", order, got.Wrong, got.Ops(), err)
		}
	}
	must.Do(t, os.Truncate(name, 1<<19))
	if _, err := c.do(loadgen.Work{Do: loadgen.Read, Tree: tree, Ranks: 2, Cache: loadgen.Drop}); err == nil || !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("a short file: %v", err)
	}
}

// TestLimit: who is stopped by the time reads what was written, and nothing else.
func TestLimit(t *testing.T) {
	c := newCrew(t, 2, paths, t.TempDir())
	for _, tree := range []loadgen.Tree{
		{Name: "endless", Files: 1, Bytes: 1 << 40, Block: 4096},
		{Name: "shared", Files: 1, Bytes: 1 << 40, Block: 4096, Shared: true},
		{Name: "many", Files: 1 << 20, Bytes: 4096},
	} {
		wrote := must.Get(c.do(loadgen.Work{Do: loadgen.Write, Tree: tree, Ranks: 2, Cache: loadgen.Keep, Limit: 20 * time.Millisecond}))(t)
		read := must.Get(c.do(loadgen.Work{Do: loadgen.Read, Tree: tree, Ranks: 2, Cache: loadgen.Keep, Verify: true, Shift: 2}))(t)
		if wrote.Ops() == 0 || wrote.Ops() != read.Ops() || wrote.Bytes() != read.Bytes() {
			t.Errorf("%s: wrote %d, read %d", tree.Name, wrote.Ops(), read.Ops())
		}
	}
}

// TestBucket: a place of objects is written, read, listed and emptied, also in parts.
func TestBucket(t *testing.T) {
	o := s3test.Start(t, false).Options(t)
	prefix := o.Prefix
	open := func(ctx context.Context, _, name string) (string, mover.Backend, error) {
		o.Prefix = mover.Join(prefix, name)
		place, err := s3.Open(ctx, o)
		return "", place, err
	}
	c := newCrew(t, 2, open, "s3://bucket/x")
	parts := loadgen.Tree{Name: "multipart", Files: 2, Bytes: 11 << 20, Block: 5 << 20}
	small := loadgen.Tree{Name: "put", Dirs: 1, Files: 10, Bytes: 1000}
	for _, row := range []struct {
		work       loadgen.Work
		bytes, ops int64
	}{
		{loadgen.Work{Do: loadgen.Write, Tree: small}, 40_000, 40},
		{loadgen.Work{Do: loadgen.Read, Tree: small, Verify: true, Shift: 1}, 40_000, 40},
		{loadgen.Work{Do: loadgen.Stat, Tree: small}, 0, 40},
		{loadgen.Work{Do: loadgen.List, Tree: small}, 0, 40},
		{loadgen.Work{Do: loadgen.Write, Tree: parts}, 88 << 20, 24},
		{loadgen.Work{Do: loadgen.Read, Tree: parts, Verify: true}, 88 << 20, 24},
		{loadgen.Work{Do: loadgen.Read, Tree: parts, Verify: true, Order: loadgen.Global}, 88 << 20, 24},
		{loadgen.Work{Do: loadgen.Unlink, Tree: small}, 0, 40},
	} {
		row.work.Ranks, row.work.Cache = 2, loadgen.Direct
		got := must.Get(c.do(row.work))(t)
		if got.Bytes() != row.bytes || got.Ops() != row.ops {
			t.Errorf("%s of %s: %d bytes, %d operations", row.work.Do, row.work.Tree.Name, got.Bytes(), got.Ops())
		}
	}
	must.Do(t, c.nodes[0].Clean(t.Context()))
	o.Prefix = prefix
	for e, err := range s3test.Open(t, o).Walk(t.Context(), mover.WalkOptions{}) {
		t.Errorf("left: %s, %v", e.Name, err)
	}
	if err := c.nodes[0].Prepare(t.Context(), loadgen.Work{Do: loadgen.Write, Nodes: 1, Ranks: 1, Tree: loadgen.Tree{Name: "x", Files: 1, Bytes: 2 << 20, Block: 1 << 20}, Cache: loadgen.Direct}); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("small parts: %v", err)
	}
	if _, err := c.do(loadgen.Work{Do: loadgen.Rename, Tree: small, Ranks: 2, Cache: loadgen.Direct}); !errors.Is(err, mover.ErrUnsupported) {
		t.Errorf("an object has another name: %v", err)
	}
}

// TestFull: when there is no room, that is said, of its kind, and all ranks end.
func TestFull(t *testing.T) {
	c := newCrew(t, 1, paths, small(t, 1<<20))
	_, err := c.do(loadgen.Work{Do: loadgen.Write, Tree: loadgen.Tree{Name: "large", Files: 1, Bytes: 1 << 30, Block: 64 << 10}, Ranks: 4, Cache: loadgen.Keep})
	if !errors.Is(err, mover.ErrFull) {
		t.Error(err)
	}
}

// TestHostile: what can not be a work is refused, and so is a directory that is another's.
func TestHostile(t *testing.T) {
	dir := t.TempDir()
	c := newCrew(t, 1, paths, dir)
	good := loadgen.Work{Do: loadgen.Write, Tree: loadgen.Tree{Name: "x", Files: 1, Bytes: 4096}, Ranks: 1, Nodes: 1, Cache: loadgen.Direct}
	must.Do(t, c.nodes[0].Prepare(t.Context(), good))
	for name, change := range map[string]func(w *loadgen.Work){
		"a deed":           func(w *loadgen.Work) { w.Do = "format" },
		"a way out":        func(w *loadgen.Work) { w.Tree.Name = "../x" },
		"no name":          func(w *loadgen.Work) { w.Tree.Name = "" },
		"below 0":          func(w *loadgen.Work) { w.Tree.Files = -1 },
		"no ranks":         func(w *loadgen.Work) { w.Ranks = 0 },
		"too many ranks":   func(w *loadgen.Work) { w.Ranks = 1 << 40 },
		"no nodes":         func(w *loadgen.Work) { w.Nodes = 0 },
		"a block":          func(w *loadgen.Work) { w.Tree.Bytes, w.Tree.Block = 1<<40, 1<<39 },
		"no bytes":         func(w *loadgen.Work) { w.Tree.Bytes = 0 },
		"an odd block":     func(w *loadgen.Work) { w.Tree.Bytes, w.Tree.Block = 1000, 10 },
		"an order":         func(w *loadgen.Work) { w.Order = "x" },
		"a cache":          func(w *loadgen.Work) { w.Cache = "" },
		"durable":          func(w *loadgen.Work) { w.Durable = "x" },
		"too few have":     func(w *loadgen.Work) { w.Have = []loadgen.Have{} },
		"too much":         func(w *loadgen.Work) { w.Have = []loadgen.Have{{Blocks: 2}} },
		"a shared stat":    func(w *loadgen.Work) { w.Do, w.Tree.Shared = loadgen.Stat, true },
		"a shared rest":    func(w *loadgen.Work) { w.Tree.Shared, w.Tree.Bytes, w.Tree.Block = true, 4097, 4096 },
		"too much memory":  func(w *loadgen.Work) { w.Tree.Bytes, w.Tree.Block, w.Ranks = 1<<30, 1<<30, 1<<20 },
		"a time below 0":   func(w *loadgen.Work) { w.Limit = -1 },
		"another's number": func(w *loadgen.Work) { w.Shift = -1 },
	} {
		w := good
		change(&w)
		if err := c.nodes[0].Prepare(t.Context(), w); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, id := range []string{"", "../../../../../x", "0123456789ABCDEF"} {
		if _, err := loadgen.Open(t.Context(), loadgen.Setup{ID: id, Targets: []string{dir}}, paths); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", id, err)
		}
	}
	other := t.TempDir()
	const taken = "fedcba9876543210"
	must.Do(t, os.Symlink(dir, filepath.Join(other, loadgen.DirPrefix+taken)))
	if _, err := loadgen.Open(t.Context(), loadgen.Setup{ID: taken, Targets: []string{other}}, paths); err == nil {
		t.Error("a link was followed")
	}
	must.Do(t, os.Remove(filepath.Join(other, loadgen.DirPrefix+taken)))
	must.Do(t, os.Mkdir(filepath.Join(other, loadgen.DirPrefix+taken), 0o700))
	must.Do(t, os.Chmod(filepath.Join(other, loadgen.DirPrefix+taken), 0o777))
	if _, err := loadgen.Open(t.Context(), loadgen.Setup{ID: taken, Targets: []string{other}}, paths); !errors.Is(err, mover.ErrConflict) {
		t.Errorf("a directory that others may write to: %v", err)
	}
}

// TestEnds: who is interrupted ends, and says why.
func TestEnds(t *testing.T) {
	c := newCrew(t, 1, paths, t.TempDir())
	must.Do(t, c.nodes[0].Prepare(t.Context(), loadgen.Work{Do: loadgen.Write, Nodes: 1, Ranks: 2, Tree: loadgen.Tree{Name: "x", Files: 1 << 20, Bytes: 4096}, Cache: loadgen.Keep}))
	ctx, stop := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { stop(fmt.Errorf("%w: enough", mover.ErrUnreachable)) })
	if r := c.nodes[0].Begin(ctx, time.Now()); !errors.Is(r.Err(), mover.ErrUnreachable) || !strings.Contains(r.Failed, "enough") {
		t.Errorf("%+v", r.Err())
	}
}

// TestWider: what was done in intervals is the same in wider ones.
func TestWider(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.SliceOf(rapid.Int64Range(0, 1e12)).Draw(t, "series")
		n := rapid.IntRange(1, 9).Draw(t, "n")
		w := loadgen.Wider(v, n)
		var a, b int64
		for _, x := range v {
			a += x
		}
		for _, x := range w {
			b += x
		}
		if a != b || len(w) != (len(v)+n-1)/n {
			t.Errorf("%v is %v", v, w)
		}
	})
}
