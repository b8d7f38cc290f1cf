package plan

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	_ "datamove.dev/test/seed/property" // of rapid
)

func genOptions(t *rapid.T) Options {
	draw := rapid.Bool()
	return Options{
		Delete:    draw.Draw(t, "delete"),
		Full:      draw.Draw(t, "full"),
		CompareBy: rapid.SampledFrom([]CompareBy{ByTime, ByContent}).Draw(t, "compared by"),
		Keeps:     draw.Draw(t, "keeps"),
	}
}

func collect(t interface{ Fatalf(string, ...any) }, actions iter.Seq2[Action, error]) []Action {
	var all []Action
	for a, err := range actions {
		if err != nil {
			t.Fatalf("diff: %v", err)
		}
		all = append(all, a)
	}
	return all
}

// TestPlanMakesEqual holds the plan to its promise: done, it makes the target equal
// to the source with Delete, and a superset without.
//
//safety:9 with mover/engine/transfer TestAnyTree
func TestPlanMakesEqual(t *testing.T) { rapid.Check(t, planMakesEqual) }

//safety:4 with TestErrorsProtect
func FuzzPlanMakesEqual(f *testing.F) { f.Fuzz(rapid.MakeFuzz(planMakesEqual)) }

func planMakesEqual(t *rapid.T) {
	both := rapid.Bool().Draw(t, "both")
	source, target := genWorld(t, "source", both), genWorld(t, "target", both)
	o := genOptions(t)
	o.Both = both
	before := target.sorted()

	actions := collect(t, Diff(source.walk(), target.walk(), o))
	if err := target.apply(actions, resolver(&o)); err != nil {
		t.Fatalf("%v\n%s", err, say(actions))
	}
	conflicts := inConflict(actions)
	checkHas(t, source, target, conflicts, actions)
	checkLeft(t, source, target, before, o.Delete, actions)

	o.Full, o.CompareBy = false, ByTime
	for _, a := range collect(t, Diff(source.walk(), target.walk(), o)) {
		if a.Op != Keep && a.Op != Conflict {
			t.Fatalf("a second run would %v %q: %s\n%s", a.Op, a.Name(), a.Why, say(actions))
		}
	}
}

// resolver looks at the contents: equal mtimes stand for equal contents.
func resolver(o *Options) func(Action) Action {
	return func(a Action) Action {
		s, t := a.Source, a.Target
		s.Known |= mover.FactCRC
		t.Known |= mover.FactCRC
		s.CRC, t.CRC = uint64(s.Mtime.Nsec), uint64(t.Mtime.Nsec)
		return o.Resolve(a, s, t)
	}
}

func inConflict(actions []Action) map[string]bool {
	names := map[string]bool{}
	for _, a := range actions {
		if a.Op == Conflict {
			names[key(a.Source.Name, a.Source.Kind)] = true
		}
	}
	return names
}

// checkHas wants all of the source in the target, but for conflicts.
func checkHas(t *rapid.T, source, target *world, conflicts map[string]bool, actions []Action) {
	inodes := map[uint64]uint64{}
	for _, s := range source.sorted() {
		k := key(s.Name, s.Kind)
		if conflicts[k] {
			continue
		}
		got := target.entries[k]
		if got == nil {
			t.Fatalf("%q is missing\n%s", s.Name, say(actions))
		}
		if facts(got) != facts(&s) {
			t.Fatalf("it is   %s\nwant it %s\n%s", facts(got), facts(&s), say(actions))
		}
		if s.Kind == mover.Dir || s.Nlink < 2 {
			continue
		}
		if ino, ok := inodes[s.Ino]; ok && ino != got.Ino {
			t.Fatalf("%q is not linked to the other names of its content\n%s", s.Name, say(actions))
		}
		inodes[s.Ino] = got.Ino
	}
}

// checkLeft wants nothing else in the target with Delete, and all that was there
// without, as long as nothing of another kind took its place.
func checkLeft(t *rapid.T, source, target *world, before []mover.Entry, deleted bool, actions []Action) {
	for _, e := range before {
		k := key(e.Name, e.Kind)
		has, wanted := target.entries[k] != nil, source.entries[k] != nil
		replaced := source.entries[e.Name] != nil || source.entries[e.Name+"/"] != nil
		if deleted && has && !wanted {
			t.Fatalf("%q is left\n%s", e.Name, say(actions))
		}
		if !deleted && !has && !replaced {
			t.Fatalf("%q is gone\n%s", e.Name, say(actions))
		}
	}
}

