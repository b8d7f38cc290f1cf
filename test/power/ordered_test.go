package power

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"testing"

	"datamove.dev/test/crash/rig"
)

// orderedDisk is an ext4 in a file of an XFS. A clone of the file is made in one
// instant, and has every write that was answered before, and none after.
func orderedDisk(t *testing.T, _ *rand.Rand) disk {
	xfs := rig.Disk(t, "xfs", 4<<30)
	image := filepath.Join(xfs, "disk.img")
	rig.Image(t, image, "ext4", diskBytes)
	n := 0
	return disk{rig.Loop(t, image, options), func(t *testing.T) string {
		n++
		cut := filepath.Join(xfs, fmt.Sprintf("cut-%d.img", n))
		if out, err := exec.Command("cp", "--reflink=always", image, cut).CombinedOutput(); err != nil {
			t.Fatalf("cp: %v\n%s", err, out)
		}
		return cut
	}}
}
