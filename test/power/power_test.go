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
// POWER_CUTS is how many cuts there are on each disk: 20, and 60 with DATAMOVE_SOAK=1. Their
// instants, and what a cut loses, are of test/seed.
package power

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/power/work"
	"datamove.dev/test/seed"
)

func TestMain(m *testing.M) { rig.Main(m) }

// options mount the disk so that the kernel repairs nothing by itself: it may write a
// name before the data of its file, as POSIX allows.
const options = "data=writeback,noauto_da_alloc"

// disk holds an ext4 that can lose power.
type disk struct {
	mount string
	cut   func(t *testing.T) (image string) // what would be on it if the power went now
}

const diskBytes = 768 << 20

func TestPowerCut(t *testing.T) {
	for name, make := range map[string]func(*testing.T, *rand.Rand) disk{
		"in order":   orderedDisk,
		"forgetting": forgetfulDisk,
	} {
		t.Run(name, func(t *testing.T) {
			rig.Root(t)
			random := seed.Rand(t)
			cuts(t, make(t, random), random)
		})
	}
}

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

// cuts copies to the disk again and again, and cuts its power a few times in each run.
func cuts(t *testing.T, d disk, random *rand.Rand) {
	usual := uint64(20)
	switch {
	case seed.Soak():
		usual = 60
	case testing.Short():
		usual = 2
	}
	total := int(number(t, "POWER_CUTS", usual))
	w := work.Make(t, rig.Memory(t), rig.Memory(t))
	whole := episode(t, w, d, 0, 0, random) // how long a run takes
	for n, left := 1, total; left > 0 && !t.Failed(); n++ {
		some := min(left, 3)
		whole = episode(t, w, d, some, whole, random)
		left -= some
	}
}

// episode is one run, with so many cuts at random instants of the time that a
// whole run takes, and a bit longer. It returns how long the run took.
func episode(t *testing.T, w *work.Work, d disk, cuts int, whole time.Duration, random *rand.Rand) time.Duration {
	t.Helper()
	w.Prepare(t, d.mount)
	p := w.Program(t, d.mount)
	begun := time.Now()
	r := p.Start(t, w.Args(d.mount)...)
	defer work.Neighbour(t, d.mount)()
	var taken []snapshot
	instants := make([]time.Duration, cuts)
	for i := range instants {
		instants[i] = time.Duration(random.Int64N(int64(whole)*5/4 + 1))
	}
	slices.Sort(instants)
	for i, at := range instants {
		until := [...]func() bool{now, says(r), shows(work.Target(d.mount))}[i%3]
		said := pause(r, at-time.Since(begun), until)
		taken = append(taken, snapshot{d.cut(t), said})
	}
	r.Want(0)
	took := time.Since(begun)
	for _, s := range taken {
		check(t, w, s)
	}
	return took
}

// pause waits for an instant of a run, and then until something happens or the run
// ends. It returns what the run has said: what it says while the power goes may be
// too late.
func pause(r *rig.Run, d time.Duration, until func() bool) string {
	timer := time.NewTimer(d) // a random instant is what these tests are about
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Ended():
	}
	for !until() {
		select {
		case <-r.Ended():
			return r.Said()
		case <-time.After(100 * time.Microsecond):
		}
	}
	return r.Said()
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
	if err := os.WriteFile(boot, []byte("11111111-2222-3333-4444-555555555555\n"), 0o444); err != nil {
		t.Fatal(err)
	}
	mount := rig.Loop(t, s.image, options)
	w.Check(t, mount, s.said, []string{"unshare", "--mount", "sh", "-c", `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`, boot})
	rig.Unmount(t, mount)
	if err := os.Remove(s.image); err != nil {
		t.Error(err)
	}
}
