package report

import (
	"math"
	"testing"

	"datamove.dev/bench/result"
)

// amount is what rates come to.
func amount(b bins, rates []float64) (sum float64) {
	for i, r := range rates {
		sum += r * (b.edge(i+1) - b.edge(i))
	}
	return sum
}

// TestCourse: what was done between two looks is in the intervals of that time, all of it, also where nodes were looked at at different times.
func TestCourse(t *testing.T) {
	for _, row := range []struct {
		name   string
		end    float64
		shares []result.Share
		want   []float64 // rates
	}{
		{"alike", 3, []result.Share{{Every: 1, Series: []int64{10, 20, 30}}, {Every: 1, Series: []int64{1, 2, 3}}}, []float64{11, 22, 33}},
		{"one is looked at twice as often", 4, []result.Share{{Every: 2, Series: []int64{20, 40}}, {Every: 1, Series: []int64{1, 3, 5, 7}}}, []float64{12, 26}},
		{"the last interval is short", 2.5, []result.Share{{Every: 1, Series: []int64{10, 20, 5}}}, []float64{10, 20, 10}},
		{"the last interval is very short", 2.1, []result.Share{{Every: 1, Series: []int64{10, 22, 11}}}, []float64{10, 30}},
		{"one has ended before", 3, []result.Share{{Every: 1, Series: []int64{10, 20, 30}}, {Every: 1, Series: []int64{7}}}, []float64{17, 20, 30}},
		{"more was looked at than there was time", 2, []result.Share{{Every: 1, Series: []int64{10, 20, 30}}}, []float64{10, 50}},
		{"a figure from outside is below 0", 2, []result.Share{{Every: 1, Series: []int64{10, -20}}}, []float64{10, 0}},
	} {
		p := &result.Phase{Last: result.Done{Seconds: row.end}, PerNode: row.shares}
		got := courseOf(p)
		if len(got.rates) != len(row.want) {
			t.Errorf("%s: %v, want %v", row.name, got.rates, row.want)
			continue
		}
		for i := range row.want {
			if math.Abs(got.rates[i]-row.want[i]) > 1e-9 {
				t.Errorf("%s: %v, want %v", row.name, got.rates, row.want)
				break
			}
		}
	}
}

// TestCourseTargets: where no node was looked at, targets say the same.
func TestCourseTargets(t *testing.T) {
	p := &result.Phase{Last: result.Done{Seconds: 2}, PerNode: []result.Share{{Name: "n1"}}, PerTarget: []result.Share{{Every: 1, Series: []int64{4, 6}}}}
	if got := courseOf(p).rates; len(got) != 2 || got[0] != 4 || got[1] != 6 {
		t.Errorf("%v", got)
	}
	if got := courseOf(&result.Phase{Last: result.Done{Seconds: 2}}).rates; len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// TestWideBins: of a long series few intervals are made, and nothing is lost.
func TestWideBins(t *testing.T) {
	s := result.Share{Every: 0.01, Series: make([]int64, 100_000)}
	for i := range s.Series {
		s.Series[i] = int64(i % 7)
	}
	b := binsOf(&result.Phase{Last: result.Done{Seconds: 999.997}}, []result.Share{s}, heatBins)
	want := 0.0
	for _, n := range s.Series {
		want += float64(n)
	}
	if rates := b.rates(s); b.count > heatBins || math.Abs(amount(b, rates)-want) > want/1e6 {
		t.Errorf("%d intervals of %g, want %g", b.count, amount(b, rates), want)
	}
}

func TestTicks(t *testing.T) {
	for high, want := range map[float64][2]float64{0: {1, 0.5}, 7: {10, 5}, 48.3: {60, 20}, 0.9: {1, 0.5}, 999: {1000, 500}, 1: {1, 0.5}} {
		a, ticks := upTo(high, 3, 0, 100)
		if a.high != want[0] || ticks[1] != want[1] || a.at(a.high) != 100 || a.at(0) != 0 {
			t.Errorf("up to %g: to %g, ticks %v", high, a.high, ticks)
		}
	}
	a, ticks := decades(0.3, 4000, 100, 0)
	if a.low != 0.1 || a.high != 1e4 || len(ticks) != 6 || a.at(0.1) != 100 || a.at(1e4) != 0 || a.at(0) != 100 {
		t.Errorf("%+v, ticks %v", a, ticks)
	}
	if _, ticks := decades(200, 900, 100, 0); len(ticks) < 3 || ticks[0] != 100 || ticks[len(ticks)-1] != 1000 {
		t.Errorf("between 200 and 900: %v", ticks)
	}
}
