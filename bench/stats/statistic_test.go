package stats_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"datamove.dev/bench/stats"
)

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{3, 1}, 2},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 100, 2}, 3},
	} {
		if got := stats.Median(row.values); got != row.want {
			t.Errorf("%v: %g, want %g", row.values, got, row.want)
		}
	}
	values := []float64{3, 1, 2}
	stats.Median(values)
	if values[0] != 3 {
		t.Error("what was measured is sorted now")
	}
}

// TestOf: of few values there are the lowest and the highest, of more an interval that is inside of these, and always the same.
func TestOf(t *testing.T) {
	if got := stats.Of(nil); got != (stats.Interval{Few: true}) {
		t.Errorf("%+v", got)
	}
	if got := stats.Of([]float64{4, 2}); got != (stats.Interval{Median: 3, Low: 2, High: 4, Count: 2, Few: true}) {
		t.Errorf("%+v", got)
	}
	values := []float64{100, 90, 101, 99, 102, 98, 140}
	got := stats.Of(values)
	if got != stats.Of(values) {
		t.Error("the same values have two intervals")
	}
	if got.Median != 100 || got.Few || got.Count != 7 || got.Low < 90 || got.Low > 98 || got.High < 101 || got.High >= 140 {
		t.Errorf("%+v", got)
	}
}

// TestRatio: few values make the widest ratio, and none none.
func TestRatio(t *testing.T) {
	if got := stats.Ratio([]float64{80, 90}, []float64{100, 100, 120}); got != (stats.Interval{Median: 0.85, Low: 80.0 / 120, High: 0.9, Count: 2, Few: true}) {
		t.Errorf("%+v", got)
	}
	for _, pair := range [][2][]float64{{nil, {1}}, {{1}, nil}, {{1}, {0, 1}}, {{0}, {1}}} {
		if got := stats.Ratio(pair[0], pair[1]); got != (stats.Interval{}) {
			t.Errorf("%v: %+v", pair, got)
		}
	}
	got := stats.Ratio([]float64{85, 86, 84}, []float64{100, 101, 99})
	if got.Median != 0.85 || got.Few || got.Low < 84.0/101 || got.High > 86.0/99 || got.High >= 1 {
		t.Errorf("%+v", got)
	}
}

const seeds = 120

// sample is what is measured of a rate, with noise.
func sample(chance *rand.Rand, n int, rate, noise float64) (values []float64) {
	for range n {
		values = append(values, max(rate/100, rate*(1+noise*chance.NormFloat64())))
	}
	return values
}

// share is how many in a hundred of all seeds see a ratio that is wholly below 1.
func share(n int, now, noise float64) float64 {
	seen := 0
	for seed := range uint64(seeds) {
		chance := rand.New(rand.NewPCG(seed, uint64(n)))
		if stats.Ratio(sample(chance, n, now, noise), sample(chance, n, 1, noise)).High < 1 {
			seen++
		}
	}
	return float64(seen) * 100 / seeds
}

// TestNoFalseAlarm: where nothing has changed, a change is seen in 1 of 20 at most, however much noise there is. Of 3 values that is what is possible at all: all of them are lower.
func TestNoFalseAlarm(t *testing.T) {
	for n, most := range map[int]float64{3: 8, 5: 5, 10: 5} {
		for _, noise := range []float64{0.03, 0.3} {
			if got := share(n, 1, noise); got > most {
				t.Errorf("%d values with a noise of %g: %g %% of all are seen slower, and are not", n, noise, got)
			}
		}
	}
}

// TestSlower: what is 15 % slower is found in 19 of 20, where the noise is 3 %.
func TestSlower(t *testing.T) {
	for _, n := range []int{3, 5, 10} {
		if got := share(n, 0.85, 0.03); got < 95 {
			t.Errorf("%d values: only %g %% of all are found", n, got)
		}
	}
}

// TestCoverage: the median that is looked for is in the interval of most samples.
func TestCoverage(t *testing.T) {
	in := 0
	for seed := range uint64(seeds) {
		i := stats.Of(sample(rand.New(rand.NewPCG(seed, 9)), 10, 1, 0.1))
		if i.Low <= 1 && i.High >= 1 {
			in++
		}
	}
	if in < seeds*90/100 {
		t.Errorf("the interval has the median in %d of %d", in, seeds)
	}
}

// FuzzOf: an interval is around its median, and inside of what was measured.
func FuzzOf(f *testing.F) {
	f.Add(uint64(1), uint8(5))
	f.Fuzz(func(t *testing.T, seed uint64, n uint8) {
		values := sample(rand.New(rand.NewPCG(seed, 1)), int(n%50)+1, 1e9, 0.5)
		low, high := math.Inf(1), math.Inf(-1)
		for _, v := range values {
			low, high = min(low, v), max(high, v)
		}
		if i := stats.Of(values); i.Low > i.Median || i.High < i.Median || i.Low < low || i.High > high {
			t.Errorf("%v: %+v", values, i)
		}
	})
}
