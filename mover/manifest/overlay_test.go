package manifest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/backendtest"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/manifest"
	"datamove.dev/test/must"
)

// shelf is where a manifest lies.
type shelf struct{ body []byte }

func (s *shelf) open(context.Context) (io.ReadCloser, error) {
	if s.body == nil {
		return nil, fmt.Errorf("no manifest: %w", mover.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(s.body)), nil
}

func TestContract(t *testing.T) {
	for name, opts := range map[string]mem.Options{"posix": {}, "objects": {ObjectStore: true}} {
		t.Run(name, func(t *testing.T) {
			backendtest.Run(t, func(*testing.T) func() mover.Backend {
				tree := mem.NewTree()
				return func() mover.Backend { return manifest.Overlay(mem.New(tree, opts), new(shelf).open) }
			})
		})
	}
}

// store is a bucket in memory, with a manifest of what is in it and of what it can
// not keep.
func store(t *testing.T) (*mem.Tree, *shelf) {
	t.Helper()
	tree := mem.NewTree().Files(map[string]string{
		"dir/": "", "dir/one": "content", "dir/two": "content", "dir/script": "#!", "dir/sparse": "x", "dir/symlink": "../there", "gone/": "", "gone/x": "",
	})
	bucket := mem.New(tree, mem.Options{ObjectStore: true})
	var all []mover.Entry
	for listed, err := range bucket.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		e := must.Get(bucket.Stat(t.Context(), listed.Name))(t)
		all = append(all, richer(e))
	}
	for _, name := range []string{"a fifo", "dir/fifo", "dir/zz", "gone/fifo", "z"} {
		all = append(all, mover.Entry{Name: name, Kind: mover.FIFO, Mode: 0o600, Known: mover.FactMode})
	}
	root := must.Get(bucket.Stat(t.Context(), ""))(t)
	root.Mode |= 0o1000
	all = append(all, root)
	slices.SortFunc(all, func(a, b mover.Entry) int { return mover.Compare(&a, &b) })
	return tree, &shelf{write(t, time.Time{}, all)}
}

// richer gives e facts that a bucket can not keep.
func richer(e mover.Entry) mover.Entry {
	switch e.Name {
	case "dir":
		e.Mode |= 0o2000
	case "dir/one", "dir/two":
		e.Known, e.Nlink, e.Dev, e.Ino = e.Known|mover.FactLinks, 2, 3, 4
	case "dir/script":
		e.Mode |= 0o4000
		e.Known, e.Xattrs = e.Known|mover.FactXattrs, []mover.Xattr{{Name: "user.a", Value: []byte("b")}}
	case "dir/sparse":
		e.Known, e.Data = e.Known|mover.FactHoles, []mover.Segment{{Start: 0, End: 1}}
	case "dir/symlink": // a bucket lists it as a file
		e.Kind, e.Target, e.Size, e.Known = mover.Symlink, "../there", 0, e.Known&^mover.FactCRC
	}
	return e
}

func write(t *testing.T, created time.Time, all []mover.Entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := manifest.NewWriter(&b, manifest.Header{Created: created})
	for i := range all {
		err = errors.Join(err, w.Write(&all[i]))
	}
	if _, cerr := w.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return b.Bytes()
}

func open(tree *mem.Tree, s *shelf) mover.Backend {
	return manifest.Overlay(mem.New(tree, mem.Options{ObjectStore: true}), s.open)
}

func names(t *testing.T, entries iter.Seq2[mover.Entry, error]) string {
	t.Helper()
	var all []string
	for e, err := range entries {
		must.Do(t, err)
		all = append(all, e.Name)
	}
	return strings.Join(all, ", ")
}

func find(t *testing.T, p mover.Source, name string) mover.Entry {
	t.Helper()
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if e.Name == name {
			return e
		}
	}
	t.Fatalf("no %q", name)
	return mover.Entry{}
}

func TestFactsComeBack(t *testing.T) {
	p := open(store(t))
	if e := find(t, p, "dir"); e.Mode != 0o2755 || !e.Known.Has(mover.FactMtime) || e.Brief {
		t.Errorf("directory is %+v", e)
	}
	if e := find(t, p, "dir/script"); e.Mode != 0o4644 || len(e.Xattrs) != 1 || e.ETag == "" || e.Brief {
		t.Errorf("file is %+v", e)
	}
	if e := find(t, p, "dir/symlink"); e.Kind != mover.Symlink || e.Target != "../there" || e.Size != 0 {
		t.Errorf("link is %+v", e)
	}
	one, two, other := find(t, p, "dir/one"), find(t, p, "dir/two"), find(t, p, "dir/script")
	if one.Ino != two.Ino || one.Nlink != 2 || two.Nlink != 2 || one.Ino == 0 || other.Nlink != 1 {
		t.Errorf("links are %d of %d and %d of %d", one.Ino, one.Nlink, two.Ino, two.Nlink)
	}
	if root, err := p.Stat(t.Context(), ""); err != nil || root.Mode != 0o1755 {
		t.Errorf("root is %+v, %v", root, err)
	}
}

