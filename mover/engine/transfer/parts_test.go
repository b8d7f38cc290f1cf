package transfer

import (
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// TestWidth: parts fit to the stripes of both sides where they can, to those of the target
// where they can not, and a file is never cut into so few that workers are idle.
func TestWidth(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		what                 string
		size, target, source int64
		want                 int64
	}{
		{"no stripes", gib, 0, 0, 0},
		{"the target's", gib, 4 * mib, 0, 4 * mib},
		{"the source's", gib, 0, 16 * mib, 16 * mib},
		{"both", gib, 12 * mib, 8 * mib, 24 * mib},
		{"too large together", 64 * gib, 400 * mib, 384 * mib, 400 * mib},
		{"too few parts together", 100 * mib, 12 * mib, 8 * mib, 12 * mib},
		{"too few parts", 100 * mib, 64 * mib, 0, 0},
		{"too few parts of the target's, and not of the source's", 100 * mib, 64 * mib, 4 * mib, 0},
		{"too large", 100 * gib, gib, 0, 0},
	} {
		if got := width(c.size, c.target, c.source); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// TestPartsAreNoLargerThanNeeded: a size that is a multiple already stays, and others become the next one.
func TestPartsAreNoLargerThanNeeded(t *testing.T) {
	const kib, mib, gib = int64(1) << 10, int64(1) << 20, int64(1) << 30
	for _, c := range []struct {
		what        string
		size, width int64
		usual       int64
		align       int64
		want        int64
	}{
		{"as usual", gib, 0, 8 * mib, 0, 8 * mib},
		{"aligned already", gib, 0, 8 * mib, 4 * kib, 8 * mib},
		{"as wide already", gib, 4 * mib, 8 * mib, 4 * kib, 8 * mib},
		{"to the next width", gib, 3 * mib, 8 * mib, 4 * kib, 9 * mib},
		{"to the next block", gib, 0, 8*mib + 1, 4 * kib, 8*mib + 4*kib},
		{"as many as there may be", maxParts * 8 * mib, 0, mib, 4 * kib, 8 * mib},
	} {
		if got, err := partBytes(c.size, c.width, mover.Capabilities{}, mover.Capabilities{PartBytes: c.usual, PartAlign: c.align}); got != c.want || err != nil {
			t.Errorf("%s: %d, want %d (%v)", c.what, got, c.want, err)
		}
	}
}

// TestPlannedBefore: parts that an earlier run has planned are gone on with where the target takes them, and only there.
func TestPlannedBefore(t *testing.T) {
	const kib, mib = int64(1) << 10, int64(1) << 20
	to := mover.Capabilities{PartMin: 5 * mib, PartAlign: 4 * kib, MaxParts: 100}
	for _, c := range []struct {
		what    string
		size, n int64
		want    bool
	}{
		{"of the least size", 100 * mib, 5 * mib, true},
		{"smaller", 100 * mib, 5*mib - 4*kib, false},
		{"between two blocks", 100 * mib, 5*mib + 1, false},
		{"as many as there may be", 500 * mib, 5 * mib, true},
		{"one more", 500*mib + 1, 5 * mib, false},
		{"none", 100 * mib, 0, false},
	} {
		if got := planned(c.size, c.n, to); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}

// TestPartsOfAnySize: whatever is asked for, the parts are within the limits, and what was
// planned once may be gone on with.
func TestPartsOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := mover.Capabilities{
			PartBytes: rapid.Int64Range(0, 64<<20).Draw(t, "usual"), PartMin: rapid.Int64Range(0, 5<<20).Draw(t, "least"),
			PartAlign: rapid.SampledFrom([]int64{0, 1, 4 << 10}).Draw(t, "alignment"), MaxParts: rapid.SampledFrom([]int{0, 10_000, 1 << 20}).Draw(t, "most"),
		}
		size := rapid.Int64Range(0, 5<<40).Draw(t, "size")
		w := width(size, rapid.Int64Range(-1, 1<<30).Draw(t, "target's width"), rapid.Int64Range(-1, 1<<30).Draw(t, "source's width"))
		n := must.Get(partBytes(size, w, mover.Capabilities{}, to))(t)
		if w > 0 && to.PartAlign <= 1 && n%w != 0 {
			t.Errorf("a part of %d is no multiple of %d", n, w)
		}
		if !planned(size, n, to) {
			t.Errorf("parts of %d for %d bytes could not be gone on with at %+v", n, size, to)
		}
	})
}
