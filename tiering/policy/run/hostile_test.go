package run_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
	"datamove.dev/tiering/catalog"
	"datamove.dev/tiering/dataset"
	"datamove.dev/tiering/policy"
	"datamove.dev/tiering/policy/run"
)

const purging = `kind: TierPolicy
metadata: {name: hostile}
spec:
  scope: {roots: ["scratch:"]}
  rules:
    - {name: mine, match: {name: ["keep-*"]}, action: keep}
    - {name: left, match: {name: ["left-*"], idle: ">30d"}, action: purge}
    - {name: copied, match: {name: ["copied-*"], idle: ">30d"}, action: release}
`

// world is some files of one directory, and what is true of them whatever anybody believes.
type world struct {
	random *rand.Rand
	tree   *mem.Tree
	place  *mem.Backend
	facts  map[string]*policy.Facts
	first  map[string]string // the content that was planned for
}

const worldFiles = 40

func newWorld(random *rand.Rand) *world {
	w := &world{random: random, tree: mem.NewTree(), facts: map[string]*policy.Facts{}, first: map[string]string{}}
	for i := range worldFiles {
		name := fmt.Sprintf("%s-%d", []string{"left", "copied", "keep"}[random.IntN(3)], i)
		w.first[name] = fmt.Sprint("first ", i)
		w.tree.Files(map[string]string{name: w.first[name]})
		w.facts[name] = &policy.Facts{Tier: "scratch", Ephemeral: random.IntN(10) > 0, Replicas: random.IntN(3), Leased: random.IntN(8) == 0, Pinned: random.IntN(8) == 0}
	}
	w.place = mem.New(w.tree, mem.Options{})
	return w
}

// harm does something to a file that makes it one that has to stay.
func (w *world) harm(name string) {
	switch w.random.IntN(8) {
	case 0:
		w.facts[name].Leased = true
	case 1:
		w.facts[name].Pinned = true
	case 2:
		w.facts[name].Replicas = 0
	case 3:
		w.facts[name].Ephemeral = false
	case 4:
		w.facts[name].Part = "dataset:x"
	default:
		w.swap(name)
	}
}

// swap makes another entry of a name: the same length, or a link, or what somebody has moved there.
func (w *world) swap(name string) {
	if _, there := w.tree.Content(name); !there {
		return
	}
	switch w.random.IntN(4) {
	case 0:
		w.tree.Overwrite(name, 0, "other") // in place
	case 1:
		w.tree.Delete(name)
		w.tree.Files(map[string]string{name: "other" + w.first[name][5:]})
	case 2:
		w.tree.Delete(name)
		w.tree.Put(mover.Entry{Name: name, Kind: mover.Symlink, Target: "/etc/passwd"}, nil)
	case 3:
		w.tree.Files(map[string]string{"moved": "other"})
		w.tree.Delete(name)
		w.tree.Rename("moved", name)
	}
}

// 20,000 decisions, or a million with DATAMOVE_SOAK=1, in a world that changes between each two steps of a run: nothing is removed that has to stay.
//
//safety:5 a policy removes while files are leased, pinned, changed in place, replaced, swapped for links, lose their copies or become a part of a dataset, between each two steps of its run; plans of another policy, by old facts, or damaged
func TestDecisions(t *testing.T) {
	programs := must.Get(policy.Read("hostile", []byte(purging)))(t)
	now, random := time.Now(), seed.Rand(t)
	removed, made, want := 0, 0, 20_000
	if seed.Soak() {
		want = 1_000_000
	}
	for made < want && !t.Failed() {
		w := newWorld(random)
		made += worldFiles
		removed += w.run(t, programs[0], now)
	}
	if removed < made/50 {
		t.Errorf("only %d of %d were removed: it shows nothing", removed, made)
	}
}

func (w *world) run(t *testing.T, p *policy.Program, now time.Time) (removed int) {
	ctx := context.Background()
	judge := p.Judge(now, nil)
	selection := p.Judge(now, nil).Select()
	for e, err := range w.place.Walk(ctx, mover.WalkOptions{}) {
		must.Do(t, err)
		f := dataset.FileOf(&e, now.Add(-100*24*time.Hour).Unix())
		f.Mtime, f.Atime, f.Known = 0, 0, f.Known&^(mover.FactAtime|mover.FactMtime) // the clock of mem is that of long ago
		selection.Add(0, &f, w.facts[f.Base])
	}
	plan := selection.Plan()
	for i := range plan.Items {
		item := &plan.Items[i]
		name := item.Name()
		listed := run.ItemOf(p, item, catalog.Tree{Tier: "scratch"}, "", "", "")
		if w.random.IntN(3) == 0 {
			w.harm(name)
		}
		if v := judge.Decide(&item.File, w.facts[name]); v.Rule != item.Rule || v.Held != "" || v.Err != nil {
			continue // it is not handed out
		}
		if w.random.IntN(4) == 0 {
			w.swap(name)
		}
		if w.take(ctx, t, listed, name) {
			removed++
		}
	}
	return removed
}

// take looks at a file and removes it, as a worker does, and says when it should have stayed.
func (w *world) take(ctx context.Context, t *testing.T, listed *pb.PlanItem, name string) bool {
	e, err := w.place.Stat(ctx, name)
	if err != nil || run.Same(listed, &e) != nil {
		return false
	}
	if w.random.IntN(4) == 0 {
		w.swap(name) // between the look and the deed
	}
	is, there := w.tree.Content(name)
	if w.place.Remove(ctx, e, mover.WriterID{Task: "x"}) != nil {
		return false
	}
	f := w.facts[name]
	switch {
	case !there || is != w.first[name]:
		t.Errorf("%s was removed, which had %q in it and not %q", name, is, w.first[name])
	case f.Leased, f.Pinned, f.Part != "" && listed.GetAction() != string(policy.Release): // what is released is a replica, as a whole
		t.Errorf("%s was removed: %+v", name, f)
	case listed.GetAction() == string(policy.Release) && f.Replicas == 0, listed.GetAction() == string(policy.Purge) && !f.Ephemeral:
		t.Errorf("%s was removed by %s: %+v", name, listed.GetAction(), f)
	case name[:4] == "keep":
		t.Errorf("%s was removed", name)
	}
	return true
}
