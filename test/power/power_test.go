// Package power cuts the power of a disk while the real program copies to it, and
// looks at what is on the disk afterwards: everything that was reported done is
// there and whole, directories with their times, nothing under a final name is a part or something else, and the
// same command, with the journal that was on the same disk, ends with equal trees.
//
// There are two disks. One is an image in a file system with reflinks: a clone of it
// is what a disk has that loses power at that instant, with all that was written in
// order until then. The other one lies on a file system in user space that knows
// which writes were flushed: a cut loses a random subset of the others, in any
// order, as the cache of a real disk does.
//
// TestLostDisk takes the disk away, and not the power: the journal is on another one.
//
// A cut comes at the n-th system call of the program that changes a file, or when
// something has happened after that. DATAMOVE_SEED decides at which, and with
// DATAMOVE_SOAK=1 there are 60 cuts on each disk, and not 3.
package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"datamove.dev/cmd/datamove/root"
	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/power/work"
)

func TestMain(m *testing.M) { rig.Main(m, rig.Commands{"datamove": root.Main}) }

// options mount the disk so that the kernel repairs nothing by itself: it may write a
// name before the data of its file, as POSIX allows.
const options = "data=writeback,noauto_da_alloc"

// disk holds an ext4 that can lose power.
type disk struct {
	mount string
	cut   func(t *testing.T) (image string) // what would be on it if the power went now
}

const diskBytes = 768 << 20

//safety:3 everything that was reported done is there and whole, directories with their times, and the same command goes on
func TestPowerCut(t *testing.T) {
	for name, make := range map[string]func(*testing.T, *rand.Rand) disk{
		"in order":   orderedDisk,
		"forgetting": forgetfulDisk,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Root(t)
			random := kill.Random(t)
			cuts(t, make(t, random), random)
		})
	}
}

// cuts copies to the disk again and again, and cuts its power a few times in each run.
func cuts(t *testing.T, d disk, random *rand.Rand) {
	w := work.Make(t, rig.Memory(t), rig.Memory(t))
	whole := episode(t, w, d, nil) // how much a run does
	for left := kill.Times(3, 60); left > 0 && !t.Failed(); left -= 3 {
		at := make([]int, min(left, 3))
		for i := range at {
			if at[i] = 1 + random.IntN(whole); random.IntN(8) == 0 {
				at[i] += whole // after its end
			}
		}
		slices.Sort(at)
		episode(t, w, d, at)
	}
}

// episode is one run, with cuts at calls of these numbers, and one that is larger than there are calls at its end. It
// returns how many there were.
func episode(t *testing.T, w *work.Work, d disk, at []int) int {
	t.Helper()
	w.Prepare(t, d.mount)
	p := w.Program(t, d.mount)
	defer work.Neighbour(t, d.mount)()
	var taken []snapshot
	var until func() bool // of the next cut; nil is that its call has not come
	cut := func(r *rig.Run) {
		said := r.Said() // what it says while the power goes may be too late
		taken = append(taken, snapshot{d.cut(t), said})
		until = nil
	}
	r, calls := p.EachCall(t, func(r *rig.Run, call int) bool {
		if len(taken) == len(at) || call < at[len(taken)] {
			return false
		}
		if until == nil {
			until = [...]func() bool{now, says(r), shows(work.Target(d.mount))}[len(taken)%3]
		}
		if until() {
			t.Logf("cut at call %d", call)
			cut(r)
		}
		return false
	}, w.Args(d.mount)...)
	r.Want(0)
	for len(taken) < len(at) {
		t.Log("cut at the end")
		cut(r)
	}
	for _, s := range taken {
		check(t, w, s)
	}
	return calls
}

func now() bool { return true }

// says waits until the run says something more: it has just promised something.
func says(r *rig.Run) func() bool {
	before := -1
	return func() bool {
		n := len(r.Said())
		if before < 0 {
			before = n
		}
		return n > before
	}
}

// shows waits until a tree appears: its names are there, and not yet on the disk.
func shows(target string) func() bool {
	waiting := ""
	return func() bool {
		for i := work.Olds; waiting == "" && i < work.Trees; i++ {
			if name := filepath.Join(target, fmt.Sprint("tree-", i), fmt.Sprint("in-", i)); !there(name) {
				waiting = name
			}
		}
		return waiting == "" || there(waiting)
	}
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// snapshot is what was on the disk at a cut, and what had been said before.
type snapshot struct{ image, said string }

// check mounts what is left after a cut, and looks at it. The program is run once more
// in a mount namespace where the kernel says that it has booted since.
func check(t *testing.T, w *work.Work, s snapshot) {
	t.Helper()
	boot := filepath.Join(t.TempDir(), "boot_id")
	must.Do(t, os.WriteFile(boot, []byte("11111111-2222-3333-4444-555555555555\n"), 0o444))
	mount := rig.Loop(t, s.image, options)
	w.Check(t, mount, s.said, []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, boot})
	rig.Unmount(t, mount)
	must.Tell(t, os.Remove(s.image))
}
