// Package crash kills the real program in every direction, and
// looks at what is left: after each kill every name at the target is whole, the old
// version or the new one; and the run that comes to its end leaves the trees equal
// and nothing of the earlier ones, and has sent at most what was in flight again.
//
// A kill comes at the n-th system call of a run that changes a file, or at its n-th
// request to a store, of so many as a run has that is left alone. DATAMOVE_SEED decides
// at which, and with DATAMOVE_SOAK=1 there are 30 for each direction, and not one. The
// trees, the processes and the looking are those of package rig.
package crash

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/mover/engine/journal"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Commands{"datamove": root.Main}) }

// world is one task: how to start it, and how a reader sees its target.
type world struct {
	program      *rig.Program
	args         []string
	kill         func(n int) (r *rig.Run, events int) // runs the task and kills it at its n-th event; 0 is never
	want, former rig.Tree                             // what is to be there, and what was there; as see sees it
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

//safety:1 real file systems and a real store after a kill -9: each visible file must have a content that its name had in the source at some time
//safety:3 a finished run leaves equal trees, no temporary name, no open upload
func TestKills(t *testing.T) {
	rig.Root(t) // the trees have devices and files of others
	for _, d := range directions {
		t.Run(d.name, func(t *testing.T) {
			lives(t, kill.Random(t), kill.Times(1, 30), d.make)
		})
	}
}

// lives goes through as many targets as it takes for the given number of kills.
// Each is killed until a run comes to its end.
func lives(t *testing.T, random *rand.Rand, kills int, make func(*testing.T, *bench) world) {
	b := newBench(t)
	b.random = random
	w := make(t, b)
	r, events := w.kill(0) // the first life tells how much a run does
	r.Want(0)
	w.ends(t)
	for kills > 0 && !t.Failed() {
		w = make(t, b)
		for kills > 0 {
			r, _ := w.kill(1 + random.IntN(events))
			if r.Exit != -1 {
				r.Want(0)
				break
			}
			kills--
			w.whole(t)
		}
		w.ends(t)
	}
}

// ends runs the task once more, and looks at what is there.
func (w *world) ends(t *testing.T) {
	t.Helper()
	w.program.Do(t, 0, w.args...)
	w.whole(t)
	w.end(t)
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
		must.Tell(t, j.Close())
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
