package mem_test

import (
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestContract(t *testing.T) {
	for name, opts := range map[string]mem.Options{
		"posix":    {},
		"reflinks": {Reflinks: true},
		"objects":  {ObjectStore: true},
		"grains":   {Adjust: func(t *mover.Capabilities) { t.Times.Grain = 2 * time.Second }},
		"32 bits":  {Adjust: func(t *mover.Capabilities) { t.Times = mover.TimeRange{Last: 1<<32 - 1, Grain: time.Microsecond} }},
	} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(*testing.T) func() mover.Backend {
				tree := mem.NewTree()
				return func() mover.Backend { return mem.New(tree, opts) }
			})
		})
	}
}

func TestCrashLeavesStraysAndFreesTheLock(t *testing.T) {
	tree := mem.NewTree()
	first := mem.New(tree, mem.Options{})
	_, unlock, err := first.Lock(t.Context(), "", owner)
	must.Do(t, err)
	e := mover.Entry{Name: "f", Kind: mover.File, Size: 6}
	parts := backendtest.Parts(6, 3)
	d, err := first.Draft(t.Context(), e, mover.Hints{By: owner})
	must.Do(t, err)
	one, err := d.WritePart(t.Context(), parts[0], backendtest.NewFeed([]byte("one")))
	must.Do(t, err)
	first.Crash()
	for what, err := range map[string]error{
		"write":   second(d.WritePart(t.Context(), parts[1], backendtest.NewFeed([]byte("two")))),
		"finish":  d.Finish(t.Context(), e, nil),
		"publish": first.Publish(t.Context(), []mover.Draft{d})[0].Err,
		"close":   d.Close(),
		"stat":    second(first.Stat(t.Context(), "")),
		"sync":    first.Sync(t.Context()),
	} {
		if err == nil {
			t.Errorf("%s works after the crash", what)
		}
	}
	_ = unlock() // of a dead process: must not free the next one's lock

	next := mem.New(tree, mem.Options{})
	if _, _, err := next.Lock(t.Context(), "", mover.WriterID{Task: "t", Epoch: 2}); err != nil {
		t.Errorf("lock after the crash: %v", err)
	}
	if got := tree.Drafts(); len(got) != 1 || got[0] != d.Token() {
		t.Errorf("drafts on the tree: %q", got)
	}
	again, err := next.Adopt(t.Context(), d.Token())
	must.Do(t, err)
	two, err := again.WritePart(t.Context(), parts[1], backendtest.NewFeed([]byte("two")))
	must.Do(t, err)
	must.Do(t, again.Finish(t.Context(), e, []mover.Receipt{one, two}))
	if out := next.Publish(t.Context(), []mover.Draft{again}); out[0].Err != nil {
		t.Fatal(out[0].Err)
	}
	if got, _ := tree.Content("f"); got != "onetwo" {
		t.Errorf("content %q", got)
	}
}

//safety:4 identity before and after; If-Match on every range
func TestChangesUnderneathAreNoticed(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*mem.Tree)
		reads  bool // an open file stays readable
	}{
		{"overwritten", func(t *mem.Tree) { t.Overwrite("d/f", 2, "xx") }, false},
		{"grown", func(t *mem.Tree) { t.Overwrite("d/f", 6, "more") }, false},
		{"truncated", func(t *mem.Tree) { t.Truncate("d/f", 3) }, false},
		{"deleted", func(t *mem.Tree) { t.Delete("d/f") }, true},
		{"renamed over", func(t *mem.Tree) { t.Files(map[string]string{"g": "another"}).Rename("g", "d/f") }, true},
		{"directory moved", func(t *mem.Tree) { t.Rename("d", "e") }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			tree := mem.NewTree().Files(map[string]string{"d/f": "before"})
			p := mem.New(tree, mem.Options{})
			e, err := p.Stat(t.Context(), "d/f")
			must.Do(t, err)
			c, err := p.Open(t.Context(), e)
			must.Do(t, err)
			r, err := c.Range(t.Context(), 0, 6)
			must.Do(t, err)
			row.change(tree)
			if err := c.Check(t.Context()); !errors.Is(err, mover.ErrChanged) {
				t.Errorf("check: %v", err)
			}
			got, err := io.ReadAll(r)
			if row.reads && string(got) != "before" || !row.reads && !errors.Is(err, mover.ErrChanged) {
				t.Errorf("read %q, %v", got, err)
			}
		})
	}
}

func TestTreesByHand(t *testing.T) {
	tree := mem.NewTree().
		Files(map[string]string{"a/b": "content", "empty/": ""}).
		Sparse("sparse", 100<<30, map[int64]string{50 << 30: "middle", 0: "begin"}).
		Link("a/b", "link").
		Put(mover.Entry{Name: "l", Kind: mover.Symlink, Target: "a", Known: mover.FactMtime, Mtime: mover.Time{Sec: 5}}, nil)
	p := mem.New(tree, mem.Options{})
	var names []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		names = append(names, e.Name)
	}
	if want := []string{"a", "a/b", "empty", "l", "link", "sparse"}; !slices.Equal(names, want) {
		t.Errorf("walk %q, want %q", names, want)
	}
	if got := backendtest.Read(t, p, "link"); string(got) != "content" {
		t.Errorf("link holds %q", got)
	}
	e, err := p.Stat(t.Context(), "sparse")
	if err != nil || e.Size != 100<<30 || e.Stored != 11 {
		t.Errorf("sparse is %d bytes, %d stored, %v", e.Size, e.Stored, err)
	}
	if want := []mover.Segment{{Start: 0, End: 5}, {Start: 50 << 30, End: 50<<30 + 6}}; !slices.Equal(e.Data, want) {
		t.Errorf("segments %v, want %v", e.Data, want)
	}
	if l, _ := p.Stat(t.Context(), "l"); l.Target != "a" || l.Mtime.Sec != 5 {
		t.Errorf("symlink %+v", l)
	}
}

// An object store needs no directory before its entries, and shows one all the same.
func TestObjectsImplyDirectories(t *testing.T) {
	tree := mem.NewTree()
	p := mem.New(tree, mem.Options{ObjectStore: true})
	e := mover.Entry{Name: "a/b/c", Kind: mover.File, Size: 1}
	backendtest.Put(t, p, e, []byte("x"))
	if d, err := p.Stat(t.Context(), "a"); err != nil || d.Kind != mover.Dir || d.Known != 0 {
		t.Errorf("implied directory %+v, %v", d, err)
	}
	c, err := p.Stat(t.Context(), "a/b/c")
	if err != nil || c.ETag == "" || c.Ino != 0 || c.Known != mover.FactCRC {
		t.Errorf("object %+v, %v", c, err)
	}
	must.Do(t, p.Remove(t.Context(), c, owner))
	if _, err := p.Stat(t.Context(), "a"); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("a directory without objects is there: %v", err)
	}
}

var owner = mover.WriterID{Task: "t", Epoch: 1}

func second[T any](_ T, err error) error { return err }

// TestPublishAgain: an answer that was lost can be asked for once more.
func TestPublishAgain(t *testing.T) {
	p := mem.New(nil, mem.Options{ObjectStore: true})
	e := mover.Entry{Name: "f", Kind: mover.File}
	d, err := p.Draft(t.Context(), e, mover.Hints{By: owner})
	if err == nil {
		err = d.Finish(t.Context(), e, nil)
	}
	must.Do(t, err)
	first := p.Publish(t.Context(), []mover.Draft{d})[0]
	if again := p.Publish(t.Context(), []mover.Draft{d})[0]; first.Err != nil || again != first {
		t.Errorf("published again: %+v, before: %+v", again, first)
	}
}
