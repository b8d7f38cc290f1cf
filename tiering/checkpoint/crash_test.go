package checkpoint

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

type framework struct {
	name    string
	profile Profile
	write   func(shape) *script
	over    bool // it can save over what it has saved
	says    bool // its files say how many ranks there were
}

var frameworks = []framework{
	{"dcp", DCP, dcpWriter, true, true}, {"dcp, asynchronous", DCP, dcpAsyncWriter, true, true},
	{"megatron", Megatron, megatronWriter(1, true), false, true}, {"megatron, of which nothing says the ranks", Megatron, megatronWriter(1, false), false, false}, {"megatron, in a pipeline", Megatron, megatronWriter(2, true), false, true},
	{"megatron, distributed", Megatron, megatronDistWriter, false, true},
	{"deepspeed", DeepSpeed, deepSpeedWriter(0), false, true}, {"deepspeed, ZeRO 1", DeepSpeed, deepSpeedWriter(1), false, true}, {"deepspeed, ZeRO 3", DeepSpeed, deepSpeedWriter(3), false, true},
	{"deepspeed, of which nothing says the ranks", DeepSpeed, deepSpeedWriter(-1), false, false},
	{"deepspeed, universal", DeepSpeed, universalWriter, false, true},
	{"orbax", Orbax, orbaxWriter, false, true}, {"orbax, old", Orbax, orbaxOldWriter, false, true}, {"orbax, by file", Orbax, orbaxFileWriter, false, true},
	{"hf", HF, hfWriter, false, true}, {"hf, renamed", HF, hfRenameWriter, false, true}, {"nemo", NeMo, nemoWriter, false, true}, {"nemo, archives", NeMo, nemoArchiveWriter, false, true}, {"lightning", NeMo, lightningWriter, false, true}, {"nemo, distributed", NeMo, nemoDistWriter, false, true},
	{"plain", Plain, plainWriter, true, true}, {"plain, committed", Plain, commitWriter, true, true},
}

func shapes(f framework) (all []shape) {
	for _, sh := range []shape{
		{1, 1, 1, 2, false, 0, false}, {2, 1, 2, 3, false, 1, false}, {3, 2, 3, 3, false, 0, true}, {4, 3, 2, 3, false, 2, false}, {8, 1, 2, 2, false, 0, true}, {2, 3, 3, 4, false, 2, true},
		{1, 2, 2, 3, true, 0, false}, {4, 1, 3, 3, true, 0, true}, {3, 3, 1, 2, true, 0, false},
	} {
		if !sh.over || f.over {
			all = append(all, sh)
		}
	}
	return all
}

// TestCrashes stops writers after each of their operations, by a kill or by a power cut, and looks at what is left when it has settled: no set is
// ever said to be complete that has not exactly the bytes of one of its saves. And each save is found complete when it is, so that
// nobody passes by finding none. A quarter of the points is looked at, and with DATAMOVE_SOAK=1 each.
//
//safety:5/jobs writers of seven frameworks, in 21 layouts, that die at any of 75,000 points: none is taken for one that is done
func TestCrashes(t *testing.T) {
	points, random := 0, seed.Rand(t)
	for _, f := range frameworks {
		t.Run(f.name, func(t *testing.T) {
			whole := 0
			for _, sh := range shapes(f) {
				s := f.write(sh)
				for k := range len(s.ops) + 1 {
					for _, d := range crashes(s.ops, k) {
						if !seed.Soak() && random.IntN(4) > 0 {
							continue
						}
						points++
						whole += check(t, f, sh, s, k, d)
						if t.Failed() {
							return
						}
					}
				}
				foundAll(t, f, sh, s)
			}
			if whole == 0 {
				t.Error("nothing was ever complete")
			}
		})
	}
	t.Logf("%d crash points", points)
	if points < 10_000 {
		t.Errorf("%d crash points", points)
	}
}

// crashes are what can be left after k operations. Where no data is lost, one kind of loss is as the others, and with all names it is as none.
func crashes(ops []op, k int) []*disk {
	all := []*disk{run(ops, k, k, kept)}
	for _, names := range []int{k, max(0, k-3)} {
		for _, l := range []lossy{none, half, zeroed} {
			d := run(ops, k, names, l)
			if d.lost || names < k && l == none {
				all = append(all, d)
			}
			if !d.lost {
				break
			}
		}
	}
	return all
}