func say(actions []Action) string {
	var b strings.Builder
	for _, a := range actions {
		fmt.Fprintf(&b, "  %-8v %-9v %q (%s) %s\n", a.Op, a.Kind(), a.Name(), a.Why, a.Link)
	}
	return b.String()
}

// TestOrder wants each name once, directories first, and every action before the
// place where the directory of its name would be.
func TestOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		both := rapid.Bool().Draw(t, "both")
		source, target := genWorld(t, "source", both), genWorld(t, "target", both)
		o := genOptions(t)
		o.Both = both
		actions := collect(t, Diff(source.walk(), target.walk(), o))

		made := map[string]bool{}
		latest := place{}
		for _, a := range actions {
			k := key(a.Name(), a.Kind())
			switch a.Op {
			case Create, Replace, Link, Update, Conflict:
				if made[k] {
					t.Fatalf("%q is made twice\n%s", a.Name(), say(actions))
				}
				made[k] = true
			}
			if a.Why == WhyChildren {
				continue // where the first change in it stands
			}
			if latest.kind != 0 && mover.CompareNames(latest.name, latest.kind == mover.Dir, a.Name(), true) > 0 {
				t.Fatalf("%q comes behind %q\n%s", a.Name(), latest.name, say(actions))
			}
			if e := (mover.Entry{Name: a.Name(), Kind: a.Kind()}); latest.before(&e) {
				latest = placeOf(&e)
			}
		}
	})
}

// TestKeptDirectories wants every directory whose entries change among the actions
// before the first of these changes.
func TestKeptDirectories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, target := genWorld(t, "source", false), genWorld(t, "target", false)
		o := genOptions(t)
		told := map[string]bool{"": true}
		actions := collect(t, Diff(source.walk(), target.walk(), o))
		for _, a := range actions {
			if a.Kind() == mover.Dir {
				told[a.Name()] = true
			}
			dir, _ := mover.Parent(a.Name())
			if s, d := source.entries[dir+"/"], target.entries[dir+"/"]; changesParent(&a) && s != nil && d != nil && !told[dir] {
				t.Fatalf("%q changes and was not told\n%s", dir, say(actions))
			}
		}
	})
}

func TestSameTreeIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		both := rapid.Bool().Draw(t, "both")
		w := genWorld(t, "tree", both)
		o := Options{Keeps: true, Delete: true, Both: both}
		actions := collect(t, Diff(w.walk(), w.walk(), o))
		if len(actions) != len(w.entries) {
			t.Fatalf("%d actions for %d entries", len(actions), len(w.entries))
		}
		for _, a := range actions {
			if a.Op != Keep {
				t.Fatalf("%q: %v (%s)", a.Name(), a.Op, a.Why)
			}
		}
		o.Keeps = false
		if actions = collect(t, Diff(w.walk(), w.walk(), o)); len(actions) != 0 {
			t.Fatalf("actions:\n%s", say(actions))
		}
	})
}

// TestBothKindsInSource gives a target that can not have both a source that has.
func TestBothKindsInSource(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, target := genWorld(t, "source", true), genWorld(t, "target", false)
		o := genOptions(t)
		actions := collect(t, Diff(source.walk(), target.walk(), o))
		if err := target.apply(actions, resolver(&o)); err != nil {
			t.Fatalf("%v\n%s", err, say(actions))
		}
		conflicts := inConflict(actions)
		checkHas(t, source, target, conflicts, actions)
		for _, e := range source.sorted() {
			if e.Kind != mover.Dir && source.entries[e.Name+"/"] != nil && !below(conflicts, e.Name) {
				t.Fatalf("no conflict about %q\n%s", e.Name, say(actions))
			}
		}
		if conflict := slices.ContainsFunc(actions, func(a Action) bool { return a.Op == Conflict }); conflict {
			for _, e := range source.sorted() {
				if target.entries[e.Name] == nil && target.entries[e.Name+"/"] == nil && !below(conflicts, e.Name) {
					t.Fatalf("%q is neither there nor in conflict\n%s", e.Name, say(actions))
				}
			}
		}
	})
}

