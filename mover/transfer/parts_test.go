package transfer

import (
	"testing"

	"pgregory.net/rapid"

	"datamove.dev/mover"
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
		{"too large", 100 * gib, gib, 0, 0},
	} {
		if got := width(c.size, c.target, c.source); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}

// TestPartsOfAnySize: whatever is asked for, the parts are within the limits, and what was
// planned once may be gone on with.
func TestPartsOfAnySize(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		to := mover.Traits{
			PartBytes: rapid.Int64Range(0, 64<<20).Draw(t, "usual"), PartMin: rapid.Int64Range(0, 5<<20).Draw(t, "least"),
			PartAlign: rapid.SampledFrom([]int64{0, 1, 4 << 10}).Draw(t, "alignment"), MaxParts: rapid.SampledFrom([]int{0, 10_000, 1 << 20}).Draw(t, "most"),
		}
		size := rapid.Int64Range(0, 5<<40).Draw(t, "size")
		w := width(size, rapid.Int64Range(-1, 1<<30).Draw(t, "target's width"), rapid.Int64Range(-1, 1<<30).Draw(t, "source's width"))
		n, err := partBytes(size, w, mover.Traits{}, to)
		if err != nil {
			t.Fatal(err)
		}
		if w > 0 && to.PartAlign <= 1 && n%w != 0 {
			t.Errorf("a part of %d is no multiple of %d", n, w)
		}
		if !planned(size, n, to) {
			t.Errorf("parts of %d for %d bytes could not be gone on with at %+v", n, size, to)
		}
	})
}
