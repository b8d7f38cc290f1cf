package burst

import (
	"fmt"
	"math"

	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// The kinds of FSx for Lustre that we make, as its API calls them.
const (
	Scratch2    = "SCRATCH_2"
	Persistent2 = "PERSISTENT_2"
)

// throughputs are what a PERSISTENT_2 may have: MB/s per TiB (FSx API reference, CreateFileSystemLustreConfiguration).
var throughputs = []int64{125, 250, 500, 1000}

const (
	gib           = 1 << 30
	capacityLeast = 1200    // GiB
	capacityStep  = 2400    // GiB
	capacityMost  = 1 << 20 // GiB: a PiB; more is asked of AWS by a person
	keptSaves     = 3       // of each directory of checkpoints: two that are whole, and the one that is being written
)

// capacityOf is how many GiB a file system has that is to hold so many bytes: 1,200, or a multiple of 2,400 (FSx API reference, CreateFileSystem).
func capacityOf(bytes int64) (gibs int64, err error) {
	want := bytes / gib
	if bytes%gib > 0 {
		want++
	}
	switch {
	case want <= capacityLeast:
		return capacityLeast, nil
	case want > capacityMost:
		return 0, fmt.Errorf("%w: a file system of %s; want at most %s", mover.ErrUsage, units.Bytes(bytes), units.Bytes(capacityMost*gib))
	}
	return (want + capacityStep - 1) / capacityStep * capacityStep, nil
}

// Capacity is how many GiB the file system of a burst has that has so many bytes of data: as it says, or what the data needs, with three saves of each directory of
// checkpoints and a quarter more, because an FSx that is nearly full is slow.
func (b *Burst) Capacity(data int64) (gibs int64, err error) {
	f := b.Spec.Cloud.FileSystem
	if f == nil {
		return 0, nil
	}
	for _, c := range b.Spec.Checkpoints {
		data = plus(data, times(keptSaves, int64(c.Size)))
	}
	for _, r := range b.Spec.Results {
		data = plus(data, int64(r.Size))
	}
	if f.Capacity == 0 {
		return capacityOf(plus(data, data/4))
	}
	if gibs, err = capacityOf(int64(f.Capacity)); err == nil && gibs*gib < data {
		err = fmt.Errorf("%w: spec.cloud.fileSystem.capacity is %s, and data, checkpoints and results need %s", mover.ErrUsage, units.Bytes(int64(f.Capacity)), units.Bytes(data))
	}
	return gibs, err
}

// plus and times reckon with what is not negative. What is too large stays the largest number, and is refused where it is used.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64/a {
		return math.MaxInt64
	}
	return a * b
}
