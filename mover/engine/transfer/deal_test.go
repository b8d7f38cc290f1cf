package transfer

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestPartsAreDealtInRuns: whoever takes parts of a file, and whatever comes back, each part
// is taken until it is done, once; what is given away is one run, and as long as nothing
// comes back, our own parts lie before all that are given away: one client beside another
// only where the two meet, and at the ends of runs.
func TestPartsAreDealtInRuns(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const bytes = awayBytes / 4
		l := &large{}
		n := rapid.IntRange(1, 200).Draw(t, "parts")
		l.entry.Size = int64(n) * bytes
		l.cut(bytes)
		done := rapid.SliceOfN(rapid.Bool(), n, n).Draw(t, "done by an earlier run")
		for i, d := range done {
			if d {
				l.have[i], l.taken[i] = true, true
				l.left--
			}
		}
		returns := rapid.Bool().Draw(t, "parts come back")
		held := map[int]bool{}
		ours, others := -1, n
		hold := func(parts ...int) {
			for _, i := range parts {
				if held[i] || done[i] {
					t.Fatalf("part %d is taken twice", i)
				}
				held[i] = true
			}
		}
		for l.claimable() {
			if rapid.Bool().Draw(t, "ours") {
				i, _ := l.take()
				hold(i)
				ours = max(ours, i)
			} else {
				run, _ := l.takeSome(rapid.IntRange(1, 20).Draw(t, "among"))
				hold(run...)
				if len(run) == 0 || len(run) > 4 || run[len(run)-1]-run[0] != len(run)-1 || !slices.IsSorted(run) {
					t.Fatalf("%v is given away", run)
				}
				others = min(others, run[0])
			}
			if !returns && ours >= others {
				t.Fatalf("our part %d lies behind part %d of another one", ours, others)
			}
			if returns && len(held) > 0 && rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				i := rapid.SampledFrom(keysOf(held)).Draw(t, "which")
				delete(held, i)
				l.flying--
				l.free(i)
			}
			if l.flying != len(held) || l.unclaimed() != l.left-len(held) {
				t.Fatalf("%d fly, %d are not claimed; %d are held of %d", l.flying, l.unclaimed(), len(held), l.left)
			}
		}
		if len(held) != l.left {
			t.Errorf("%d of %d parts were taken", len(held), l.left)
		}
	})
}

func keysOf(m map[int]bool) (keys []int) {
	for i := range m {
		keys = append(keys, i)
	}
	slices.Sort(keys)
	return keys
}