func TestOpenKeepsFacts(t *testing.T) {
	p := open(store(t))
	for _, name := range []string{"dir/script", "dir/sparse", "dir/fifo", "dir"} {
		e := find(t, p, name)
		c := must.Get(p.Open(t.Context(), e))(t)
		got := c.Entry()
		if got.Mode != e.Mode || !got.Known.Has(e.Known) || !reflect.DeepEqual(got.Xattrs, e.Xattrs) || got.Identity() != e.Identity() {
			t.Errorf("%s is %+v, and opened %+v", name, e, got)
		}
		must.Tell(t, c.Check(t.Context()))
		must.Tell(t, c.Close())
	}
	if got := backendtest.Read(t, p, "dir/one"); string(got) != "content" {
		t.Errorf("content is %q", got)
	}
}

func TestSegmentsOfTheManifest(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"f": strings.Repeat("\x00", 100)})
	bucket := mem.New(tree, mem.Options{ObjectStore: true})
	e := must.Get(bucket.Stat(t.Context(), "f"))(t)
	e.Known, e.Data = e.Known|mover.FactHoles, []mover.Segment{{Start: 10, End: 20}, {Start: 50, End: 60}}
	p := open(tree, &shelf{write(t, time.Time{}, []mover.Entry{e})})
	c := must.Get(p.Open(t.Context(), find(t, p, "f")))(t)
	defer c.Close()
	for off, want := range map[int64]mover.Segment{
		0: {Start: 10, End: 20}, 10: {Start: 10, End: 20}, 15: {Start: 15, End: 20}, 20: {Start: 50, End: 60}, 60: {Start: 100, End: 100}, 100: {Start: 100, End: 100},
	} {
		if got, err := c.Segment(off); err != nil || got != want {
			t.Errorf("behind %d is %v, %v; want %v", off, got, err, want)
		}
	}
}

// TestPlaceHasTheLastWord changes the bucket behind the manifest's back.
func TestPlaceHasTheLastWord(t *testing.T) {
	tree, s := store(t)
	tree.Files(map[string]string{"dir/script": "##", "dir/symlink": "content", "dir/new": "", "dir/zz": "now a file"})
	tree.Delete("gone/x")
	tree.Delete("gone")
	tree.Delete("dir/two")
	p := open(tree, s)
	if e := find(t, p, "dir/script"); e.Known.Has(mover.FactXattrs) || e.Mode&0o4000 != 0 || !e.Brief {
		t.Errorf("replaced file is %+v", e)
	}
	if e := find(t, p, "dir/symlink"); e.Kind != mover.File {
		t.Errorf("replaced link is %+v", e)
	}
	if e := find(t, p, "dir/zz"); e.Kind != mover.File {
		t.Errorf("what takes the place of a FIFO is %+v", e)
	}
	const want = "a fifo, dir, dir/fifo, dir/new, dir/one, dir/script, dir/sparse, dir/symlink, dir/zz, z"
	if got := names(t, p.Walk(t.Context(), mover.WalkOptions{})); got != want {
		t.Errorf("there are %s\nwant %s", got, want)
	}
}

func TestWalkOptions(t *testing.T) {
	p := open(store(t))
	for _, row := range []struct {
		opts mover.WalkOptions
		want string
	}{
		{mover.WalkOptions{Dir: "dir"}, "dir/fifo, dir/one, dir/script, dir/sparse, dir/symlink, dir/two, dir/zz"},
		{mover.WalkOptions{After: "dir/script"}, "dir/sparse, dir/symlink, dir/two, dir/zz, gone, gone/fifo, gone/x, z"},
		{mover.WalkOptions{Skip: func(name string, _ mover.Kind) bool { return name == "dir" || name == "z" }}, "a fifo, gone, gone/fifo, gone/x"},
	} {
		if got := names(t, p.Walk(t.Context(), row.opts)); got != row.want {
			t.Errorf("%+v: there are %s\nwant %s", row.opts, got, row.want)
		}
	}
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil || e.Name == "dir/fifo" {
			break
		}
	}
}

