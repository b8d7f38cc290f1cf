package state

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
)

const (
	powerDisk = 768 << 20
	// powerOptions mount the disk so that the kernel repairs nothing by itself.
	powerOptions = "data=writeback,noauto_da_alloc"
)

// snapshot is a disk that lost its power at an instant, and what was said before that.
type snapshot struct {
	image string
	said  *told
}

// TestPowerCut cuts the power of a disk while a process changes a ledger on it: an
// ext4 in a file of an XFS, where a clone of the file is made in one instant and has
// what had left the page cache by then. All that was durable is there, no epoch and
// no term comes again, and no change is there in part.
func TestPowerCut(t *testing.T) {
	rig.Root(t)
	random := kill.Random(t)
	cuts := kill.Times(3, 25)
	xfs := rig.Disk(t, "xfs", 8<<30)
	image := filepath.Join(xfs, "disk.img")
	rig.Image(t, image, "ext4", powerDisk)
	for n := 0; n < cuts && !t.Failed(); n += 3 {
		for _, s := range powerCuts(t, random, xfs, image, min(3, cuts-n)) {
			s.said.compare(t, filepath.Join(rig.Loop(t, s.image, powerOptions), "ledger"), false)
		}
	}
}

// powerCuts runs a writer on the disk and cuts the power a few times meanwhile, each time when some more changes are durable.
func powerCuts(t *testing.T, random *rand.Rand, xfs, image string, cuts int) (taken []snapshot) {
	dir := rig.Loop(t, image, powerOptions)
	defer rig.Unmount(t, dir)
	writer := kill.Start(t, "write", filepath.Join(dir, "ledger"))
	said := &told{}
	for n := range cuts {
		changes := 1 + random.IntN(20)
		t.Logf("cut after %d durable changes more", changes)
		writer.Until("durable", changes, said.hear(t))
		cut := filepath.Join(xfs, fmt.Sprintf("cut-%d-%d.img", writer.Process.Pid, n))
		if text, err := exec.Command("cp", "--reflink=always", image, cut).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, text)
		}
		before := *said // what it says later is appended, and seen by nobody who has this
		taken = append(taken, snapshot{cut, &before})
	}
	writer.Kill()
	return taken
}
