package plan

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// tree reads names in any order: "d/" is a directory, "f" a file, "f=3" one of
// inode 3, of which there are two.
func tree(names ...string) *world {
	w := newWorld()
	for _, n := range names {
		n, ino, linked := strings.Cut(n, "=")
		name, dir := strings.CutSuffix(n, "/")
		e := mover.Entry{Name: name, Kind: mover.File, Known: plainKnown, Nlink: 1}
		if dir {
			e.Kind = mover.Dir
		}
		if linked {
			e.Dev, e.Ino, e.Nlink = 1, uint64(ino[0]), 2
		}
		w.entries[key(name, e.Kind)] = &e
	}
	return w
}

// TestDiff shows plans as they read.
func TestDiff(t *testing.T) {
	for _, row := range []struct {
		what           string
		o              Options
		source, target string
		want           string
	}{
		{"new", Options{}, "a b/ b/c", "", "create a, create b, create b/c"},
		{"gone, without delete", Options{}, "", "a b/ b/c", ""},
		{"gone", Options{Delete: true}, "", "a b/ b/c", "remove a, remove b, remove b/c"},
		{"the directory's times", Options{}, "a/ a/x a/y b/", "a/ b/", "keep a, create a/x, create a/y"},
		{"the times of the right directory", Options{}, "d/ d/a d/a-b/ d/a-b/c", "d/ d/a-b/ d/a-b/c", "keep d, create d/a"},
		{"file over directory", Options{}, "a", "a/ a/x", "conflict a"},
		{"file over directory, delete", Options{Delete: true}, "a a.txt", "a/ a/x", "create a.txt, create a, remove a, remove a/x"},
		{"directory over file", Options{}, "a.txt a/ a/x", "a a.txt", "create a, create a/x"},
		{"looking far for a directory", Options{Delete: true}, "a/", "a a! a!! a# a$", "remove a!, remove a!!, remove a#, remove a$, create a"},
		{"hard links", Options{}, "a=1 b=1", "", "create a, link b"},
		{"hard links, there", Options{}, "a=1 b=1", "a=1 b=1", ""},
		{"hard links, not linked there", Options{}, "a=1 b=1", "a b", "link b"},
		{"hard links, linked elsewhere", Options{}, "a=1 b=1 c=2 d=2", "a=1 b=2 c=1 d=2", "link b, link d"},
		{"hard links, not preserved", Options{Preserve: mover.FactMode}, "a=1 b=1", "", "create a, create b"},
		{"hard links, one group after the other", Options{MaxLinks: 1}, "a=1 b=1 c=2 d=2", "", "create a, link b, create c, link d"},
		{"too many hard links", Options{MaxLinks: 1}, "a=1 b=2 c=1 d=2", "", "create a, create b, link c, create d"},
	} {
		source, target := tree(strings.Fields(row.source)...), tree(strings.Fields(row.target)...)
		var got []string
		for _, a := range collect(t, Diff(source.walk(), target.walk(), row.o)) {
			got = append(got, a.Op.String()+" "+a.Name())
		}
		if s := strings.Join(got, ", "); s != row.want {
			t.Errorf("%s: %s\nwant %s", row.what, s, row.want)
		}
	}
}

func fails(after []mover.Entry, e mover.Entry, err error) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		for _, e := range after {
			if !yield(e, nil) {
				return
			}
		}
		yield(e, err)
	}
}

// TestFatalErrorsEnd wants nothing removed or created after a walk has ended badly.
func TestFatalErrorsEnd(t *testing.T) {
	broken := errors.New("gone")
	w := tree("a", "b", "c").sorted()
	for what, pair := range map[string][2]iter.Seq2[mover.Entry, error]{
		"source":              {fails(w[:1], mover.Entry{}, broken), walk(w)},
		"target":              {walk(w), fails(w[:1], mover.Entry{}, broken)},
		"target at once":      {walk(w), fails(nil, mover.Entry{}, broken)},
		"source's root":       {fails(nil, mover.Entry{Kind: mover.Dir}, broken), walk(w)},
		"source out of order": {walk([]mover.Entry{w[0], w[2], w[1]}), walk(w)},
		"source twice":        {walk([]mover.Entry{w[0], w[0]}), walk(w)},
		"target out of order": {walk(w), walk([]mover.Entry{w[0], w[2], w[1]})},
	} {
		var last error
		for a, err := range Diff(pair[0], pair[1], Options{Delete: true}) {
			if last != nil {
				t.Errorf("%s: %v %q after the error", what, a.Op, a.Name())
			}
			last = err
		}
		if last == nil {
			t.Errorf("%s: the error is lost", what)
		}
	}
}