// check looks twice, a while apart, as who copies does, and returns how many sets were complete.
func check(t *testing.T, f framework, sh shape, s *script, k int, d *disk) (whole int) {
	t.Helper()
	tree := d.tree()
	var sights Stability
	now, prints := time.Unix(0, d.now), tree.Prints()
	sights.Look(now, prints)
	now = now.Add(Quiet)
	sights.Look(now, prints)
	for set, err := range Each(t.Context(), folder{d, tree}, f.profile) {
		must.Do(t, err)
		if !set.Complete || !sights.Still(set.Name, now, Quiet) {
			continue
		}
		whole++
		if !slices.ContainsFunc(s.meant[set.Name], func(c content) bool { return holds(d.has(set.Name), c) }) {
			t.Errorf("%v, after %d of %d operations (%+v): %s is said to be complete, and has %d files, %q", sh, k, len(s.ops), s.ops[max(0, k-1)], set.Name, len(d.has(set.Name)), brief(d.has(set.Name)))
		}
	}
	return whole
}

// holds says whether all that was meant is there, as it was meant. What a larger job has left under other names is nobody's.
func holds(have, meant content) bool {
	for name, text := range meant {
		if got, there := have[name]; !there || got != text {
			return false
		}
	}
	return true
}

func brief(c content) (all []string) {
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%s (%d)", name, len(c[name])))
	}
	return all
}

// foundAll: when a writer has done its work, its sets are complete: all of them, or, where nothing in them says of how many ranks they are and these have changed, the newest.
func foundAll(t *testing.T, f framework, sh shape, s *script) {
	t.Helper()
	d := run(s.ops, len(s.ops), len(s.ops), kept)
	all := f.says || sh.again == false
	for set, err := range Each(t.Context(), d.folder(), f.profile) {
		must.Do(t, err)
		if !slices.ContainsFunc(s.meant[set.Name], func(c content) bool { return holds(d.has(set.Name), c) }) {
			continue
		}
		if !set.Complete {
			t.Errorf("%v: what was saved as %q is not complete: %s", sh, set.Name, set.Why)
		}
		if !all {
			break
		}
	}
}

// harm is what happens to one file of a checkpoint that was whole.
type harm string

const (
	removed   harm = "removed"
	truncated harm = "truncated"
	swapped   harm = "swapped with that of the next save"
)

// blindTo says what can not be seen of what happens to a file: the length of one whose format says none, and files that go from one save to another as they are, where no mark has a time, or with it.
func blindTo(f framework, name string, h harm) bool {
	_, base := split(name)
	switch {
	case f.name == "plain, committed":
		return false
	case h == truncated && f.profile == Orbax && (strings.Contains(name, "/d/") || base == ocdbtManifest): // of one process, what the one above them leads to
		return base == ocdbtManifest && strings.Contains(name, ocdbtOfProcess)
	case h == truncated:
		return shapeOf(base) == nil && base != ".metadata"
	case h == swapped && (slices.Contains(savedLast[f.profile], name) || base == "_METADATA"): // the mark has the time of its own save
		return true
	case h == swapped:
		return (f.profile == Megatron || f.profile == NeMo) && !shard().MatchString(base) || f.profile == DeepSpeed
	case f.name == "nemo, distributed":
		return strings.HasPrefix(name, "context/") // what is in it is the user's
	}
	return false
}

// do does it to a file of a set, a minute after the last save; other is the set of the next save.
func (h harm) do(d *disk, set, name, other string, random *rand.Rand) (done bool) {
	d.now += 60e9
	at := set
	if name != "" {
		at += "/" + name
	}
	n := d.nodes[at]
	switch h {
	case removed:
		d.apply(op{do: "unlink", name: at}, true, kept)
	case truncated:
		if len(n.data) == 0 {
			return false
		}
		n.data = n.data[:random.IntN(len(n.data))] // as after a power cut: the time is that of the save
	case swapped:
		there := d.nodes[other+"/"+name]
		if there == nil || name == "" || bytes.Equal(there.data, n.data) {
			return false
		}
		d.nodes[at], d.nodes[other+"/"+name] = there, n
		n.changed, there.changed = d.now, d.now
		d.parent(at)
		d.parent(other + "/" + name)
	}
	return true
}

