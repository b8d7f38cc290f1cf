package client

import (
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/lustre"
	_ "datamove.dev/test/seed/property" // of rapid
)

// Whatever order records come in, however many of them come twice, and whichever are
// missing: what is given on is counted one by one, ends before the first that is missing,
// and it is told when one is.
//
//safety:4 with TestReadChanges
func TestOrderOfChanges(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Uint64Range(1, 1<<40).Draw(t, "first")
		count := rapid.IntRange(0, 300).Draw(t, "count")
		missing := rapid.SliceOfN(rapid.IntRange(0, 300), 0, 3).Draw(t, "missing")
		after := rapid.Uint64Range(0, uint64(count)).Draw(t, "after")
		var log []lustre.Change
		for i := range count {
			if !slices.Contains(missing, i) {
				log = append(log, lustre.Change{Index: first + uint64(i), Type: lustre.ChangeClose, Time: time.Unix(0, 0)})
			}
		}
		present := slices.Clone(log)
		for range rapid.IntRange(0, 100).Draw(t, "swaps") {
			if len(log) > 1 {
				i := rapid.IntRange(0, len(log)-2).Draw(t, "swapped")
				log[i], log[i+1] = log[i+1], log[i]
			}
		}
		if len(log) > 0 && rapid.Bool().Draw(t, "twice") {
			log = append(log, log[rapid.IntRange(0, len(log)-1).Draw(t, "which")])
		}

		l := newFakeLog(log...)
		l.perRead = rapid.IntRange(0, 7).Draw(t, "per read")
		start := first - 1 + after
		if after == 0 && first == 1 {
			start = 0
		}
		var got []uint64
		var failed error
		for r, err := range changesOf(l).Read(t.Context(), labFeed, start) {
			if err != nil {
				failed = err
				continue
			}
			got = append(got, r.Index)
		}

		want, gap := expected(present, start)
		if !slices.Equal(got, want) || errors.Is(failed, lustre.ErrGap) != gap || failed != nil && !gap {
			t.Fatalf("after %d of %d: %v, %v; want %v, a gap %v", start, len(present), got, failed, want, gap)
		}
	})
}

// expected is what is to be read of the records that are there, in their order.
func expected(present []lustre.Change, after uint64) (want []uint64, gap bool) {
	next := after + 1
	for _, r := range present {
		switch {
		case r.Index <= after:
			continue
		case after == 0 && want == nil: // a beginning is wherever the log begins
		case r.Index != next:
			return want, true
		}
		want, next = append(want, r.Index), r.Index+1
	}
	return want, false
}