// TestUnknownDirectory lets a directory of the target fail that the source has: it is told before anything of it is made, and
// why all of it is made again.
func TestUnknownDirectory(t *testing.T) {
	var got []string
	for a, err := range Diff(tree("a", "d/", "d/x", "e").walk(), fails(nil, mover.Entry{Name: "d", Kind: mover.Dir}, errors.New("input/output error")), Options{}) {
		what := a.Op.String() + " " + a.Name() + " (" + a.Why + ")"
		if err != nil {
			what = "error " + a.Name()
		}
		got = append(got, what)
	}
	if s, want := strings.Join(got, ", "), "create a (new), error d, create d (target unknown), create d/x (target unknown), create e (new)"; s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// TestUnknownFile lets a name of the source fail of which nobody knows what it is: a
// directory of that name is not removed either, and what is between may be.
func TestUnknownFile(t *testing.T) {
	broken := errors.New("input/output error")
	source := func(yield func(mover.Entry, error) bool) { yield(mover.Entry{Name: "a", Kind: mover.File}, broken) }
	var got []string
	for a, err := range Diff(source, tree("a-x", "a/", "a/x", "b").walk(), Options{Delete: true}) {
		if err == nil {
			got = append(got, a.Op.String()+" "+a.Name())
		}
	}
	if s := strings.Join(got, ", "); s != "remove a-x, remove b" {
		t.Errorf("%s", s)
	}
}

// TestLeaderIsReplaced has a target that changed while it was walked: the names of one
// inode do not look equal. All names of the source's content get the new one.
func TestLeaderIsReplaced(t *testing.T) {
	source, target := tree("a=1", "b=1"), tree("a=1", "b=1")
	target.entries["a"].Size = 7
	var got []string
	for _, a := range collect(t, Diff(source.walk(), target.walk(), Options{})) {
		got = append(got, a.Op.String()+" "+a.Name())
	}
	if s := strings.Join(got, ", "); s != "replace a, link b" {
		t.Errorf("%s", s)
	}
}

// TestTargetErrors creates again what can not be seen, and says so.
func TestTargetErrors(t *testing.T) {
	broken := errors.New("denied")
	target := func(yield func(mover.Entry, error) bool) {
		all := tree("a/", "b").sorted()
		_ = yield(all[0], nil) && yield(all[0], broken) && yield(all[1], nil)
	}
	var got []string
	for a, err := range Diff(tree("a/", "a/x", "b", "c").walk(), target, Options{}) {
		if err != nil {
			got = append(got, fmt.Sprintf("%v at %s", err, a.Target.Name))
		} else {
			got = append(got, fmt.Sprintf("%v %s (%s)", a.Op, a.Name(), a.Why))
		}
	}
	want := "denied at a; keep a (entries change); create a/x (target unknown); create c (new)"
	if s := strings.Join(got, "; "); s != want {
		t.Errorf("%s\nwant %s", s, want)
	}
}

// TestStopsReading breaks off at every action.
func TestStopsReading(t *testing.T) {
	source := tree("a/", "a/x", "b!", "b", "c=1", "d=1", "e/")
	target := tree("a/", "b/", "b/x", "b#", "e", "f")
	for n := range 20 {
		seen := 0
		for range Diff(source.walk(), target.walk(), Options{Delete: true}) {
			if seen++; seen > n {
				break
			}
		}
	}
}

// TestManyNamesBetween puts a hundred thousand names between a file and where a
// directory of its name would be: what waits must not grow with them.
//
//safety:8 what grows with names, holes and directories
func TestManyNamesBetween(t *testing.T) {
	between := func(yield func(mover.Entry, error) bool) {
		if !yield(mover.Entry{Name: "a", Kind: mover.File}, nil) {
			return
		}
		for i := range 100_000 {
			if !yield(mover.Entry{Name: fmt.Sprintf("a-%06d", i), Kind: mover.File}, nil) {
				return
			}
		}
	}
	only := walk([]mover.Entry{{Name: "a", Kind: mover.Dir}})
	for what, pair := range map[string][2]iter.Seq2[mover.Entry, error]{
		"source": {between, only},
		"target": {only, between},
	} {
		m := merge{Options: Options{Delete: true}}
		m.yield = func(Action, error) bool {
			if len(m.waiting) > 2 || len(m.files) > 2 {
				t.Fatalf("%s: %d wait, %d are remembered", what, len(m.waiting), len(m.files))
			}
			return true
		}
		next, stop := iter.Pull2(pair[1])
		m.next = next
		if !m.pull() {
			t.Fatal("no target")
		}
		for e, err := range pair[0] {
			must.Do(t, err)
			if !m.source(&e) {
				t.Fatal("stopped")
			}
		}
		m.finish()
		stop()
	}
}

func TestTotals(t *testing.T) {
	var sum Totals
	source := tree("a/", "a/x", "b=1", "c=1", "d")
	source.entries["a/x"].Size = 1 << 20
	source.entries["d"].Mode = 1
	target := tree("d", "e")
	target.entries["e"].Size = 2000
	for _, a := range collect(t, Diff(source.walk(), target.walk(), Options{Delete: true})) {
		sum.Add(&a)
	}
	want := Totals{Files: 2, Bytes: 1 << 20, Dirs: 1, Links: 1, Updates: 1, Removes: 1, RemoveBytes: 2000}
	if sum != want || sum.Changes() != 6 {
		t.Errorf("totals are %+v\nwant %+v", sum, want)
	}
}

func BenchmarkDiffUnchanged(b *testing.B) {
	entries := make([]mover.Entry, 0, 100_100)
	for d := range 100 {
		dir := fmt.Sprintf("dir-%04d", d)
		entries = append(entries, mover.Entry{Name: dir, Kind: mover.Dir, Known: plainKnown})
		for f := range 1000 {
			entries = append(entries, mover.Entry{Name: fmt.Sprintf("%s/file-%06d", dir, f), Kind: mover.File, Known: plainKnown, Nlink: 1})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for a, err := range Diff(walk(entries), walk(entries), Options{}) {
			b.Fatal(a.Name(), err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/entry")
}

func BenchmarkDiffNew(b *testing.B) {
	entries := make([]mover.Entry, 100_000)
	for f := range entries {
		entries[f] = mover.Entry{Name: fmt.Sprintf("file-%06d", f), Kind: mover.File, Known: plainKnown, Nlink: 1}
	}
	b.ReportAllocs()
	for b.Loop() {
		for range Diff(walk(entries), walk(nil), Options{}) {
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(entries)), "ns/entry")
}
