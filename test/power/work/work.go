// Package work is what a power cut interrupts, and what has to be true afterwards:
// a copy of several trees to a disk, by the real program, with its journal on the
// same disk. test/power cuts the power of a disk, test/power/outage that of a machine.
package work

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/must"
)

// Work is a copy of several trees, which publishes them one after the other. The
// first of them are there already, in an older version.
type Work struct {
	Sources []string
	State   string // where the program keeps its journal; "" is on the disk

	top, old     string   // where the sources are, and what is at the target at first
	want, former rig.Tree // below the target; read once
}

const (
	// Trees is how many are copied.
	Trees = 5
	// Olds is how many of them, the first ones, were there before.
	Olds = 2
)

// Make makes the trees below two empty directories. There are as many names as it takes for
// the program to say something several times: what it says is collected.
func Make(t *testing.T, sources, old string) *Work {
	t.Helper()
	for i := range Trees {
		below := func(dir string) string { return filepath.Join(dir, fmt.Sprint("tree-", i), fmt.Sprint("in-", i)) }
		rig.Make(t, below(sources), rig.Shape{Seed: uint64(i), Small: 150, Large: 1, LargeBytes: 5 << 20, Odd: i == 0, OddBytes: 8 << 20})
		if i < Olds {
			rig.Make(t, below(old), rig.Shape{Seed: uint64(100 + i), Small: 150, Large: 1, LargeBytes: 5 << 20})
		}
	}
	return At(sources, old)
}

// At is for the trees that Make has made.
func At(sources, old string) *Work {
	w := &Work{top: sources, old: old}
	for i := range Trees {
		w.Sources = append(w.Sources, filepath.Join(sources, fmt.Sprint("tree-", i)))
	}
	return w
}

// Look reads the trees. Check does it, too; but when it is called for several disks at once, it
// has to be done before.
func (w *Work) Look(t *testing.T) {
	t.Helper()
	if w.want == nil {
		w.want, _ = rig.Look(t, w.top)
		w.former, _ = rig.Look(t, w.old)
		forgetAtimes(w.want)
	}
}

// forgetAtimes is for trees that are compared after they were read.
func forgetAtimes(tree rig.Tree) {
	for name, n := range tree {
		n.Atime = 0
		tree[name] = n
	}
}

// Disk is how a disk is mounted.
type Disk struct{ Device, Mount, Type, Options string }

// Remnant is what is left of a disk in another machine, where its power was cut.
type Remnant struct {
	Disk
	Name string // of the test that looks at it
	Said string // by the program, before the cut
}

// Target is where a disk that is mounted has the trees.
func Target(mount string) string { return filepath.Join(mount, "target") }

// Program is the program, with its journal.
func (w *Work) Program(t *testing.T, mount string) *rig.Program {
	p := rig.New(t)
	p.State = cmp.Or(w.State, filepath.Join(mount, "state"))
	return p
}

// Args are the program's.
func (w *Work) Args(mount string) []string {
	return append([]string{"copy", "-o", "jsonl", "--into", Target(mount)}, w.Sources...)
}

// Prepare makes the target anew, and puts it on stable storage.
func (w *Work) Prepare(t *testing.T, mount string) {
	t.Helper()
	must.Do(t, os.RemoveAll(Target(mount)))
	for _, line := range [][]string{{"cp", "-a", w.old, Target(mount)}, {"sync", "-f", mount}} {
		if out, err := exec.Command(line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", line, err, out)
		}
	}
}

// Neighbour is somebody else on the same disk who syncs all the time. With it the
// names that we have made go to the disk at any moment, and not only when we ask for it.
func Neighbour(t *testing.T, mount string) (leave func()) {
	f := must.Get(os.Create(filepath.Join(mount, "neighbour")))(t)
	stop, left := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(left)
		defer f.Close()
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := fmt.Fprintln(f, n); err != nil {
				t.Error(err)
				return
			}
			if err := f.Sync(); err != nil {
				t.Error(err)
				return
			}
		}
	}()
	return func() { close(stop); <-left }
}

// Check looks at what is left after a cut, on a disk that is mounted. said is what
// the program had printed before, and wrapper is what it is run through once more, as
// the host would after its reboot.
func (w *Work) Check(t *testing.T, mount, said string, wrapper []string) {
	t.Helper()
	w.Look(t)
	seen, _ := rig.Look(t, Target(mount))
	for name, n := range seen {
		old, was := w.former[name]
		now, will := w.want[name]
		if n.Type != os.ModeDir && !(was && n.Content() == old.Content()) && !(will && n.Content() == now.Content()) {
			t.Errorf("%q is neither the old nor the new version: %v", name, n)
		}
	}
	for name, old := range w.former {
		if _, there := seen[name]; !there {
			t.Errorf("%q was there, on stable storage, and is gone: %v", name, old)
		}
	}
	done := w.done(t, said)
	t.Logf("%d of %d names were there, %d of them reported done", len(seen), len(w.want), len(done))
	for _, name := range done {
		is, want := seen[name], w.want[name]
		if is.Content() != want.Content() || want.Type == os.ModeDir && is != want { // a directory is its facts
			t.Errorf("%q was reported done; it should be %v\n\tand is %v", name, want, is)
		}
	}
	if !t.Failed() {
		w.again(t, mount, wrapper)
	}
}

// done returns the names of what was reported to have come.
func (w *Work) done(t *testing.T, said string) (names []string) {
	t.Helper()
	for line := range strings.Lines(said) {
		var item struct {
			Schema, Name, Error string
			Name64              []byte
		}
		if !strings.HasSuffix(line, "\n") {
			break // it was being written
		}
		if err := json.Unmarshal([]byte(line), &item); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if item.Schema != "datamove.item/v1" || item.Error != "" {
			continue
		}
		name := item.Name
		if item.Name64 != nil {
			name = string(item.Name64)
		}
		for i := range w.Sources {
			if full := filepath.Join(filepath.Base(w.Sources[i]), name); strings.HasPrefix(name, fmt.Sprintf("in-%d/", i)) {
				names = append(names, full)
			}
		}
	}
	return names
}

// again runs the command once more, which ends with equal trees.
func (w *Work) again(t *testing.T, mount string, wrapper []string) {
	t.Helper()
	p := w.Program(t, mount)
	p.Wrapper = wrapper
	r := p.Do(t, 0, w.Args(mount)...)
	if strings.Contains(r.Stderr(), "damaged journal") {
		t.Errorf("the journal did not survive: %s", r.Stderr())
	}
	got, temps := rig.Look(t, Target(mount))
	forgetAtimes(got)
	got["."] = w.want["."] // the folder that the trees went into is nobody's copy
	for _, line := range rig.Differences(w.want, got) {
		t.Error(line)
	}
	if len(temps) > 0 {
		t.Errorf("temporary names are left: %q", temps[:min(len(temps), 10)])
	}
	if _, err := exec.LookPath("rsync"); err != nil {
		return
	}
	for _, source := range w.Sources { // once more, with other eyes, where they are
		rig.SameTrees(t, source, filepath.Join(Target(mount), filepath.Base(source)), false)
	}
}
