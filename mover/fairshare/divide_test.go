package fairshare

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestDivide(t *testing.T) {
	for _, row := range []struct {
		name             string
		total            int64
		demands, weights []int64
		want             []int64
	}{
		{"nobody", 100, nil, nil, []int64{}},
		{"one", 100, []int64{500}, nil, []int64{100}},
		{"equal demands", 90, []int64{50, 50, 50}, nil, []int64{30, 30, 30}},
		{"a small demand is met, the others share", 100, []int64{10, 80, 80}, nil, []int64{10, 45, 45}},
		{"step by step", 100, []int64{40, 10, 90, 26}, nil, []int64{32, 10, 32, 26}},
		{"all met: what is left is shared", 100, []int64{10, 20}, nil, []int64{45, 55}},
		{"who wants nothing gets nothing", 10, []int64{0, 80}, nil, []int64{0, 10}},
		{"unless all are met", 100, []int64{0, 20}, nil, []int64{40, 60}},
		{"by weight", 100, []int64{90, 90}, []int64{3, 1}, []int64{75, 25}},
		{"by weight, and met", 100, []int64{30, 90}, []int64{3, 1}, []int64{30, 70}},
		{"bad weights count as 1", 100, []int64{90, 90}, []int64{-3}, []int64{50, 50}},
		{"weights beyond bounds", 99, []int64{90, 90, 90}, []int64{math.MaxInt64, math.MaxInt64, math.MaxInt64}, []int64{33, 33, 33}},
		{"bad demands count as 0", 100, []int64{-90, 90}, nil, []int64{5, 95}},
		{"what can not be divided", 11, []int64{9, 9, 9}, nil, []int64{4, 4, 3}},
		{"what can not be divided is for who lacks something", 101, []int64{50, 90}, nil, []int64{50, 51}},
		{"fewer than there are", 2, []int64{9, 9, 9}, nil, []int64{1, 1, 0}},
		{"nothing", 0, []int64{9, 9}, nil, []int64{0, 0}},
		{"less than nothing", -5, []int64{9, 9}, nil, []int64{0, 0}},
		{"no overflow", math.MaxInt64, []int64{math.MaxInt64, math.MaxInt64}, []int64{1, 3}, []int64{1 << 61, 3<<61 - 1}},
	} {
		got := Divide(row.total, row.demands, row.weights)
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

func TestDivideIsMaxMin(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.OneOf(rapid.Int64Range(0, 100), rapid.Int64Range(0, math.MaxInt64))
		total := amount.Draw(t, "total")
		demands := rapid.SliceOfN(amount, 1, 20).Draw(t, "demands")
		weights := rapid.SliceOfN(rapid.Int64Range(1, 9), 0, 20).Draw(t, "weights")
		weight := func(i int) float64 {
			if i < len(weights) {
				return float64(weights[i])
			}
			return 1
		}
		shares := Divide(total, demands, weights)
		left, satisfied := total, true
		for i, share := range shares {
			if share < 0 || share > left {
				t.Fatalf("%v are more than %d", shares, total)
			}
			left -= share
			satisfied = satisfied && share >= demands[i]
		}
		if left != 0 {
			t.Fatalf("%v leave %d of %d", shares, left, total)
		}
		for i := range shares {
			if !satisfied && shares[i] > demands[i] {
				t.Fatalf("%v for %v: %d has more than it wants", shares, demands, i)
			}
			for j := range shares {
				level, other := float64(shares[i])/weight(i), float64(shares[j])/weight(j)
				if shares[i] < demands[i] && other > (level+1)*(1+1e-9) {
					t.Fatalf("%v for %v: %d lacks something, and %d has more for its weight", shares, demands, i, j)
				}
			}
		}
	})
}

func TestJain(t *testing.T) {
	for _, row := range []struct {
		name string
		xs   []float64
		want float64
	}{
		{"nobody", nil, 1},
		{"nothing", []float64{0, 0}, 1},
		{"one", []float64{7}, 1},
		{"equal", []float64{3, 3, 3}, 1},
		{"one of four has all", []float64{0, 9, 0, 0}, 0.25},
		{"one has twice as much", []float64{1, 2}, 0.9},
	} {
		if got := Jain(row.xs); math.Abs(got-row.want) > 1e-12 {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}