// TestOneFile: of a run that has saved in the layout of each framework one file is removed, cut off, or swapped with that of the next save. What lacks it is never complete, and all others are
// what they were.
//
//safety:5/jobs one file of any checkpoint, of each framework's layout, is removed, truncated or swapped: it is not complete, and the others are
func TestOneFile(t *testing.T) {
	rounds := 1000
	if seed.Soak() {
		rounds = 10_000
	}
	if testing.Short() {
		rounds = 200
	}
	random, seen := seed.Rand(t), map[harm]int{}
	for nth := range rounds {
		f := frameworks[random.IntN(len(frameworks))]
		all := shapes(f)
		sh := all[random.IntN(len(all))]
		if sh.keep, sh.over = 0, false; !f.says {
			sh.again = false
		}
		s := f.write(sh)
		d := run(s.ops, len(s.ops), len(s.ops), kept)
		sets := slices.Sorted(maps.Keys(s.meant))
		before := completes(t, f, d)
		i := random.IntN(len(sets))
		set, other := sets[i], sets[(i+1)%len(sets)]
		files := slices.Sorted(maps.Keys(d.has(set)))
		name, h := files[random.IntN(len(files))], []harm{removed, truncated, swapped}[random.IntN(3)]
		if f.name == "plain, committed" || blindTo(f, cmp.Or(name, set), h) || !h.do(d, set, name, other, random) {
			continue
		}
		seen[h]++
		after := completes(t, f, d)
		for _, one := range sets {
			whole := slices.ContainsFunc(s.meant[one], func(c content) bool { return holds(d.has(one), c) })
			was := d.nodes[one] != nil && before[one] && whole
			if after[one] && !whole || was && !after[one] && one != set && one != other {
				t.Fatalf("case %d, %s %+v: %s of %s is %s: complete were %v and are %v, and %s has %q", nth, f.name, sh, name, set, h, before, after, one, brief(d.has(one)))
			}
		}
	}
	for _, h := range []harm{removed, truncated, swapped} {
		if seen[h] < rounds/20 {
			t.Errorf("%d of %d were %s: it shows little", seen[h], rounds, h)
		}
	}
}

// completes are the sets that are complete.
func completes(t *testing.T, f framework, d *disk) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for set, err := range Each(t.Context(), d.folder(), f.profile) {
		must.Do(t, err)
		if set.Complete {
			all[set.Name] = true
		}
	}
	return all
}

// TestDiskIsReal: what the disk of TestCrashes shows is what a real one does, after each operation of a writer of each framework.
func TestDiskIsReal(t *testing.T) {
	for _, f := range frameworks {
		sh := shape{2, 1, 2, 2, f.over, 0, false}
		s := f.write(sh)
		dir := t.TempDir()
		for k, o := range s.ops {
			really(t, dir, o)
			want, got := Find(f.profile, run(s.ops, k+1, 0, kept).tree()), found(t, f.profile, dir)
			for _, set := range got.Sets {
				// The real clock does not wait between saves, so that what is written again may not look younger.
				like, is := want.Set(set.Name)
				if !is || set.Files != like.Files || set.Bytes != like.Bytes || set.Complete != like.Complete && !sh.over {
					t.Fatalf("%s, after %d operations (%v): %+v\nwant %+v", f.name, k+1, o, set, like)
				}
			}
			if len(got.Sets) != len(want.Sets) || len(got.Trackers) != len(want.Trackers) {
				t.Fatalf("%s, after %d operations: %s\nwant %s", f.name, k+1, printed(got), printed(want))
			}
		}
	}
}

// really does an operation in a directory.
func really(t *testing.T, dir string, o op) {
	t.Helper()
	at := filepath.Join(dir, o.name)
	switch o.do {
	case "mkdir":
		must.Do(t, os.MkdirAll(at, 0o755))
	case "create":
		must.Do(t, os.WriteFile(at, nil, 0o644))
	case "write":
		w, err := os.OpenFile(at, os.O_WRONLY|os.O_APPEND, 0)
		must.Do(t, err)
		_, err = w.Write(o.data)
		must.Do(t, err)
		must.Do(t, w.Close())
	case "rename":
		must.Do(t, os.Rename(at, filepath.Join(dir, o.to)))
	case "unlink", "rmdir":
		must.Do(t, os.Remove(at))
	}
}
