package ledger

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"datamove.dev/test/crash/rig"
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
	cuts := 25
	if testing.Short() {
		cuts = 3
	}
	xfs := rig.Disk(t, "xfs", 8<<30)
	image := filepath.Join(xfs, "disk.img")
	rig.Image(t, image, "ext4", powerDisk)
	for n := 0; n < cuts && !t.Failed(); n += 3 {
		for _, s := range powerCuts(t, xfs, image, min(3, cuts-n)) {
			s.said.compare(t, filepath.Join(rig.Loop(t, s.image, powerOptions), "ledger"), false)
		}
	}
}

// powerCuts runs a writer on the disk and cuts the power a few times meanwhile.
func powerCuts(t *testing.T, xfs, image string, cuts int) (taken []snapshot) {
	dir := rig.Loop(t, image, powerOptions)
	defer rig.Unmount(t, dir)
	child, out := start(t, childWrites, filepath.Join(dir, "ledger"))
	s, begun, heard := &told{}, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(heard)
		s.hear(t, out, func() { close(begun) })
	}()
	<-begun
	for n := range cuts {
		<-time.After(rand.N(400 * time.Millisecond)) // the random instant is what is tested
		said := s.soFar()
		cut := filepath.Join(xfs, fmt.Sprintf("cut-%d-%d.img", child.Process.Pid, n))
		if text, err := exec.Command("cp", "--reflink=always", image, cut).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, text)
		}
		taken = append(taken, snapshot{cut, said})
	}
	check(t, child.Process.Kill())
	<-heard
	_ = child.Wait() // always "killed"
	return taken
}
