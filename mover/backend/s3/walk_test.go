package s3

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sync/semaphore"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/s3/s3api"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// keyStore is a store of keys without contents, which lists them in small pages.
// The other methods are not there.
type keyStore struct {
	s3api.Store
	keys   []string // sorted
	page   int
	broken string       // listings of this prefix fail
	listed atomic.Int64 // keys
}

var errBroken = errors.New("the listing broke off")

func (s *keyStore) List(ctx context.Context, l s3api.Listing) iter.Seq2[[]s3api.Object, error] {
	return func(yield func([]s3api.Object, error) bool) {
		var page []s3api.Object
		last := ""
		for _, key := range s.keys {
			if !strings.HasPrefix(key, l.Prefix) || key <= l.After {
				continue
			}
			o := s3api.Object{Key: key, ETag: "e"}
			if i := strings.Index(key[len(l.Prefix):], l.Delimiter); l.Delimiter != "" && i >= 0 {
				o = s3api.Object{Key: key[:len(l.Prefix)+i+1], Size: -1}
			}
			if o.Key == last {
				continue
			}
			last = o.Key
			s.listed.Add(1)
			if page = append(page, o); len(page) == s.page {
				if ctx.Err() != nil || !yield(page, nil) {
					return
				}
				page = nil
			}
		}
		if s.broken != "" && l.Prefix == s.broken {
			yield(nil, errBroken)
		} else if len(page) > 0 {
			yield(page, nil)
		}
	}
}

func keyPlace(keys []string) *Backend {
	slices.Sort(keys)
	return &Backend{
		store: &keyStore{keys: slices.Compact(keys), page: 3}, prefix: "p/", address: "s3://b/p",
		calls: semaphore.NewWeighted(3), opts: Options{Parallel: 3}, walks: walkSizes{flat: 7, level: 5},
	}
}

// randomName makes names of few letters, so that they share directories, some of
// which sort elsewhere as keys.
func randomTreeName(r *rand.Rand) string {
	letters := []string{"a", "b", "-", ".x", "0", "%", "\x01", "\xff", "é", "%01", "Z"}
	segs := make([]string, 1+r.IntN(4))
	for i := range segs {
		for range 1 + r.IntN(2) {
			segs[i] += letters[r.IntN(len(letters))]
		}
	}
	return strings.Join(segs, "/")
}

// TestWalkOrder: whatever the names are, and however the walk cuts them, they come
// in the order of Compare, each once, with all their directories.
func TestWalkOrder(t *testing.T) {
	first := seed.Of(t)
	for nth := range uint64(400) {
		r := rand.New(rand.NewPCG(first+nth, 0))
		want := map[string]mover.Entry{}
		shelves := map[string]bool{}
		keys := []string{"p/.datamove/lock", "p/.datamove/manifest-v1.jsonl.zst", "other"}
		for range r.IntN(120) {
			name := randomTreeName(r)
			if !mover.ValidName(name) {
				continue
			}
			key := must.Get(EncodeKey(name))(t)
			kind := mover.File
			if r.IntN(8) == 0 {
				kind, key = mover.Dir, key+"/"
			}
			keys = append(keys, "p/"+key)
			want[fmt.Sprint(name, kind)] = mover.Entry{Name: name, Kind: kind}
			for dir, _ := mover.Parent(name); dir != ""; dir, _ = mover.Parent(dir) {
				want[fmt.Sprint(dir, mover.Dir)] = mover.Entry{Name: dir, Kind: mover.Dir}
			}
			if dir, _ := mover.Parent(name); dir != "" && r.IntN(6) == 0 {
				shelves[dir] = true
				keys = append(keys, "p/"+must.Get(EncodeKey(dir))(t)+"/.datamove/manifest-v1.jsonl.zst")
			}
		}
		checkWalk(t, nth, keyPlace(keys), want, shelves)
	}
}

func checkWalk(t *testing.T, nth uint64, p *Backend, want map[string]mover.Entry, shelves map[string]bool) {
	t.Helper()
	sorted := make([]mover.Entry, 0, len(want))
	for _, e := range want {
		sorted = append(sorted, e)
	}
	slices.SortFunc(sorted, func(a, b mover.Entry) int { return mover.Compare(&a, &b) })
	i := 0
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if err != nil {
			t.Fatalf("case %d: %v", nth, err)
		}
		if i >= len(sorted) || e.Name != sorted[i].Name || e.Kind != sorted[i].Kind {
			t.Fatalf("case %d: entry %d is %v %q, want %+v", nth, i, e.Kind, e.Name, sorted[min(i, len(sorted)-1)])
		}
		if shelves[e.Name] && e.Kind == mover.Dir && !e.Shelf {
			t.Fatalf("case %d: that %q has a manifest of its own is not told", nth, e.Name)
		}
		i++
	}
	if i != len(sorted) {
		t.Fatalf("case %d: %d entries of %d", nth, i, len(sorted))
	}
}

