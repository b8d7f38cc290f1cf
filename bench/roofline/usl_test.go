package roofline_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"datamove.dev/bench/roofline"
	"datamove.dev/mover"
	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// system is one by chance: what so many nodes of it would reach, and the roof that was measured alone, a little off. Some have a hard ceiling.
func system(r *rand.Rand) (truth func(n float64) float64, roof float64) {
	lambda, sigma, kappa := 5e9+20e9*r.Float64(), 0.02*r.Float64(), 0.0004*r.Float64()
	free := func(n float64) float64 { return lambda * n / (1 + sigma*(n-1) + kappa*n*(n-1)) }
	top := math.Inf(1)
	if r.IntN(3) == 0 {
		top = free(32) * (0.3 + 0.9*r.Float64())
	}
	truth = func(n float64) float64 { return min(top, free(n)) }
	return truth, min(top*(1+0.01*r.NormFloat64()), 40*lambda)
}

// TestExtrapolate: of 60 systems, or 1,000 with DATAMOVE_SOAK=1, with hard ceilings among them, the truth at 32 nodes is in the interval for nine in ten, where at least half of the nodes were run.
func TestExtrapolate(t *testing.T) {
	for name, sizes := range map[string][]int64{"half": {1, 2, 4, 8, 16}, "three quarters": {1, 2, 4, 8, 16, 24}} {
		t.Run(name, func(t *testing.T) {
			inside, width := uint64(0), 0.0
			first, systems := uint64(1), uint64(60) // always these: of 60 others fewer than nine in ten may be inside by chance
			if seed.Soak() {
				first, systems = seed.Of(t), 1000
			}
			for n := range systems {
				r := rand.New(rand.NewPCG(first+n, 2))
				truth, roof := system(r)
				var runs []roofline.Run
				for _, n := range sizes {
					run := roofline.Run{Nodes: n}
					for range 5 {
						run.Rates = append(run.Rates, truth(float64(n))*(1+0.03*r.NormFloat64()))
					}
					runs = append(runs, run)
				}
				e := must.Get(roofline.Extrapolate(runs, 32, roof))(t)
				is := truth(32)
				if e.Low <= is && is <= e.High {
					inside++
				}
				width += (e.High - e.Low) / is / float64(systems)
			}
			t.Logf("inside in %d of %d, an interval is %.0f %% wide", inside, systems, 100*width)
			if inside < systems*9/10 {
				t.Errorf("inside in %d of %d", inside, systems)
			}
			if width > 0.5 {
				t.Errorf("an interval that is %.0f %% wide says nothing", 100*width)
			}
		})
	}
}

// TestWithheld: of runs of fewer than half of the nodes nothing is said.
func TestWithheld(t *testing.T) {
	runs := []roofline.Run{{1, []float64{1e9}}, {2, []float64{2e9}}, {4, []float64{4e9}}}
	for nodes, want := range map[int64]error{8: nil, 9: mover.ErrUsage, 32: mover.ErrUsage} {
		if _, err := roofline.Extrapolate(runs, nodes, 1e12); !errors.Is(err, want) {
			t.Errorf("%d nodes: %v", nodes, err)
		}
	}
	if _, err := roofline.Extrapolate(append(runs, roofline.Run{8, []float64{math.NaN()}}), 8, 1e12); !errors.Is(err, mover.ErrUsage) {
		t.Errorf("a run of nothing: %v", err)
	}
}
