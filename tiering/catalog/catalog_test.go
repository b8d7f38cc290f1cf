package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	_ "datamove.dev/test/seed/property" // of rapid
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
)

var project = catalog.Tree{Tier: "project"}

func open(t testing.TB, dir string) *catalog.Catalog {
	t.Helper()
	c := must.Get(catalog.Open(dir, catalog.Options{}))(t)
	return c
}

func fresh(t testing.TB) *catalog.Catalog {
	c := open(t, t.TempDir())
	t.Cleanup(func() { must.Do(t, c.Close()) })
	return c
}

// helper is what rapid and testing have in common.
type helper interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// entries are all of a walk, without when they were seen.
func entries(t helper, src catalog.Source) (all []dataset.File) {
	t.Helper()
	for e, err := range src.Walk(context.Background(), mover.WalkOptions{}) {
		must.Do(t, err)
		all = append(all, dataset.FileOf(&e, 0))
	}
	return all
}

// known is what the catalog has of a tree, without when it was seen, in its order and, read side by side, in none.
func known(t helper, c *catalog.Catalog, tree catalog.Tree) (all []dataset.File) {
	t.Helper()
	for f, err := range c.Below(context.Background(), tree, "") {
		must.Do(t, err)
		f.Seen = 0
		all = append(all, f)
	}
	var mu sync.Mutex
	beside := map[string]dataset.File{}
	err := c.Each(context.Background(), tree, 3, func(_ int, files []dataset.File) error {
		mu.Lock()
		defer mu.Unlock()
		for _, f := range files {
			f.Seen = 0
			key := fmt.Sprint(f.Name(), f.Kind == mover.Dir)
			if _, twice := beside[key]; twice {
				return fmt.Errorf("%s comes twice", f.Name())
			}
			beside[key] = f
		}
		return nil
	})
	must.Do(t, err)
	for _, f := range all {
		if beside[fmt.Sprint(f.Name(), f.Kind == mover.Dir)] != f {
			t.Fatalf("in its order %+v, and else %+v", f, beside[f.Name()])
		}
	}
	if len(beside) != len(all) {
		t.Fatalf("in its order %d entries, and else %d", len(all), len(beside))
	}
	return all
}

func equal(t helper, c *catalog.Catalog, tree catalog.Tree, src catalog.Source) {
	t.Helper()
	want, got := entries(t, src), known(t, c, tree)
	for i := range max(len(want), len(got)) {
		switch {
		case i >= len(got):
			t.Fatalf("%d entries of %d: there is no %+v", len(got), len(want), want[i])
		case i >= len(want):
			t.Fatalf("%d entries, and there are %d: %+v", len(got), len(want), got[i])
		case got[i] != want[i]:
			t.Fatalf("%+v\nis known as\n%+v", want[i], got[i])
		}
	}
}

// scan scans all of it.
func scan(t helper, c *catalog.Catalog, src catalog.Source) catalog.Tally {
	t.Helper()
	tally := must.Get(c.Scan(context.Background(), project, src, catalog.ScanOptions{}))(t)
	return tally
}

// part scans the next part, and says whether it was the last one of a round.
func part(t helper, c *catalog.Catalog, src catalog.Source, n int) bool {
	t.Helper()
	state, err := c.State(project)
	if err == nil {
		_, err = c.Scan(context.Background(), project, src, catalog.ScanOptions{Part: n, From: state.Rolled})
	}
	if err == nil {
		state, err = c.State(project)
	}
	must.Do(t, err)
	return state.Rolled == ""
}

