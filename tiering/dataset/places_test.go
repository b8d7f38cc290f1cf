package dataset

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestPlaces: what meets an address is what a look at all places finds, in whatever order
// they came, and each is named once.
func TestPlaces(t *testing.T) {
	letters := rapid.SampledFrom([]string{"a", "b", "a.", "a-", "a\x01", "ü", "", "a0"})
	path := rapid.Custom(func(t *rapid.T) string {
		return rapid.SampledFrom([]string{"", "/", "b/"}).Draw(t, "root") + strings.Join(rapid.SliceOfN(letters, 0, 4).Draw(t, "path"), "/")
	})
	address := rapid.Custom(func(t *rapid.T) Address {
		return Address{rapid.SampledFrom([]string{"", "n1", "n2"}).Draw(t, "node"), path.Draw(t, "path")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var p Places[int]
		all := map[int]Address{}
		some := rapid.SliceOfN(address, 0, 60).Draw(t, "all")
		for i := range rapid.SampledFrom([]int{1, 30}).Draw(t, "times") * len(some) { // enough for many chunks
			all[i] = some[i%len(some)]
			p.Add(all[i], i)
			p.Add(all[i], i)
		}
		at := address.Draw(t, "at")
		var want []int
		for i, x := range all {
			if x.meets(at) {
				want = append(want, i)
			}
		}
		got := slices.Collect(p.Meeting(at))
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Fatalf("%q meets %v, want %v of %v", at, got, want, all)
		}
	})
}
