package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine/compare"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// results remembers what it is told.
type results struct {
	mu     sync.Mutex
	all    []transfer.Result
	paused []error
}

func (r *results) Result(res transfer.Result) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, res)
}

func (r *results) Paused(why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.paused = append(r.paused, why)
}

func (*results) Step(string) {}

func (r *results) failed() (names []string) {
	for _, res := range r.all {
		if res.Err != nil {
			names = append(names, fmt.Sprintf("%s: %v", res.Entry.Name, res.Err))
		}
	}
	return names
}

var by = mover.WriterID{Task: "test", Epoch: 1}

// run brings target to source and returns what was told.
func run(t rapid.TB, source, target *mem.Tree, o mem.Options, p plan.Options, adjust ...func(*transfer.Options)) *results {
	t.Helper()
	ctx := context.Background()
	from, to := mem.New(source, mem.Options{}), mem.New(target, o)
	defer from.Close()
	defer to.Close()
	res := &results{}
	p.Both = o.ObjectStore
	opts := transfer.Options{By: by, Observer: res, Plan: p, Jobs: 4}
	for _, a := range adjust {
		a(&opts)
	}
	actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), opts.Plan)
	if err := transfer.Run(ctx, from, to, actions, opts); err != nil {
		t.Fatalf("Run: %v", err)
	}
	return res
}

// same fails when the trees differ in anything that a second plan can see.
func same(t rapid.TB, source, target *mem.Tree, o mem.Options) {
	t.Helper()
	ctx := context.Background()
	from, to := mem.New(source, mem.Options{}), mem.New(target, o)
	p := plan.Options{Delete: true, CompareBy: plan.ByContent, Both: o.ObjectStore, TargetKeeps: to.Capabilities().Keeps}
	for a, err := range plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), p) {
		if err == nil && a.Op == plan.Compare {
			a, err = compare.Resolve(ctx, from, to, a, p, nil)
		}
		if err != nil || a.Op != plan.Keep {
			t.Errorf("%s: %v (%s) %v", a.Name(), a.Op, a.Why, err)
		}
	}
	if d := target.Drafts(); len(d) > 0 {
		t.Errorf("drafts are left: %v", d)
	}
}

var files = map[string]string{
	"a": "1", "b/c": "22", "b/d/e": "", "empty/": "", "f/g/h/i": strings.Repeat("x", 10_000), "z": "last",
	"b.txt": "sorts before b/", "large": strings.Repeat("0123456789abcdef", 20_000),
}

func TestNewTree(t *testing.T) {
	for _, o := range []mem.Options{{}, {ObjectStore: true}, {Reflinks: true}} {
		t.Run(fmt.Sprintf("%+v", o.ObjectStore), func(t *testing.T) {
			source, target := mem.NewTree().Files(files), mem.NewTree()
			if o.ObjectStore {
				target = mem.NewTree()
			}
			source.Link("a", "b/hard")
			source.Sparse("sparse", 1<<20, map[int64]string{70_000: "island"})
			res := run(t, source, target, o, plan.Options{})
			if f := res.failed(); f != nil {
				t.Fatal(f)
			}
			same(t, source, target, o)
		})
	}
}

func TestSecondRunDoesNothing(t *testing.T) {
	source, target := mem.NewTree().Files(files), mem.NewTree()
	run(t, source, target, mem.Options{}, plan.Options{})
	for _, r := range run(t, source, target, mem.Options{}, plan.Options{}).all {
		if r.Op != plan.Keep && r.Entry.Name != "" {
			t.Errorf("%s: %v (%s)", r.Entry.Name, r.Op, r.Why)
		}
	}
}

func TestSync(t *testing.T) {
	source := mem.NewTree().Files(files)
	target := mem.NewTree().Files(map[string]string{
		"a": "another", "extra/x/y": "gone", "b": "a file where a directory comes", "z/was": "a directory where a file comes", "large": "short",
	})
	res := run(t, source, target, mem.Options{}, plan.Options{Delete: true})
	if f := res.failed(); f != nil {
		t.Fatal(f)
	}
	same(t, source, target, mem.Options{})
}