// What a scan found is what a walk yields; a second one changes nothing, and a third one sees what happened.
func TestScan(t *testing.T) {
	tree := mem.NewTree()
	random := rand.New(rand.NewPCG(1, 1))
	for i := range 5000 {
		name := fmt.Sprintf("d%d/e%d/f%04d", random.IntN(5), random.IntN(10)*random.IntN(10), i)
		tree.Put(mover.Entry{Name: name, Kind: mover.File, Mode: 0o640, Known: mover.FactMode | mover.FactMtime, Mtime: mover.Time{Sec: 1.7e9 + int64(i)}}, make([]byte, i))
	}
	for i := range 1234 { // a folder of many pages
		tree.Put(mover.Entry{Name: fmt.Sprintf("many/%05d", i*7%1234), Kind: mover.File}, nil)
	}
	tree.Put(mover.Entry{Name: "empty", Kind: mover.Dir}, nil)
	tree.Put(mover.Entry{Name: "empty-not", Kind: mover.File}, []byte("x")) // sorts before "empty/"
	src := mem.New(tree, mem.Options{})
	c := fresh(t)

	tally := scan(t, c, src)
	if tally.Files != 6235 || tally.Bytes != 4999*5000/2+1 {
		t.Errorf("%+v", tally)
	}
	equal(t, c, project, src)
	state := must.Get(c.State(project))(t)
	if state.Scanned.IsZero() || !state.Began.IsZero() || state.Scan != tally {
		t.Errorf("%+v", state)
	}

	scan(t, c, src)
	equal(t, c, project, src)

	for i := 0; i < 1234; i += 3 {
		tree.Delete(fmt.Sprintf("many/%05d", i))
	}
	tree.Rename("d1", "many/d1")
	tree.Delete("empty-not")
	tree.Put(mover.Entry{Name: "empty-not/x", Kind: mover.File}, nil)
	scan(t, c, src)
	equal(t, c, project, src)
}

// cut is a source whose walk ends in the middle.
type cut struct {
	catalog.Source
	after int
}

var errCut = errors.New("the walk was cut")

