package hostile

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"datamove.dev/test/crash/rig"
	"datamove.dev/test/kill"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// A link at the place of a directory, there before we come or swapped in while we
// work, never leads a write, a change of facts or a removal out of the target.
//
//safety:6 a parent is swapped with a link that leads out, and links are planted, under the hands of the real program
func TestNothingEscapes(t *testing.T) {
	base := rig.Memory(t)
	source, target, outside := filepath.Join(base, "source"), filepath.Join(base, "target"), filepath.Join(base, "outside")
	rig.Make(t, source, rig.Shape{Seed: 1, Small: 80})
	write(t, outside, "000/file-00001.bin", "precious")
	write(t, outside, "000/precious", "precious")
	write(t, outside, "001/precious", "precious")
	was, _ := rig.Look(t, outside)
	write(t, target, "small/000/old", "to be deleted")
	link := filepath.Join(target, "swap")
	must.Do(t, os.Symlink(outside, link))
	swaps, total := atomic.Int64{}, int64(kill.Times(10_000, 1_000_000))
	swap := func() {
		if exchange(filepath.Join(target, "small"), link) == nil {
			swaps.Add(1)
		}
	}
	if seed.Soak() {
		defer meanwhile(swap)() // also inside calls
	}
	p := rig.New(t)
	for n := 0; swaps.Load() < total || n < 4; n++ {
		args := []string{"copy", "--again", "-q", "--exclude", "swap", source, target}
		if n%2 == 1 {
			args = []string{"sync", "--delete", "-q", "--exclude", "swap", source, target}
		}
		p.EachCall(t, func(*rig.Run, int) bool { // it may fail in many ways, and must not escape
			for range 25 { // odd, so that the next call finds the other one
				swap()
			}
			return false
		}, args...)
		untouched(t, outside, was)
		if t.Failed() {
			break
		}
	}
	t.Logf("%d swaps", swaps.Load())
}

// A link that is there before is not followed, neither below the target nor in
// the source.
//
//safety:6 with TestNothingEscapes
func TestPlantedLinks(t *testing.T) {
	base := rig.Memory(t)
	source, target, outside := filepath.Join(base, "source"), filepath.Join(base, "target"), filepath.Join(base, "outside")
	write(t, source, "dir/file", "new")
	must.Do(t, os.Symlink("/etc", filepath.Join(source, "etc")))
	write(t, outside, "file", "precious")
	was, _ := rig.Look(t, outside)
	must.Do(t, os.MkdirAll(target, 0o755))
	must.Do(t, os.Symlink(outside, filepath.Join(target, "dir")))
	rig.New(t).Do(t, 0, "sync", "--delete", "-q", source, target)
	untouched(t, outside, was)
	rig.SameTrees(t, source, target, true)
}
