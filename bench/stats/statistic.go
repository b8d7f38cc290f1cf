// Package stats says what few measurements tell: their median, where it is likely to be, and whether one thing is faster than another.
//
// An [Interval] is of 95 in 100. It is found by the bootstrap: what was measured is drawn again, as often as there are values, each of them by chance and with replacement, and
// the median of that is taken, [tries] times; 95 in 100 of these medians are in the interval. With fewer than [Enough] values there is nothing to draw from: the interval is then from
// the lowest to the highest, and says that it is of [Interval.Few]. What is drawn is drawn from a fixed seed, so that the same values always have the same interval.
//
// Everything here is pure. TestNoFalseAlarm and TestSlower measure how often a change is seen that is none, and missed when it is one.
package stats

import (
	"math/rand/v2"
	"slices"
)

// Enough is how many values it takes before noise can be told from them.
const Enough = 3

// tries are how often values are drawn again.
const tries = 4000

// Interval is a median, and where it is likely to be.
type Interval struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Count  int     `json:"count"`         // of the values; of a ratio, the lower of both
	Few    bool    `json:"few,omitempty"` // there were fewer than Enough: Low and High are the lowest and the highest
}

// Median is the middle one of values, or the mean of the two in the middle; 0 of none.
func Median(values []float64) float64 { return middle(slices.Sorted(slices.Values(values))) }

// middle is the median of what is sorted.
func middle(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	half := len(v) / 2
	if len(v)%2 == 1 {
		return v[half]
	}
	return v[half-1] + (v[half]-v[half-1])/2
}

// Of is the median of values, and where it is likely to be. The zero Interval is of none.
func Of(values []float64) Interval {
	v := slices.Sorted(slices.Values(values))
	out := Interval{Median: middle(v), Count: len(v), Few: len(v) < Enough}
	switch {
	case len(v) == 0:
	case out.Few:
		out.Low, out.High = v[0], v[len(v)-1]
	default:
		d := newDrawer()
		out.Low, out.High = inner(func() float64 { return d.median(v) })
	}
	return out
}

// Ratio is the median of some values divided by that of others, and where that is likely to be: wholly below 1, and the first are lower. All values are above 0; the zero Interval
// is of none.
func Ratio(now, before []float64) Interval {
	a, b := slices.Sorted(slices.Values(now)), slices.Sorted(slices.Values(before))
	if len(a) == 0 || len(b) == 0 || a[0] <= 0 || b[0] <= 0 {
		return Interval{}
	}
	out := Interval{Median: middle(a) / middle(b), Count: min(len(a), len(b)), Few: min(len(a), len(b)) < Enough}
	if out.Few {
		out.Low, out.High = a[0]/b[len(b)-1], a[len(a)-1]/b[0]
		return out
	}
	d := newDrawer()
	out.Low, out.High = inner(func() float64 { return d.median(a) / d.median(b) })
	return out
}

// inner is between which values 95 in 100 of those are that draw makes.
func inner(draw func() float64) (low, high float64) {
	all := make([]float64, tries)
	for i := range all {
		all[i] = draw()
	}
	slices.Sort(all)
	return all[tries/40], all[tries-1-tries/40]
}

// drawer draws values again, from a fixed seed.
type drawer struct {
	random *rand.Rand
	times  []int // that each was drawn
}

func newDrawer() *drawer { return &drawer{random: rand.New(rand.NewPCG(1, 1))} }

// median is that of as many values as v has, each of them drawn from v, which is sorted.
func (d *drawer) median(v []float64) float64 {
	d.times = slices.Grow(d.times[:0], len(v))[:len(v)]
	clear(d.times)
	for range v {
		d.times[d.random.IntN(len(v))]++
	}
	half := len(v) / 2
	if len(v)%2 == 1 {
		return d.drawn(v, half)
	}
	return middle([]float64{d.drawn(v, half-1), d.drawn(v, half)})
}

// drawn is the n-th of the values that were drawn from v, in their order, from 0.
func (d *drawer) drawn(v []float64, n int) float64 {
	for i, times := range d.times {
		if n -= times; n < 0 {
			return v[i]
		}
	}
	return 0 // there are not so many
}