func TestOnlyListedCanBeRemoved(t *testing.T) {
	tree, s := store(t)
	p := open(tree, s)
	fifo := find(t, p, "dir/fifo")
	must.Tell(t, p.Update(t.Context(), fifo))
	must.Tell(t, p.Remove(t.Context(), fifo, mover.WriterID{Task: "t"}))
	gone := mover.Entry{Name: "nowhere", Kind: mover.File}
	if err := p.Remove(t.Context(), gone, mover.WriterID{Task: "t"}); !errors.Is(err, mover.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// byContent is a store that has a directory only while something is in it.
type byContent struct{ mover.Backend }

func (p byContent) Capabilities() mover.Capabilities {
	t := p.Backend.Capabilities()
	t.DirsByContent = true
	return t
}

// TestEmptyDirectories: of a store that can not have them, the manifest's are there,
// and can be opened, set and removed; of one that can, they are gone.
func TestEmptyDirectories(t *testing.T) {
	tree := mem.NewTree().Files(map[string]string{"a": "", "full/x": ""})
	var all []mover.Entry
	for _, name := range []string{"", "empty", "empty/inner", "full", "full/was"} {
		all = append(all, mover.Entry{Name: name, Kind: mover.Dir, Mode: 0o2750, Known: mover.FactMode})
	}
	s := &shelf{write(t, time.Time{}, all)}
	for _, row := range []struct {
		place mover.Backend
		want  []string
	}{
		{mem.New(tree, mem.Options{ObjectStore: true}), []string{"a", "full", "full/x"}},
		{byContent{mem.New(tree, mem.Options{ObjectStore: true})}, []string{"a", "empty", "empty/inner", "full", "full/was", "full/x"}},
	} {
		p := manifest.Overlay(row.place, s.open)
		var got []string
		for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
			must.Do(t, err)
			got = append(got, e.Name)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("there are %q, want %q", got, row.want)
		}
		_, err := p.Open(t.Context(), all[2])
		err = errors.Join(err, p.Update(t.Context(), all[2]), p.Remove(t.Context(), all[2], mover.WriterID{Task: "t"}))
		if there := slices.Contains(row.want, "empty/inner"); there != (err == nil) {
			t.Errorf("an empty directory that is there: %v: %v", there, err)
		}
	}
}

func TestDamagedManifestEndsTheWalk(t *testing.T) {
	tree, s := store(t)
	for n := range s.body {
		p := open(tree, &shelf{s.body[:n]})
		var last error
		for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
			if last != nil {
				t.Fatalf("%q after the error", e.Name)
			}
			last = err
		}
		if !errors.Is(last, mover.ErrCorrupt) {
			t.Fatalf("cut at %d: %v", n, last)
		}
	}
	refused := func(context.Context) (io.ReadCloser, error) { return nil, mover.ErrPermission }
	for _, err := range manifest.Overlay(mem.New(tree, mem.Options{}), refused).Walk(t.Context(), mover.WalkOptions{}) {
		if !errors.Is(err, mover.ErrPermission) {
			t.Errorf("a manifest that can not be read: %v", err)
		}
	}
}

// failing is a source of which one directory, or from there on all, can not be listed.
type failing struct {
	mover.Backend
	dir string
	end bool
}

func (f failing) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range f.Backend.Walk(ctx, opts) {
			if mover.Within(e.Name, f.dir) && e.Name != f.dir {
				continue
			}
			if !yield(e, err) {
				return
			}
			if e.Name != f.dir {
				continue
			}
			if f.end {
				e = mover.Entry{}
			}
			if !yield(e, io.ErrUnexpectedEOF) || f.end {
				return
			}
		}
	}
}

// TestUnlistedDirectory wants nothing of a directory that can not be listed, and
// nothing at all behind the end of a walk.
func TestUnlistedDirectory(t *testing.T) {
	for end, want := range map[bool]string{false: "a fifo, dir, !dir, gone, gone/fifo, gone/x, z", true: "a fifo, dir, !"} {
		tree, s := store(t)
		p := manifest.Overlay(failing{mem.New(tree, mem.Options{ObjectStore: true}), "dir", end}, s.open)
		var got []string
		for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
			if err != nil {
				e.Name = "!" + e.Name
			}
			got = append(got, e.Name)
		}
		if s := strings.Join(got, ", "); s != want {
			t.Errorf("there are %s\nwant %s", s, want)
		}
	}
}

