package metered_test

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/errgroup"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/faulty"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/backend/metered"
	"datamove.dev/mover/backend/posix"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var owner = mover.WriterID{Task: "t", Epoch: 1}

func TestContract(t *testing.T) {
	backendtest.Run(t, func(*testing.T) func() mover.Backend {
		tree := mem.NewTree()
		return func() mover.Backend {
			return metered.New(mem.New(tree, mem.Options{Reflinks: true}), new(metered.Counter))
		}
	})
}

// A place that is wrapped and one that counts itself count the same.
func TestCounts(t *testing.T) {
	tree := map[string]string{"a": "12345", "d/b": "678"}
	t.Run("wrapped", func(t *testing.T) { counts(t, mem.New(mem.NewTree().Files(tree), mem.Options{})) })
	t.Run("tells", func(t *testing.T) { counts(t, directory(t, tree)) })
}

// directory is a place that tells by itself what is done with its contents and drafts.
func directory(t *testing.T, tree map[string]string) mover.Backend {
	t.Helper()
	root := t.TempDir()
	for name, text := range tree {
		path := filepath.Join(root, name)
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)))
	}
	p := must.Get(posix.Open(root, posix.Options{Reflink: posix.ReflinkNever}))(t)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func counts(t *testing.T, inner mover.Backend) {
	c := new(metered.Counter)
	p := metered.New(inner, c)
	for _, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
	}
	if got := backendtest.Read(t, p, "a"); string(got) != "12345" {
		t.Fatalf("read %q", got)
	}
	backendtest.Put(t, p, mover.Entry{Name: "c", Kind: mover.File, Size: 7}, []byte("1234567"))
	err := p.Update(t.Context(), mover.Entry{Name: "a", Kind: mover.File, Known: mover.FactMode, Mode: 0o600})
	if e, statErr := p.Stat(t.Context(), "c"); err == nil {
		err = errors.Join(statErr, p.Remove(t.Context(), e, owner), p.Sync(t.Context()), p.Mkdir(t.Context(), mover.Entry{Name: "n", Kind: mover.Dir}))
	}
	must.Do(t, err)
	if c.Read() != 5 || c.Written() != 7 || c.Passing() != 0 {
		t.Errorf("read %d, written %d, passing %d", c.Read(), c.Written(), c.Passing())
	}
	got := c.Operations()
	for op, n := range map[metered.Op]int64{metered.List: 3, metered.Open: 1, metered.Get: 1, metered.Create: 1, metered.Part: 1, metered.Publish: 1,
		metered.Setattr: 1, metered.Remove: 1, metered.Sync: 1, metered.Mkdir: 1} {
		if got[op.String()] != n {
			t.Errorf("%s: %d, want %d", op, got[op.String()], n)
		}
	}
}

// What fails for a reason that passes counts where it failed, and as often.
func TestPassing(t *testing.T) {
	for _, row := range []struct {
		fault faulty.Fault
		op    faulty.Op
		want  int64
	}{
		{faulty.Transient, faulty.Stat, 1},
		{faulty.Denied, faulty.Stat, 0},
		{faulty.Unreachable, faulty.Write, 1},
		{faulty.Transient, faulty.Publish, 1},
	} {
		c := new(metered.Counter)
		p := metered.New(faulty.New(mem.New(mem.NewTree().Files(map[string]string{"a": "1"}), mem.Options{}), faulty.Options{Script: func(call faulty.Call) faulty.Fault {
			if call.Op == row.op && call.Nth == 0 {
				return row.fault
			}
			return faulty.None
		}}), c)
		if row.op == faulty.Stat {
			_, _ = p.Stat(t.Context(), "a")
		} else {
			write(t, p)
		}
		if got := c.Passing(); got != row.want {
			t.Errorf("%v at %v: %d, want %d", row.fault, row.op, got, row.want)
		}
	}
}

func write(t *testing.T, p mover.Backend) {
	t.Helper()
	d, err := p.Draft(t.Context(), mover.Entry{Name: "b", Kind: mover.File, Size: 4}, mover.Hints{By: owner})
	must.Do(t, err)
	defer d.Close()
	part := backendtest.Parts(4, 4)[0]
	r, err := d.WritePart(t.Context(), part, backendtest.NewFeed([]byte("feed")))
	if err != nil {
		return
	}
	must.Do(t, d.Finish(t.Context(), mover.Entry{Name: "b", Kind: mover.File, Size: 4}, []mover.Receipt{r}))
	p.Publish(t.Context(), []mover.Draft{d})
}

// A source that breaks is no failure of the target.
func TestBrokenSource(t *testing.T) {
	t.Run("wrapped", func(t *testing.T) { brokenSource(t, mem.New(nil, mem.Options{})) })
	t.Run("tells", func(t *testing.T) { brokenSource(t, directory(t, nil)) })
}

func brokenSource(t *testing.T, inner mover.Backend) {
	c := new(metered.Counter)
	p := metered.New(inner, c)
	d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "b", Kind: mover.File, Size: 4}, mover.Hints{By: owner}))(t)
	if _, err := d.WritePart(t.Context(), backendtest.Parts(4, 4)[0], backendtest.NewFeed([]byte("feed")).BreakAt(2, mover.ErrTransient)); err == nil {
		t.Error("a broken feed was written")
	}
	must.Do(t, d.Close())
	if c.Passing() != 0 || c.Written() != 2 {
		t.Errorf("passing %d, written %d", c.Passing(), c.Written())
	}
}

// What lasts is told while it lasts.
func TestToldMeanwhile(t *testing.T) {
	tree := map[string]string{"a": strings.Repeat("x", 3<<20)}
	t.Run("wrapped", func(t *testing.T) { toldMeanwhile(t, mem.New(mem.NewTree().Files(tree), mem.Options{})) })
	t.Run("tells", func(t *testing.T) { toldMeanwhile(t, directory(t, tree)) })
}

func toldMeanwhile(t *testing.T, inner mover.Backend) {
	c := new(metered.Counter)
	p := metered.New(inner, c)
	e := must.Get(p.Stat(t.Context(), "a"))(t)
	from := must.Get(p.Open(t.Context(), e))(t)
	defer from.Close()
	for range 20 {
		r, err := from.Range(t.Context(), 0, e.Size)
		if err == nil {
			_, err = io.Copy(io.Discard, r)
		}
		if err = errors.Join(err, r.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.Read(); n < 20*e.Size-1<<20 || c.Operations()["get"] < 16 {
		t.Errorf("while a content is open: %d bytes, %v", n, c.Operations())
	}

	d := must.Get(p.Draft(t.Context(), mover.Entry{Name: "b", Kind: mover.File, Size: 64 << 20}, mover.Hints{By: owner}))(t)
	defer d.Close()
	var writers errgroup.Group
	for _, part := range backendtest.Parts(64<<20, 2<<20) {
		writers.Go(func() error {
			_, err := d.WritePart(t.Context(), part, backendtest.NewFeed(make([]byte, part.Length)))
			return err
		})
	}
	must.Do(t, writers.Wait())
	if n := c.Written(); n < 63<<20 || c.Operations()["part"] < 16 {
		t.Errorf("while a draft is open: %d bytes, %v", n, c.Operations())
	}
}

// Nothing that was not asked for is told.
func TestNothing(t *testing.T) {
	if got := new(metered.Counter).Operations(); !maps.Equal(got, map[string]int64{}) {
		t.Errorf("%v", got)
	}
}