// below reports whether name, a directory that it is in, or its twin is in conflict.
func below(conflicts map[string]bool, name string) bool {
	for dir := name; dir != ""; dir, _ = mover.Parent(dir) {
		if conflicts[dir] || conflicts[dir+"/"] {
			return true
		}
	}
	return false
}

// TestErrorsProtect lets directories of the source fail: nothing at or below them
// may be removed.
//
//safety:4 below a name that could not be listed nothing is removed
func TestErrorsProtect(t *testing.T) {
	broken := errors.New("input/output error")
	rapid.Check(t, func(t *rapid.T) {
		source, target := genWorld(t, "source", false), genWorld(t, "target", false)
		o := genOptions(t)
		o.Delete = true
		failing := map[string]bool{}
		for _, e := range source.sorted() {
			if e.Kind == mover.Dir && rapid.IntRange(0, 3).Draw(t, "fails") == 0 {
				failing[e.Name] = true
			}
		}
		walk := failingWalk(source.sorted(), failing, rapid.Bool().Draw(t, "told before"), broken)
		failures, expected := 0, 0
		for range walk {
			expected++
		}
		for a, err := range Diff(walk, target.walk(), o) {
			if err != nil {
				if !errors.Is(err, broken) || !failing[a.Source.Name] {
					t.Fatalf("error %v about %q", err, a.Source.Name)
				}
				failures++
				continue
			}
			for dir := range failing {
				if a.Op == Remove && mover.Within(a.Name(), dir) {
					t.Fatalf("%q is removed, and %q failed", a.Name(), dir)
				}
			}
		}
		for _, err := range walk {
			if err == nil {
				expected--
			}
		}
		if failures != expected {
			t.Fatalf("%d failures passed through, of %d", failures, expected)
		}
	})
}

// failingWalk yields an error in the place of what failing directories contain,
// behind the directory itself if told.
func failingWalk(entries []mover.Entry, failing map[string]bool, told bool, err error) iter.Seq2[mover.Entry, error] {
	return func(yield func(mover.Entry, error) bool) {
		gone := []string{}
		for _, e := range entries {
			if within(e.Name, gone) {
				continue
			}
			if e.Kind != mover.Dir || !failing[e.Name] {
				if !yield(e, nil) {
					return
				}
				continue
			}
			gone = append(gone, e.Name)
			if told && !yield(e, nil) || !yield(e, err) {
				return
			}
		}
	}
}

// TestMounted: what is in a file system that is mounted in the target is not removed. Each mount is named once, as what it is.
//
//safety:4 mounts below the target, with and without the directory in the source
func TestMounted(t *testing.T) {
	target := []mover.Entry{
		{Name: "a", Kind: mover.File},
		{Name: "m", Kind: mover.Dir, Elsewhere: true}, {Name: "m/1", Kind: mover.File, Elsewhere: true}, {Name: "m/n", Kind: mover.Dir, Elsewhere: true},
		{Name: "m/n/2", Kind: mover.File, Elsewhere: true},
		{Name: "o", Kind: mover.Dir, Elsewhere: true},
		{Name: "p", Kind: mover.Dir}, {Name: "p/file", Kind: mover.File, Elsewhere: true}, {Name: "p/z", Kind: mover.File},
	}
	source := []mover.Entry{{Name: "m", Kind: mover.Dir}, {Name: "m/n", Kind: mover.Dir}, {Name: "o", Kind: mover.Dir}}
	walk := func(all []mover.Entry) iter.Seq2[mover.Entry, error] {
		return func(yield func(mover.Entry, error) bool) {
			for _, e := range all {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
	for what, row := range map[string]struct {
		source []mover.Entry
		want   string
	}{
		"all of it":  {nil, "remove a, conflict m, conflict o, remove p, conflict p/file, remove p/z"},
		"some of it": {source, "remove a, conflict m, remove p, conflict p/file, remove p/z"},
		"none of it": {target, ""},
	} {
		var got []string
		for _, a := range collect(t, Diff(walk(row.source), walk(target), Options{Delete: true})) {
			if a.Op == Remove || a.Op == Conflict {
				got = append(got, a.Op.String()+" "+a.Name())
			}
		}
		if said := strings.Join(got, ", "); said != row.want {
			t.Errorf("%s: %s, want %s", what, said, row.want)
		}
	}
}