// TestNested: below a directory with a manifest of its own that one counts, unless the one around it is newer and knows of the directory. Hard
// links of two manifests stay apart; one that can not be read is an error of its directory.
func TestNested(t *testing.T) {
	fifo := func(name string) mover.Entry {
		return mover.Entry{Name: name, Kind: mover.FIFO, Mode: 0o600, Known: mover.FactMode}
	}
	tree := mem.NewTree().Files(map[string]string{"a/": "", "a/x": "x", "a/y": "x", "a/in/": "", "a/in/x": "x", "b/": "", "b/x": "x", "b/y": "x", "c/": "", "c/x": "x"})
	bucket := mem.New(tree, mem.Options{ObjectStore: true})
	of := func(created time.Time, dir string, all ...mover.Entry) []byte {
		for i, e := range all {
			if e.Kind == mover.File {
				e = must.Get(bucket.Stat(t.Context(), mover.Join(dir, e.Name)))(t)
				e.Name = all[i].Name
				e.Known, e.Nlink, e.Dev, e.Ino = e.Known|mover.FactLinks, 2, 3, 4
				all[i] = e
			}
		}
		return write(t, created, all)
	}
	file := func(name string) mover.Entry { return mover.Entry{Name: name, Kind: mover.File} }
	long, now := time.Unix(1, 0), time.Unix(2, 0)
	folder := func(name string, mode uint32) mover.Entry {
		return mover.Entry{Name: name, Kind: mover.Dir, Mode: mode, Known: mover.FactMode}
	}
	manifests := map[string][]byte{
		"a":    of(now, "a", folder("", 0o2755), fifo("early"), fifo("in/outer"), file("x"), file("y"), fifo("z")),
		"a/in": of(now, "a/in", fifo("inner")),
		"b":    of(now, "b", file("x"), file("y")),
		"c":    of(long, "c", fifo("stale")),
	}
	root := of(now, "", fifo("a/old"), folder("c", 0o755), fifo("c/new"), fifo("d"))
	p := manifest.Nested(shelved{bucket, manifests}, (&shelf{root}).open, func(_ context.Context, dir string) (io.ReadCloser, error) {
		return (&shelf{manifests[dir]}).open(t.Context())
	})
	for _, row := range []struct {
		opts mover.WalkOptions
		want string
	}{
		{mover.WalkOptions{}, "a, a/early, a/in, a/in/inner, a/in/x, a/x, a/y, a/z, b, b/x, b/y, c, c/new, c/x, d"},
		{mover.WalkOptions{Dir: "a"}, "a/early, a/in, a/in/inner, a/in/x, a/x, a/y, a/z"},
		{mover.WalkOptions{Dir: "a/in"}, "a/in/inner, a/in/x"},
		{mover.WalkOptions{After: "a/in/inner"}, "a/in/x, a/x, a/y, a/z, b, b/x, b/y, c, c/new, c/x, d"},
		{mover.WalkOptions{After: "a/in/"}, "a/in/inner, a/in/x, a/x, a/y, a/z, b, b/x, b/y, c, c/new, c/x, d"},
		{mover.WalkOptions{After: "a/"}, "a/early, a/in, a/in/inner, a/in/x, a/x, a/y, a/z, b, b/x, b/y, c, c/new, c/x, d"},
		{mover.WalkOptions{Dir: "c"}, "c/new, c/x"},
	} {
		if got := names(t, p.Walk(t.Context(), row.opts)); got != row.want {
			t.Errorf("%+v:\n%s, want\n%s", row.opts, got, row.want)
		}
	}
	inodes := map[string]uint64{}
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		must.Do(t, err)
		if inodes[e.Name] = e.Ino; e.Name == "a" && e.Mode != 0o2755 {
			t.Errorf("the folder has mode %o", e.Mode)
		}
	}
	if inodes["a/x"] == 0 || inodes["a/x"] != inodes["a/y"] || inodes["b/x"] != inodes["b/y"] || inodes["a/x"] == inodes["b/x"] {
		t.Errorf("hard links: %v", inodes)
	}

	manifests["a"] = manifests["a"][:len(manifests["a"])/2]
	var all []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if all = append(all, e.Name); err != nil {
			all = append(all, "!")
		}
	}
	if got := strings.Join(all, " "); got != "a a ! a/in a/in/inner a/in/x a/old a/x a/y b b/x b/y c c/new c/x d" {
		t.Errorf("of a damaged one: %s", got)
	}
}

// shelved is a place whose walks tell of directories with manifests of their own.
type shelved struct {
	mover.Backend
	manifests map[string][]byte
}

func (p shelved) Walk(ctx context.Context, opts mover.WalkOptions) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for e, err := range p.Backend.Walk(ctx, opts) {
			if e.Shelf = p.manifests[e.Name] != nil; !yield(e, err) {
				return
			}
		}
	}
}
