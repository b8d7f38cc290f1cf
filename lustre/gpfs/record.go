package gpfs

import (
	"fmt"
	"math"
)

// record has values by their names: an object of a reply, or a line of -Y output. Both say
// the same in the same words, for the most part. The first mistake of a record is kept
// where it was read.
type record interface {
	text(name string) string
	number(name string) int64 // a whole number
	truth(name string) bool
	fail(name, why string)
}

// reading is the first thing that was not what it has to be, so that a caller that takes ten
// values checks one error.
type reading struct{ err error }

func (r *reading) fail(name, why string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %s", ErrReply, name, why)
	}
}

// count is a number that is not negative.
func count(r record, name string) int64 { return amount(r, name, 1) }

// kib is a count of KiB, in bytes.
func kib(r record, name string) int64 { return amount(r, name, 1<<10) }

func amount(r record, name string, unit int64) int64 {
	n := r.number(name)
	if n < 0 || n > math.MaxInt64/unit {
		r.fail(name, fmt.Sprintf("is %d, which can not be", n))
		return 0
	}
	return n * unit
}

func idOf(r record, name string) uint32 {
	n := count(r, name)
	if n > math.MaxUint32 {
		r.fail(name, fmt.Sprintf("is %d, and no ID of 32 bits", n))
		return 0
	}
	return uint32(n)
}