func (c cut) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		n := 0
		for e, err := range c.Source.Walk(ctx, o) {
			if n++; n > c.after {
				yield(mover.Entry{}, errCut)
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

func (c cut) Stat(ctx context.Context, name string) (mover.Entry, error) {
	return c.Source.Stat(ctx, name)
}

// A directory that a scan has found, and not read to its end, is read by the next look at it, or in it.
//
//safety:4 with TestKill
func TestLookAfterCut(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/1": "", "z": ""})
	src := mem.New(tree, mem.Options{ObjectStore: true}) // whose directories are nothing by themselves
	c := fresh(t)
	scan(t, c, src)
	before := must.Get(c.State(project))(t)
	for i := range 3000 {
		tree.Files(map[string]string{fmt.Sprintf("new/d%04d/f", i): ""})
	}
	if _, err := c.Scan(t.Context(), project, cut{src, 4000}, catalog.ScanOptions{}); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	state := must.Get(c.State(project))(t)
	if !state.Scanned.Equal(before.Scanned) || state.Began.IsZero() {
		t.Errorf("%+v", state)
	}
	must.Do(t, c.Look(t.Context(), project, src, []string{"new/d2999/f"}, catalog.Mark{}))
	names := func(files []dataset.File) (all []string) {
		for _, f := range files {
			all = append(all, f.Name())
		}
		return all
	}
	if got, want := names(known(t, c, project)), names(entries(t, src)); !slices.Equal(got, want) {
		t.Errorf("%d entries, and there are %d", len(got), len(want))
	}
}

// When an entry was first seen stays, whatever happens to it; who comes back is new.
func TestSeen(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/old": "1", "a/changed": "1", "a/gone": "1"})
	src := mem.New(tree, mem.Options{})
	c := fresh(t)
	at := func(day int) time.Time { return time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC) }
	again := func(day int) {
		_, err := c.Scan(t.Context(), project, src, catalog.ScanOptions{Now: at(day)})
		must.Do(t, err)
	}
	_, err := c.Scan(t.Context(), project, mem.New(mem.NewTree(), mem.Options{}), catalog.ScanOptions{Now: at(0)}) // or it would be older
	must.Do(t, err)
	again(1)
	tree.Files(map[string]string{"a/changed": "22", "a/new": "1"})
	tree.Delete("a/gone")
	again(2)
	tree.Files(map[string]string{"a/gone": "1"})
	again(3)
	for name, day := range map[string]int{"a/old": 1, "a/changed": 1, "a/new": 2, "a/gone": 3} {
		f := must.Get(c.Get(project, name))(t)
		if got := time.Unix(f.Seen, 0); !got.Equal(at(day)) {
			t.Errorf("%s was first seen %v, and not on day %d", name, got, day)
		}
	}
	if _, err := c.Get(project, "a/none"); !errors.Is(err, mover.ErrNotExist) {
		t.Error(err)
	}
}

// told is a source that has what it is told.
type told []mover.Entry

func (s told) Walk(context.Context, mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for _, e := range s {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (s told) Stat(context.Context, string) (mover.Entry, error) {
	return mover.Entry{}, mover.ErrNotExist
}

// In its first scan a tree is as old as what nobody can set says; what comes later is seen first when it is.
func TestFirstScan(t *testing.T) {
	const now = 1_800_000_000
	file := func(name string, known mover.Facts, mtime, ctime int64) mover.Entry {
		return mover.Entry{Name: name, Kind: mover.File, Known: known, Mtime: mover.Time{Sec: mtime}, Ctime: mover.Time{Sec: ctime}}
	}
	first := told{
		file("inode", mover.FactMtime|mover.FactCtime, now-900, now-500),
		file("none", 0, 0, 0),
		file("object", 0, now-700, 0),
		file("synced", mover.FactMtime, now-900, 0), // somebody has said so
		file("tomorrow", mover.FactCtime, 0, now+50),
	}
	c := fresh(t)
	for i, src := range []told{first, append(slices.Clone(first), file("young", mover.FactCtime, 0, now-300))} {
		_, err := c.Scan(t.Context(), project, src, catalog.ScanOptions{Now: time.Unix(now+100*int64(i), 0)})
		must.Do(t, err)
	}
	for name, at := range map[string]int64{"inode": now - 500, "none": now, "object": now - 700, "synced": now, "tomorrow": now, "young": now + 100} {
		f := must.Get(c.Get(project, name))(t)
		if f.Seen != at {
			t.Errorf("%s was first seen %d s after now", name, f.Seen-now)
		}
	}
}

// The same as TestScan, with anything happening between scans of parts and looks at what happened.
func TestModel(t *testing.T) {
	most := 220 // files of a directory: more than two pages
	if seed.Soak() {
		most = 450
	}
	rapid.Check(t, func(rt *rapid.T) {
		c := open(t, t.TempDir())
		defer func() { must.Do(t, c.Close()) }()
		tree := mem.NewTree()
		src := mem.New(tree, mem.Options{})
		tree.Files(map[string]string{"first": "1"})
		scan(rt, c, src)
		there := func() []string {
			var names []string
			for _, f := range entries(rt, src) {
				names = append(names, f.Name())
			}
			return names
		}
		segment := rapid.SampledFrom([]string{"a", "b", "a-", "a.", "c", "aa"})
		name := rapid.Custom(func(t *rapid.T) string {
			return path.Join(rapid.SliceOfN(segment, 1, 4).Draw(t, "segments")...)
		})
		touched := map[string]bool{}
		touch := func(names ...string) {
			for _, n := range names {
				touched[n] = true
			}
		}
		free := func(n string) bool { // no file is above it, and nothing is there
			for p := n; p != "."; p = path.Dir(p) {
				if e, err := src.Stat(t.Context(), p); err == nil && (p == n || e.Kind != mover.Dir) {
					return false
				}
			}
			return true
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				if n := name.Draw(rt, "name"); free(n) {
					tree.Files(map[string]string{n: rapid.StringN(0, 5, -1).Draw(rt, "content")})
					touch(n)
				}
			},
			"many": func(rt *rapid.T) {
				dir := name.Draw(rt, "dir")
				if !free(dir + "/x") {
					return
				}
				for i := range rapid.IntRange(1, most).Draw(rt, "files") {
					n := fmt.Sprintf("%s/%03d", dir, i)
					if free(n) {
						tree.Files(map[string]string{n: ""})
						touch(n)
					}
				}
			},
			"delete": func(rt *rapid.T) {
				if names := there(); len(names) > 1 {
					n := rapid.SampledFrom(names).Draw(rt, "name")
					tree.Delete(n)
					touch(n)
				}
			},
			"rename": func(rt *rapid.T) {
				names := there()
				if len(names) == 0 {
					return
				}
				old, n := rapid.SampledFrom(names).Draw(rt, "old"), name.Draw(rt, "new")
				if free(n) && !mover.Within(n, old) {
					tree.Rename(old, n)
					touch(old, n+"/")
				}
			},
			"part": func(rt *rapid.T) {
				if len(there()) > 0 {
					part(rt, c, src, rapid.IntRange(1, most*2/3).Draw(rt, "part"))
				}
			},
			"round": func(rt *rapid.T) {
				if len(there()) == 0 {
					return
				}
				for rounds := 0; rounds < 2; { // the first may have begun before something happened
					if part(rt, c, src, rapid.IntRange(1, most*2/3).Draw(rt, "part")) {
						rounds++
					}
				}
				equal(rt, c, project, src)
			},
			"look": func(rt *rapid.T) {
				mark := catalog.Mark{Feed: "f", Value: []byte(fmt.Sprint(len(touched)))}
				must.Do(t, c.Look(t.Context(), project, src, slices.Collect(maps.Keys(touched)), mark))
				clear(touched)
				equal(rt, c, project, src)
				if got, err := c.Mark(project, "f"); err != nil || string(got.Value) != string(mark.Value) {
					rt.Fatalf("mark %s, %v", got.Value, err)
				}
			},
			"scan": func(rt *rapid.T) {
				if len(there()) == 0 {
					return
				}
				scan(rt, c, src)
				clear(touched)
				equal(rt, c, project, src)
			},
		})
	})
}

// TestReplacedInPart: a directory that has become another one is looked at as a whole, also when a part of a scan has just seen that it is another.
func TestReplacedInPart(t *testing.T) {
	for taken := 1; taken <= 5; taken++ { // the directory, and what is in it
		tree := mem.NewTree().Files(map[string]string{"a/1": "", "a/2": "", "a/3": "", "a/4": "", "b": ""})
		src := mem.New(tree, mem.Options{})
		c := fresh(t)
		scan(t, c, src)
		tree.Delete("a")
		tree.Files(map[string]string{"a/1": "", "a/3": ""})
		part(t, c, src, taken)
		must.Do(t, c.Look(t.Context(), project, src, []string{"a", "a/1", "a/3"}, catalog.Mark{}))
		equal(t, c, project, src)
	}
}

// TestTurnedBetweenParts: where a file at which a part of a scan ended is a directory when the next one begins, that is known as it is, and so is what sorts between the two.
func TestTurnedBetweenParts(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a": "", "a-": "", "a./1": "", "b": ""})
	src := mem.New(tree, mem.Options{})
	c := fresh(t)
	scan(t, c, src)
	part(t, c, src, 1)
	tree.Delete("a")
	tree.Files(map[string]string{"a/c/d": ""})
	must.Do(t, c.Look(t.Context(), project, src, []string{"a", "a/c", "a/c/d"}, catalog.Mark{}))
	for range 6 {
		part(t, c, src, 1)
		equal(t, c, project, src)
	}
}

// fill scans a thousand files.
func fill(t testing.TB, c *catalog.Catalog) {
	t.Helper()
	tree := mem.NewTree()
	for i := range 1000 {
		tree.Files(map[string]string{fmt.Sprintf("d%d/f%04d", i%10, i): "x"})
	}
	_, err := c.Scan(t.Context(), project, mem.New(tree, mem.Options{}), catalog.ScanOptions{})
	must.Do(t, err)
}

// broken is a source of which some directories can not be read.
type broken struct {
	catalog.Source
	dirs map[string]error
}

func (b broken) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range b.Source.Walk(ctx, o) {
			below := false
			for dir := range b.dirs {
				below = below || mover.Within(e.Name, dir) && e.Name != dir
			}
			if below {
				continue
			}
			if !yield(e, err) {
				return
			}
			if failed := b.dirs[e.Name]; failed != nil && !yield(mover.Entry{Name: e.Name, Kind: e.Kind}, failed) {
				return
			}
		}
	}
}

