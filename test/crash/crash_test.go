// Package crash kills the real program at random instants, in every direction, and
// looks at what is left: after each kill every name at the target is whole, the old
// version or the new one; and the run that comes to its end leaves the trees equal
// and nothing of the earlier ones, and has sent at most what was in flight again.
//
// CRASH_ROUNDS is how many kills there are in all: 40, and 210 with DATAMOVE_SOAK=1. Their
// instants are of test/seed. The trees, the processes and the looking are those of
// package rig.
package crash

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"datamove.dev/mover/journal"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/seed"
)

func TestMain(m *testing.M) { rig.Main(m) }

// number reads a number from the environment.
func number(t *testing.T, name string, usual uint64) uint64 {
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

func rounds(t *testing.T) int {
	usual := uint64(40)
	switch {
	case seed.Soak():
		usual = 210
	case testing.Short():
		usual = 6
	}
	return int(number(t, "CRASH_ROUNDS", usual))
}

// world is one task: how to start it, and how a reader sees its target.
type world struct {
	program      *rig.Program
	args         []string
	want, former rig.Tree // what is to be there, and what was there; as see sees it
	see          func() rig.Tree
	equal        func() // looks at the end whether all is well
}

// directions make a new world for each life of a target.
var directions = []struct {
	name string
	make func(t *testing.T, b *bench) world
}{
	{"copy to memory", func(t *testing.T, b *bench) world { return b.toFiles(t, rig.Memory(t), false) }},
	{"copy to ext4", func(t *testing.T, b *bench) world { return b.toFiles(t, b.disk(t), false) }},
	{"sync to memory", func(t *testing.T, b *bench) world { return b.toFiles(t, rig.Memory(t), true) }},
	{"sync to ext4", func(t *testing.T, b *bench) world { return b.toFiles(t, b.disk(t), true) }},
	{"copy to S3", func(t *testing.T, b *bench) world { return b.toStore(t, false) }},
	{"sync to S3", func(t *testing.T, b *bench) world { return b.toStore(t, true) }},
	{"copy from S3", func(t *testing.T, b *bench) world { return b.fromStore(t) }},
}

func TestKills(t *testing.T) {
	rig.Root(t) // the trees have devices and files of others
	total := rounds(t)
	for i, d := range directions {
		t.Run(d.name, func(t *testing.T) {
			kills := total*(i+1)/len(directions) - total*i/len(directions)
			lives(t, seed.Rand(t), kills, d.make)
		})
	}
}

// lives goes through as many targets as it takes for the given number of kills.
// Each is killed until a run comes to its end.
func lives(t *testing.T, random *rand.Rand, kills int, make func(*testing.T, *bench) world) {
	b := newBench(t)
	begun := time.Now()
	w := make(t, b)
	whole := time.Since(begun)
	for first := true; kills > 0; first = false {
		if !first {
			w = make(t, b)
		}
		for kills > 0 {
			begun = time.Now()
			r := w.program.Start(t, w.args...)
			if first && whole > 0 { // the first life tells how long a run takes
				r.Want(0)
				whole = time.Since(begun)
				break
			}
			if !r.KillAfter(time.Duration(random.Int64N(int64(whole)))) {
				r.Want(0)
				break
			}
			kills--
			w.whole(t)
		}
		w.program.Do(t, 0, w.args...)
		w.whole(t)
		w.end(t)
		if t.Failed() {
			return
		}
	}
}

// whole looks at every name that a reader sees. What was there and stays is there
// at every moment.
func (w *world) whole(t *testing.T) {
	t.Helper()
	seen := w.see()
	for name, n := range seen {
		old, was := w.former[name]
		now, will := w.want[name]
		isOld, isNew := was && alike(n, old), will && alike(n, now)
		if !isOld && !isNew {
			t.Errorf("%q is neither the old nor the new version: %v", name, n)
		}
	}
	for name, now := range w.want {
		old, was := w.former[name]
		if _, there := seen[name]; was && !there && old.Type == now.Type {
			t.Errorf("%q was there and is gone", name)
		}
	}
}

// alike compares what has to be right as soon as there is a name. A directory
// gets its facts at the end.
func alike(a, b rig.Node) bool {
	if a.Type == fs.ModeDir && b.Type == fs.ModeDir {
		return true
	}
	return a.Content() == b.Content()
}

// end looks at what the last run left.
func (w *world) end(t *testing.T) {
	t.Helper()
	w.equal()
	state := filepath.Join(w.program.State, "datamove")
	if left := list(t, filepath.Join(state, "spool")); len(left) > 0 {
		t.Errorf("spools are left: %q", left)
	}
	for _, task := range list(t, filepath.Join(state, "tasks")) {
		j, err := journal.Open(filepath.Join(state, "tasks", task), journal.Options{})
		if err != nil {
			t.Error(err)
			continue
		}
		for _, r := range j.Left(t.Context()) {
			t.Errorf("the journal still has %q, %d parts of it, complete %v, draft %q", r.Name, len(r.Receipts), r.Complete, r.Token)
		}
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// duplicate copies a tree with all its facts, without our program.
func duplicate(t *testing.T, from, to string) {
	t.Helper()
	if out, err := exec.Command("cp", "-a", "--reflink=never", from, to).CombinedOutput(); err != nil {
		t.Fatalf("cp: %v\n%s", err, out)
	}
}