//safety:4 one failed listing, and no removal
func TestNothingIsRemovedAfterAFailure(t *testing.T) {
	source, target := mem.NewTree().Files(files), mem.NewTree().Files(map[string]string{"extra": "stays"})
	ctx := context.Background()
	from, to := mem.New(source, mem.Options{}), mem.New(target, mem.Options{})
	res := &results{}
	actions := func(yield func(plan.Action, error) bool) {
		broken := mover.Entry{Name: "b", Kind: mover.Dir}
		if !yield(plan.Action{Source: broken}, errors.New("input/output error")) {
			return
		}
		for a, err := range plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{Delete: true}) {
			if !yield(a, err) {
				return
			}
		}
	}
	must.Do(t, transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Observer: res}))
	if _, ok := target.Content("extra"); !ok {
		t.Error("an entry was removed although a listing had failed")
	}
	if _, ok := target.Content("a"); !ok {
		t.Error("what could be copied was not")
	}
}

//safety:5 a refusal removes nothing, and all else is done
func TestRemovalsCanBeRefused(t *testing.T) {
	source, target := mem.NewTree().Files(files), mem.NewTree().Files(map[string]string{"extra": "stays"})
	ctx := context.Background()
	from, to := mem.New(source, mem.Options{}), mem.New(target, mem.Options{})
	actions := plan.Diff(from.Walk(ctx, mover.WalkOptions{}), to.Walk(ctx, mover.WalkOptions{}), plan.Options{Delete: true})
	err := transfer.Run(ctx, from, to, actions, transfer.Options{By: by, Allow: func(n int64) error {
		return fmt.Errorf("%w: %d", mover.ErrRefused, n)
	}})
	if !errors.Is(err, mover.ErrRefused) {
		t.Errorf("Run: %v", err)
	}
	if _, ok := target.Content("extra"); !ok {
		t.Error("an entry was removed although the caller refused")
	}
}

// TestAnyTree is the promise of plan and transfer together: any source, any
// target; after a sync with Delete they are equal.
//
//safety:9 after a sync that says so, the trees are equal
func TestAnyTree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		source, target := randomTree(t, "source"), randomTree(t, "target")
		o := mem.Options{}
		adjust := func(o *transfer.Options) { o.Jobs = rapid.IntRange(1, 5).Draw(t, "jobs") }
		if f := run(t, source, target, o, plan.Options{Delete: true}, adjust).failed(); f != nil {
			t.Fatal(f)
		}
		same(t, source, target, o)
	})
}

// randomTree makes a tree whose files are like those of no other label: two files of one
// name, size and time are taken for one by a quick check, whatever is in them.
func randomTree(t *rapid.T, label string) *mem.Tree {
	tree := mem.NewTree()
	names := rapid.SliceOfN(rapid.StringMatching(`[ab.]?[abc](/[abc.]?[abc]){0,3}`), 0, 25).Draw(t, label)
	kinds := []mover.Kind{mover.File, mover.File, mover.File, mover.Dir, mover.Symlink, mover.FIFO}
	made := map[string]mover.Kind{}
	for _, name := range names {
		if !free(made, name) {
			continue
		}
		e := mover.Entry{Name: name, Kind: rapid.SampledFrom(kinds).Draw(t, "kind"), Mode: 0o600 | uint32(rapid.IntRange(0, 7).Draw(t, "mode")), Known: mover.FactMode}
		if e.Kind == mover.Symlink {
			e.Target = rapid.SampledFrom([]string{"x", "../y", "/etc"}).Draw(t, "link")
		}
		size := rapid.SampledFrom([]int{0, 1, 4095, 70_000, 300_000}).Draw(t, "size")
		if e.Kind != mover.File {
			size = 0
		}
		e.Mtime, e.Known = mover.Time{Sec: int64(len(made)), Nsec: int32(label[0])}, e.Known|mover.FactMtime
		tree.Put(e, []byte(strings.Repeat(string(rune('a'+len(made)%26)), size)))
		made[name] = e.Kind
	}
	return tree
}

// free says whether name can be made beside the names that are there.
func free(made map[string]mover.Kind, name string) bool {
	for other, kind := range made {
		if mover.Within(other, name) || mover.Within(name, other) && kind != mover.Dir {
			return false
		}
	}
	return true
}