// Of a directory that can not be read nothing new is known, and nothing is gone.
//
//safety:4 with TestEmpty
func TestUnread(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/1": "", "a/2": "", "b/1": "", "b/c/2": "", "d": ""})
	src := mem.New(tree, mem.Options{})
	c := fresh(t)
	scan(t, c, src)
	tree.Delete("a/1")
	tree.Delete("b/1")
	tree.Delete("d")
	tally, err := c.Scan(t.Context(), project, broken{src, map[string]error{"b": mover.ErrPermission}}, catalog.ScanOptions{})
	must.Do(t, err)
	if tally.Unread != 1 {
		t.Errorf("%+v", tally)
	}
	var names []string
	for f, err := range c.Below(t.Context(), project, "") {
		must.Do(t, err)
		names = append(names, f.Name())
	}
	if want := []string{"a", "a/2", "b", "b/1", "b/c", "b/c/2"}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	state, err := c.State(project)
	must.Do(t, err)
	if !slices.Equal(state.Unread, []string{"b"}) {
		t.Errorf("%q", state.Unread)
	}
	scan(t, c, src)
	equal(t, c, project, src)
	if state, err = c.State(project); err != nil || len(state.Unread) > 0 {
		t.Errorf("%q, %v", state.Unread, err)
	}
}

