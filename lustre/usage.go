package lustre

import (
	"math"
	"math/bits"
)

// TargetKind is what a server's target is for.
type TargetKind uint8

// The kinds of targets. Other file systems than Lustre have pools and no targets.
const (
	OST    TargetKind = iota + 1 // file data
	MDT                          // metadata
	InPool                       // a storage pool as a whole
)

var targetKinds = [...]string{"", "OST", "MDT", "pool"}

func (k TargetKind) String() string { return targetKinds[min(int(k), len(targetKinds)-1)] }

// Target is one part of a file system that can be full by itself.
type Target struct {
	Kind  TargetKind
	Index int    // of an OST or MDT
	Name  string // lab-OST0000_UUID, or the name of a pool
	Pools []string

	TotalBytes, FreeBytes int64 // Free is what an ordinary user can use
	TotalFiles, FreeFiles int64 // inodes or objects; 0 and 0 where they are not counted
	State                 TargetState
	// Inactive says why nothing is known of it; "" when it answers.
	Inactive string
}

// TargetState is a set of what a target says of itself (os_state).
type TargetState uint32

// The states.
const (
	Degraded      TargetState = 0x1
	ReadOnlyState TargetState = 0x2
	NoCreate      TargetState = 0x4
	NoSpace       TargetState = 0x20
	NoInodes      TargetState = 0x40
	NonRotational TargetState = 0x200
)

// Used is how full a target is, from 0 to 1.
func (t *Target) Used() float64 {
	if t.TotalBytes <= 0 {
		return 0
	}
	return 1 - float64(min(max(t.FreeBytes, 0), t.TotalBytes))/float64(t.TotalBytes)
}

// Times is n×unit, or the largest number there is: what servers and kernels say of
// themselves may be anything.
func Times(n, unit uint64) int64 {
	high, low := bits.Mul64(n, unit)
	if high > 0 || low > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(low)
}
