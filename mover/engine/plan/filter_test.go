package plan

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// rules reads "+ pattern" and "- pattern".
func rules(t *testing.T, lines ...string) *Filter {
	t.Helper()
	var all []Rule
	for _, l := range lines {
		all = append(all, Rule{Include: l[0] == '+', Pattern: l[2:]})
	}
	f := must.Get(NewFilter(all, nil))(t)
	return f
}

func TestFilterRules(t *testing.T) {
	for _, row := range []struct {
		rules string
		name  string // with a slash at its end: a directory
		skip  bool
	}{
		{"- *.tmp", "a.tmp", true},
		{"- *.tmp", "deep/down/a.tmp", true},
		{"- *.tmp", "a.tmpx", false},
		{"- /a.tmp", "a.tmp", true},
		{"- /a.tmp", "deep/a.tmp", false},
		{"- cache/", "x/cache/", true},
		{"- cache/", "x/cache", false},
		{"- /top/cache", "top/cache", true},
		{"- a/b", "a/b", true},
		{"- a/b", "x/a/b", true},
		{"- a/b", "xa/b", false},
		{"- a/**/z", "a/b/c/z", true},
		{"- {a,b}[0-9]", "d/b7", true},
		{"- {a,{b,c}}", "c", true},
		{`- {a,\{,b}`, "{", true},
		{`- \*`, "*", true},
		{`- \*`, "x", false},
		{"- \xff?", "\xff\xfe", true},
		{"+ keep.tmp|- *.tmp", "keep.tmp", false},
		{"- *.tmp|+ keep.tmp", "keep.tmp", true},
		{"+ */|+ *.c|- *", "src/", false},
		{"+ */|+ *.c|- *", "src/x.c", false},
		{"+ */|+ *.c|- *", "src/x.h", true},
		{"+ *.c|- *", "src/", true},
		{"+ *.c", "src/", false},
		{"+ *.c", "src/x.c", false},
		{"+ *.c", "src/x.h", true},
		{"+ src/**", "src/", false},
		{"+ src/**", "src/a/b", false},
		{"- **", "", false},
	} {
		name, dir := strings.CutSuffix(row.name, "/")
		kind := mover.File
		if dir {
			kind = mover.Dir
		}
		if got := rules(t, strings.Split(row.rules, "|")...).Skip(name, kind); got != row.skip {
			t.Errorf("%s: skip %q is %v", row.rules, row.name, got)
		}
	}
}

func TestNoFilterTakesAll(t *testing.T) {
	var none *Filter
	empty := must.Get(NewFilter(nil, nil))(t)
	if none.Skip("a", mover.File) || none.Seen("a", mover.File) || empty.Skip("a", mover.File) {
		t.Fatal("a filter without rules skips")
	}
}