// TestWalkForeignKeys: keys that name nothing are told, not dropped, and the walk
// goes on beside them.
//
//safety:6 with TestKeysThatNameNothing
func TestWalkForeignKeys(t *testing.T) {
	p := keyPlace([]string{"p/a", "p/a/b", "p/x//y", "p/x//y/", "p/x//y-", "p/x/ z", "p/x/z", "p/../up", "p//abs", "p/bad\uFFFD", "p/d/./e", "p/last"})
	want := []string{"!../up", "!/abs", "!bad\uFFFD", "a", "a/", "a/b", "d/", "!d/./e", "last", "x/", "!x//y", "!x//y/", "!x//y-", "x/ z", "x/z"}
	slices.Sort(want[10:13]) // of one prefix, by the names that they are given
	told := func(o mover.WalkOptions) (all []string, after []string) {
		for e, err := range p.Walk(t.Context(), o) {
			name := e.Name
			switch {
			case err == nil && e.Kind == mover.Dir:
				name += "/"
			case err != nil:
				name = "!" + e.Key
				if e.Key == "" || !mover.ValidName(e.Name) || e.ETag != "e" || e.Kind != mover.File || !strings.Contains(err.Error(), "does not name a file") {
					t.Errorf("%+v: %v", e, err)
				}
			}
			all, after = append(all, name), append(after, mover.AfterEntry(&e))
		}
		return all, after
	}
	for _, flat := range []int{2, 7, 100} {
		p.walks.flat = flat
		all, after := told(mover.WalkOptions{})
		if sorted := slices.Clone(all); len(all) != len(want) || !slices.Equal(slices.Sorted(slices.Values(sorted)), slices.Sorted(slices.Values(want))) {
			t.Errorf("flat %d: walk yields %q, want %q", flat, all, want)
		}
		for i := range after {
			if rest, _ := told(mover.WalkOptions{After: after[i]}); !slices.Equal(rest, all[i+1:]) {
				t.Errorf("flat %d, after %q: %q, want %q", flat, after[i], rest, all[i+1:])
			}
			if i > 0 && mover.CompareNames(strings.TrimSuffix(after[i-1], "/"), strings.HasSuffix(after[i-1], "/"), strings.TrimSuffix(after[i], "/"), strings.HasSuffix(after[i], "/")) >= 0 {
				t.Errorf("flat %d: %q is before %q", flat, after[i-1], after[i])
			}
		}
		some, _ := told(mover.WalkOptions{Skip: func(name string, k mover.Kind) bool { return k == 0 && strings.Contains(name, "//") }})
		if slices.Contains(some, "!x//y") || !slices.Contains(some, "!../up") || !slices.Contains(some, "x/z") {
			t.Errorf("flat %d, without //: %q", flat, some)
		}
	}
}

// TestWalkBroken: a directory that can not be listed is told, and nothing of it;
// a top that can not be ends the walk.
//
//safety:4 with mover/backend/posix TestWalkWithErrors
func TestWalkBroken(t *testing.T) {
	p := keyPlace([]string{"p/a/1", "p/a/2", "p/b/1", "p/c/1", "p/c/2", "p/c/3", "p/c/4", "p/d"})
	p.store.(*keyStore).broken = "p/b/"
	var names []string
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if (err != nil) != (e.Name == "b") {
			t.Errorf("%+v: %v", e, err)
		}
		names = append(names, e.Name)
	}
	if want := []string{"a", "a/1", "a/2", "b", "c", "c/1", "c/2", "c/3", "c/4", "d"}; !slices.Equal(names, want) {
		t.Errorf("walk yields %q, want %q", names, want)
	}
	p.store.(*keyStore).broken = "p/"
	for e, err := range p.Walk(t.Context(), mover.WalkOptions{}) {
		if !errors.Is(err, errBroken) || e.Name != "" {
			t.Errorf("%+v: %v", e, err)
		}
	}
}

// TestHoldsAny: whether there is anything is known after a page, however large the tree is.
func TestHoldsAny(t *testing.T) {
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("p/%05d", i)
	}
	for _, row := range []struct {
		keys  []string
		holds bool
	}{
		{nil, false},
		{[]string{"p/", "p/.datamove/lock", "p/.datamove/manifest-v1.jsonl.zst"}, false},
		{[]string{"p/.datamove/lock", "p/.datamove/manifest-v1.jsonl.zst", "p/.datamove/probe-1", "p/dir/"}, true},
		{[]string{"p/%2"}, true}, // a walk tells that it can not be read
		{many, true},
	} {
		p := keyPlace(row.keys)
		holds, err := p.HoldsAny(t.Context())
		if listed := p.store.(*keyStore).listed.Load(); listed > 6 {
			t.Errorf("%.60q: %d keys were listed", row.keys, listed)
		}
		walked := false
		for range p.Walk(t.Context(), mover.WalkOptions{}) {
			walked = true
			break
		}
		if holds != row.holds || walked != row.holds || err != nil {
			t.Errorf("%.60q: %v, %v; want %v, and a walk says %v", row.keys, holds, err, row.holds, walked)
		}
	}
}