// flat is a source that has names, and not what is above them.
type flat struct{ catalog.Source }

func (f flat) Walk(ctx context.Context, o mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range f.Source.Walk(ctx, o) {
			if e.Kind != mover.Dir && !yield(e, err) {
				return
			}
		}
	}
}

// Where a source has no directories there are those that its names speak of.
func TestFlat(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a/b/c/1": "", "a/b/2": "", "a/d/e/3": "", "a-/4": "", "5": ""})
	c := fresh(t)
	for range 2 {
		scan(t, c, flat{mem.New(tree, mem.Options{})})
		var names []string
		for f, err := range c.Below(t.Context(), project, "") {
			must.Do(t, err)
			names = append(names, f.Name())
		}
		if want := []string{"5", "a-", "a-/4", "a", "a/b", "a/b/2", "a/b/c", "a/b/c/1", "a/d", "a/d/e", "a/d/e/3"}; !slices.Equal(names, want) {
			t.Fatalf("%q", names)
		}
	}
}

// A tree that is suddenly empty is not believed: nothing may be mounted there.
//
//safety:4 a tier that is suddenly empty, a directory that can not be read, a walk that is cut or made up on its way: nothing of it is believed to be gone
func TestEmpty(t *testing.T) {
	c := fresh(t)
	empty := mem.New(nil, mem.Options{})
	scan(t, c, empty) // it has never had anything
	full := mem.New(mem.NewTree().Files(map[string]string{"a/1": ""}), mem.Options{})
	scan(t, c, full)
	if _, err := c.Scan(t.Context(), project, empty, catalog.ScanOptions{}); !errors.Is(err, mover.ErrRefused) {
		t.Fatal(err)
	}
	equal(t, c, project, full)
	must.Do(t, c.Forget(t.Context(), project))
	if trees, err := c.Trees(); err != nil || len(trees) > 0 {
		t.Errorf("%+v, %v", trees, err)
	}
	scan(t, c, empty)
}

// A walk that ends in the middle leaves what it saw, and the tree counts as not scanned.
func TestInterrupted(t *testing.T) {
	tree := mem.NewTree()
	for i := range 20_000 {
		tree.Files(map[string]string{fmt.Sprintf("d%02d/f%05d", i%50, i): ""})
	}
	src := mem.New(tree, mem.Options{})
	c := fresh(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("stop")
	_, err := c.Scan(ctx, project, src, catalog.ScanOptions{Seen: func(catalog.Tally) { cancel(stop) }})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	state, err := c.State(project)
	must.Do(t, err)
	if !state.Scanned.IsZero() {
		t.Errorf("%+v", state)
	}
	tree.Delete("d07") // which may be known by now, and its directory not
	scan(t, c, src)
	equal(t, c, project, src)
}
