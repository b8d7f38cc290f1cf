package mover_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
)

// TestTimeRange: what a place may have made of a time is the same, and nothing else.
func TestTimeRange(t *testing.T) {
	at := func(sec int64, nsec int32) mover.Time { return mover.Time{Sec: sec, Nsec: nsec} }
	all, noSign, unsure := mover.TimeRange{}, mover.TimeRange{Last: math.MaxUint32}, mover.TimeRange{Unsure: true}
	seconds := mover.TimeRange{First: math.MinInt32, Last: math.MaxInt32, Grain: time.Second}
	for _, c := range []struct {
		what string
		r    mover.TimeRange
		a, b mover.Time
		want bool
	}{
		{"itself", all, at(5, 7), at(5, 7), true},
		{"a nanosecond", all, at(5, 7), at(5, 8), false},
		{"64 bits are kept", all, at(-86_400, 0), at(1<<32-86_400, 0), false},
		{"an age", mover.TimeRange{Grain: time.Second}, at(math.MinInt64, 0), at(math.MaxInt64, 0), false},
		{"the fraction is cut off", seconds, at(5, 999_999_999), at(5, 0), true},
		{"before 1970, too", seconds, at(-5, 999_999_999), at(-5, 0), true},
		{"another second", seconds, at(5, 0), at(6, 0), false},
		{"the last one", seconds, at(4_000_000_000, 7), at(math.MaxInt32, 0), true},
		{"the last one, with a fraction", seconds, at(math.MaxInt32, 7), at(math.MaxInt32, 0), true},
		{"the first one", seconds, at(-3_000_000_000, 7), at(math.MinInt32, 0), true},
		{"not the first one", seconds, at(-3_000_000_000, 7), at(math.MinInt32+1, 0), false},
		{"high bits are lost", seconds, at(4_000_000_000, 7), at(4_000_000_000-1<<32, 0), true},
		{"other bits", seconds, at(4_000_000_000, 7), at(4_000_000_001-1<<32, 0), false},
		{"the sign is lost", noSign, at(-86_400, 5), at(1<<32-86_400, 5), true},
		{"the sign is lost, and a second", noSign, at(-86_400, 5), at(1<<32-86_399, 5), false},
		{"no time before 1970", noSign, at(-1, 5), at(0, 0), true},
		{"the last one without a sign", noSign, at(1<<40, 5), at(math.MaxUint32, 0), true},
		{"all 64 bits, by name", mover.TimeRange{First: math.MinInt64, Last: math.MaxInt64}, at(0, 1), at(0, 2), false},
		{"all 64 bits, by name, the last one", mover.TimeRange{First: math.MinInt64, Last: math.MaxInt64}, at(math.MaxInt64, 1), at(math.MaxInt64, 0), true},
		{"a server keeps seconds", unsure, at(5, 7), at(5, 0), true},
		{"and kept them where the time comes from", unsure, at(5, 0), at(5, 7), true},
		{"microseconds", unsure, at(5, 1_234_567), at(5, 1_234_000), true},
		{"a tenth of one", unsure, at(5, 1_234_567), at(5, 1_234_500), true},
		{"two seconds, before 1970", unsure, at(-5, 7), at(-6, 0), true},
		{"no grain", unsure, at(5, 1_234_567), at(5, 1_234_560), false},
		{"another fraction", unsure, at(5, 7), at(5, 8), false},
		{"whole seconds that differ", unsure, at(5, 0), at(4, 0), false},
		{"the same fraction of another second", unsure, at(5, 7), at(4, 7), false},
		{"rounded up", unsure, at(5, 999_999_999), at(6, 0), false},
		{"seconds without a sign", mover.TimeRange{Last: math.MaxUint32, Unsure: true}, at(5, 7), at(5, 0), true},
	} {
		if got := c.r.Same(c.a, c.b); got != c.want {
			t.Errorf("%s: %v and %v in %+v: %v", c.what, c.a, c.b, c.r, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		r := mover.TimeRange{First: rapid.Int64Max(0).Draw(t, "first"), Last: rapid.Int64Min(1).Draw(t, "last")}
		a := at(rapid.Int64().Draw(t, "sec"), rapid.Int32Range(0, 999_999_999).Draw(t, "nsec"))
		if !r.Same(a, a) || !r.Same(a, mover.Time{Sec: min(max(a.Sec, r.First), r.Last)}) && (a.Sec < r.First || a.Sec > r.Last) {
			t.Errorf("%v is not what %+v makes of it", a, r)
		}
	})
}