func TestBadPatterns(t *testing.T) {
	for _, pattern := range []string{"", "/", "//", "[a", "{a", `a\`, "a\x00b", strings.Repeat("{a,b}", 10), "{" + strings.Repeat(",", 1000) + "}", strings.Repeat("{a,", 10) + strings.Repeat("}", 10)} {
		_, err := NewFilter([]Rule{{Pattern: pattern}}, nil)
		if pattern == "//" && err == nil {
			continue
		}
		if !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}

func TestNames(t *testing.T) {
	list := "a/b\n./a-x\n\ndir/\ndir/gone\n"
	names := must.Get(ReadNames(strings.NewReader(list)))(t)
	f := must.Get(NewFilter([]Rule{{Pattern: "*.tmp"}}, names))(t)
	for _, row := range []struct {
		name string
		kind mover.Kind
		skip bool
	}{
		{"a", mover.Dir, false},
		{"a", mover.File, true},
		{"a/b", mover.File, false},
		{"a/b", mover.Dir, false},
		{"a/b/c/d", mover.File, false},
		{"a/c", mover.File, true},
		{"a-x", mover.File, false},
		{"a-", mover.Dir, true},
		{"dir/sub/x", mover.File, false},
		{"dir/sub/x.tmp", mover.File, true},
		{"dirx", mover.File, true},
	} {
		if got := f.Skip(row.name, row.kind); got != row.skip {
			t.Errorf("skip %v %q is %v", row.kind, row.name, got)
		}
		f.Seen(row.name, row.kind)
	}
	if missing, n := f.Missing(10); n != 2 || !slices.Equal(missing, []string{"dir", "dir/gone"}) {
		t.Errorf("missing are %q", missing)
	}
}

func TestReadNames(t *testing.T) {
	for _, row := range []struct{ list, want string }{
		{"", ""},
		{"a", "a"},
		{"a\nb c\n", "a|b c"},
		{"a\x00b\nc\x00", "a|b\nc"},
		{"././/a//\n", "a"},
		{"\xff\n", "\xff"},
		{"b\na\nb\n", "a|b"},
	} {
		names, err := ReadNames(strings.NewReader(row.list))
		if err != nil {
			t.Errorf("%q: %v", row.list, err)
		} else if got := strings.Join(names.sorted, "|"); got != row.want {
			t.Errorf("%q is read as %q", row.list, got)
		}
	}
	for _, list := range []string{"/etc/passwd\n", "..\n", "a/../b\n", "ok\na//b\n", "/\n", strings.Repeat("x", maxNameBytes+1)} {
		if _, err := ReadNames(strings.NewReader(list)); !errors.Is(err, mover.ErrUsage) {
			t.Errorf("%.20q: %v", list, err)
		}
	}
	if all, err := ReadNames(strings.NewReader(".\n")); err != nil || !all.has("any/thing", mover.File) {
		t.Errorf("the root is not everything: %v", err)
	}
}

// TestNamesAgainstDefinition compares the search with looking at each name.
func TestNamesAgainstDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`(a|b|a-|a!)(/(a|b|a-|a!)){0,3}`)
		list := rapid.SliceOf(name).Draw(t, "list")
		asked := name.Draw(t, "asked")
		kind := rapid.SampledFrom([]mover.Kind{mover.File, mover.Dir}).Draw(t, "kind")
		want := slices.ContainsFunc(list, func(n string) bool {
			return mover.Within(asked, n) || kind == mover.Dir && mover.Within(n, asked)
		})
		names := must.Get(NewNames(slices.Clone(list)))(t)
		if got := names.has(asked, kind); got != want {
			t.Fatalf("has %v %q in %q is %v", kind, asked, list, got)
		}
	})
}

// TestFilteredIsNeverRemoved filters both walks, as a caller does.
//
//safety:5 what a filter hides
func TestFilteredIsNeverRemoved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, target := genWorld(t, "source", false), genWorld(t, "target", false)
		patterns := rapid.SampledFrom([]string{"a", "a/", "/a", "*.x", "a/b", "b*", "a!/**", "[ab]"})
		var all []Rule
		for range rapid.IntRange(1, 3).Draw(t, "rules") {
			all = append(all, Rule{Include: rapid.Bool().Draw(t, "include"), Pattern: patterns.Draw(t, "pattern")})
		}
		f := must.Get(NewFilter(all, nil))(t)
		for _, a := range collect(t, Diff(walk(filtered(source, f)), walk(filtered(target, f)), Options{Delete: true})) {
			if f.Skip(a.Name(), a.Kind()) {
				t.Fatalf("%v of %q, which %v skip", a.Op, a.Name(), all)
			}
		}
	})
}

// filtered leaves out what a walk with Skip leaves out.
func filtered(w *world, f *Filter) []mover.Entry {
	var pruned []string
	return slices.DeleteFunc(w.sorted(), func(e mover.Entry) bool {
		if within(e.Name, pruned) {
			return true
		}
		skip := f.Skip(e.Name, e.Kind)
		if skip && e.Kind == mover.Dir {
			pruned = append(pruned, e.Name)
		}
		return skip
	})
}

func FuzzFilter(f *testing.F) {
	f.Add("*.tmp", "a/b.tmp", true)
	f.Add("{a,b}/**", "a/b", false)
	f.Add(`\`, "\xff", false)
	f.Fuzz(func(t *testing.T, pattern, name string, dir bool) {
		filter, err := NewFilter([]Rule{{Pattern: pattern}}, nil)
		if err != nil {
			if !errors.Is(err, mover.ErrUsage) {
				t.Fatalf("%q: %v", pattern, err)
			}
			return
		}
		kind := mover.File
		if dir {
			kind = mover.Dir
		}
		include, err := NewFilter([]Rule{{Include: true, Pattern: pattern}, {Pattern: "**"}}, nil)
		must.Do(t, err)
		if name != "" && mover.ValidName(name) && filter.Skip(name, kind) == include.Skip(name, kind) {
			t.Fatalf("%q both includes and excludes %q", pattern, name)
		}
	})
}
