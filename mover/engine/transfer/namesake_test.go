package transfer_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	_ "datamove.dev/test/seed/property" // of rapid
)

// TestNamesakes: at a target that compares names without case, a rename in case renames, and of two names that are one there
// neither takes the other's place.
//
//safety:1 two names that are one to the target's file system; a rename in case
func TestNamesakes(t *testing.T) {
	big := strings.Repeat("0123456789abcdef", 20_000)
	for _, row := range []struct {
		name           string
		source, target map[string]string
		remove         bool
		failed         []string
		want           map[string]string
	}{
		{"two files", map[string]string{"A": "upper"}, map[string]string{"a": "lower"}, false, []string{"A"}, map[string]string{"a": "lower"}},
		{"two directories", map[string]string{"Dir/x": "new", "Dir/s/y": "new", "z": "z"}, map[string]string{"dir/x": "old"}, false, []string{"Dir", "Dir/s", "Dir/s/y", "Dir/x"}, map[string]string{"dir/x": "old", "z": "z"}},
		{"a directory and a file", map[string]string{"X/y": "new"}, map[string]string{"x": "old"}, false, []string{"X", "X/y"}, map[string]string{"x": "old"}},
		{"a file and a directory", map[string]string{"X": "new"}, map[string]string{"x/y": "old"}, false, []string{"X"}, map[string]string{"x/y": "old"}},
		{"a file is renamed", map[string]string{"README": "new"}, map[string]string{"readme": "old", "b": "b"}, true, nil, map[string]string{"README": "new"}},
		{"a large file is renamed", map[string]string{"README": big}, map[string]string{"readme": "old"}, true, nil, map[string]string{"README": big}},
		{"a directory is renamed", map[string]string{"Dir/x": "new", "Dir/s/y": "new", "Dir/l": big}, map[string]string{"dir/x": "old", "dir/s/y": "old", "dir/t": "old"}, true, nil, map[string]string{"Dir/x": "new", "Dir/s/y": "new", "Dir/l": big}},
		{"a directory takes the place of a file", map[string]string{"X/y": "new"}, map[string]string{"x": "old"}, true, nil, map[string]string{"X/y": "new"}},
		{"a file takes the place of a directory", map[string]string{"X": "new"}, map[string]string{"x/y": "old"}, true, nil, map[string]string{"X": "new"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			source, target := mem.NewTree().Files(row.source), mem.NewTree().Fold().Files(row.target)
			got := namesOf(run(t, source, target, mem.Options{}, plan.Options{Delete: row.remove}))
			if !slices.Equal(got, row.failed) || !maps.Equal(contents(t, target), row.want) {
				t.Errorf("failed: %q, and there is %q", got, contents(t, target))
			}
		})
	}
}

// TestNamesakesOfSource: of two names of the source that are one to the target, one is there and the other one is told.
func TestNamesakesOfSource(t *testing.T) {
	for _, files := range []map[string]string{
		{"A": "A", "a": "a"}, {"d/A": "A", "d/a": "a"}, {"D/x": "D/x", "d/y": "d/y"}, {"d/E/x": "d/E/x", "d/e/x": "d/e/x"},
	} {
		source, target := mem.NewTree().Files(files), mem.NewTree().Fold()
		failed := namesOf(run(t, source, target, mem.Options{}, plan.Options{}))
		have := contents(t, target)
		failed = slices.DeleteFunc(failed, func(name string) bool { return files[name] == "" }) // directories
		if len(failed) != 1 || len(have) != 1 || have[failed[0]] != "" {
			t.Errorf("%q: failed %q, and there is %q", files, failed, have)
		}
		for name, content := range have {
			if files[name] != content {
				t.Errorf("%s has the content of %s", name, content)
			}
		}
	}
}

// TestAnyFoldedTree: any source in which no two names are one, any target that compares names without case; after a sync with
// Delete they are equal, whichever letters were upper case.
func TestAnyFoldedTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, target := shout(t, randomTree(t, "source"), mem.NewTree()), shout(t, randomTree(t, "target"), mem.NewTree().Fold())
		adjust := func(o *transfer.Options) {
			o.Jobs = rapid.IntRange(1, 5).Draw(t, "jobs")
			if rapid.Bool().Draw(t, "crew") {
				var mu sync.Mutex
				dice := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
				o.Helpers = newCrew(t, source, target, mem.Options{}, plan.Options{Delete: true}, func(*transfer.Work) fate {
					mu.Lock()
					defer mu.Unlock()
					return []fate{done, nobody, killed, yields, begun}[dice.IntN(5)]
				})
			}
		}
		if f := run(t, source, target, mem.Options{}, plan.Options{Delete: true}, adjust).failed(); f != nil {
			t.Fatal(f)
		}
		same(t, source, target, mem.Options{})
	})
}

// shout copies a tree into another one, with some segments of the names in upper case.
func shout(t *rapid.T, from, to *mem.Tree) *mem.Tree {
	upper := map[string]bool{}
	name := func(name string) string {
		segments := strings.Split(name, "/")
		for i := range segments {
			prefix := strings.Join(segments[:i+1], "/")
			if _, ok := upper[strings.ToLower(prefix)]; !ok {
				upper[strings.ToLower(prefix)] = rapid.Bool().Draw(t, "upper case")
			}
			if upper[strings.ToLower(prefix)] {
				segments[i] = strings.ToUpper(segments[i])
			}
		}
		return strings.Join(segments, "/")
	}
	for e, err := range mem.New(from, mem.Options{}).Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Name == "" {
			continue
		}
		content, _ := from.Content(e.Name)
		e.Name = name(e.Name)
		to.Put(e, []byte(content))
	}
	return to
}

func namesOf(res *results) (names []string) {
	for _, r := range res.all {
		if r.Err != nil {
			names = append(names, r.Entry.Name)
		}
	}
	slices.Sort(names)
	return names
}

// contents are the files of a tree.
func contents(t *testing.T, tree *mem.Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	for e, err := range mem.New(tree, mem.Options{}).Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil {
			t.Fatal(err)
		}
		if content, ok := tree.Content(e.Name); ok {
			all[e.Name] = content
		}
	}
	if d := tree.Drafts(); len(d) > 0 {
		t.Errorf("drafts are left: %v", d)
	}
	return all
}
