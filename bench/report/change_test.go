package report_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
)

// repeats are those of one phase, with noise.
func repeats(chance *rand.Rand, n int, rate, noise float64) *result.Run {
	run := runOf()
	for i := range n {
		p := one("large", "write", result.Bytes, 2, rate*(1+noise*chance.NormFloat64()))
		p.Repeat = i + 1
		run.Phases = append(run.Phases, p)
	}
	return run
}

// seen is in how many of all seeds a change is a regression.
func seen(n int, rate, noise float64) (regressions int) {
	for seed := range uint64(seeds) {
		chance := rand.New(rand.NewPCG(seed, uint64(n)))
		before, now := repeats(chance, n, 1e9, noise), repeats(chance, n, rate, noise)
		regressions += report.Sum(runs(now), report.Options{Baseline: runs(before)}).Baseline.Regressions
	}
	return regressions
}

const seeds = 120

// TestFalseAlarms: with a noise of 3 %, what has not changed is a regression in 1 of 20 at most, whatever the number of repeats.
func TestFalseAlarms(t *testing.T) {
	for _, n := range []int{1, 2, 3, 5, 7} {
		if got := seen(n, 1e9, 0.03); got > seeds*5/100 {
			t.Errorf("%d repeats: %d false alarms of %d", n, got, seeds)
		}
	}
}

// TestFound: with a noise of 3 %, what is 15 % slower is found in 19 of 20, by 5 repeats.
func TestFound(t *testing.T) {
	if got := seen(5, 0.85e9, 0.03); got < seeds*95/100 {
		t.Errorf("%d of %d are found", got, seeds)
	}
}

// TestChanges: what becomes of a phase, by its repeats then and now.
func TestChanges(t *testing.T) {
	failed := func(run *result.Run, at int) *result.Run {
		run.Phases[at].Failed = "n3 was lost"
		return run
	}
	wrong := func(run *result.Run) *result.Run {
		run.Phases[0].Wrong = 1
		return run
	}
	warm := func(run *result.Run) *result.Run {
		for i := range run.Phases {
			run.Phases[i].Cache = "warm"
		}
		return run
	}
	of := func(rates ...float64) *result.Run {
		run := runOf()
		for _, rate := range rates {
			run.Phases = append(run.Phases, one("large", "write", result.Bytes, 2, rate*1e9))
		}
		return run
	}
	for _, row := range []struct {
		name        string
		before, now *result.Run
		want        report.Verdict
		why         string
	}{
		{"the same", of(10, 10.1, 9.9), of(10, 10.1, 9.9), report.Alike, ""},
		{"slower", of(10, 10.1, 9.9), of(8, 8.1, 7.9), report.Slower, ""},
		{"faster", of(10, 10.1, 9.9), of(12, 12.1, 11.9), report.Faster, ""},
		{"slower, and tolerated", of(10, 10.01, 9.99), of(9.6, 9.61, 9.59), report.Alike, ""},
		{"slower, and it may be noise", of(10, 11, 9), of(9, 10.5, 7), report.Alike, ""},
		{"two repeats, 15 % slower", of(10, 10.1), of(8.5, 8.6), report.Alike, "noise can not be told"},
		{"two repeats, 25 % slower", of(10, 10.1), of(7.4, 7.5), report.Slower, "noise can not be told"},
		{"one repeat beside many, 25 % slower", of(10, 10.1, 9.9, 10, 10), of(7.4), report.Slower, "noise can not be told"},
		{"one repeat, 25 % faster", of(10), of(12.6), report.Faster, "noise can not be told"},
		{"missing", of(10, 10, 10), runOf(), report.Missing, "it was not done"},
		{"all failed", of(10), failed(of(10), 0), report.Broken, "n3 was lost"},
		{"one failed", of(10, 10, 10), failed(of(10, 10, 10, 10), 2), report.Broken, "n3 was lost"},
		{"one failed as one did then", failed(of(10, 10, 10, 10), 1), failed(of(10, 10, 10, 10), 2), report.Alike, ""},
		{"all failed as they did then", failed(of(10), 0), failed(of(10), 0), report.Alike, "it failed then, too"},
		{"all failed, and then only one", failed(of(10, 10, 10, 10), 1), failed(of(10), 0), report.Broken, "n3 was lost"},
		{"wrong blocks, and then one failed", failed(of(10, 10, 10, 10), 1), wrong(of(10, 10, 10, 10)), report.Broken, "wrong blocks: 1"},
		{"it is well again", failed(of(10), 0), of(10), report.Fresh, "it failed then"},
		{"wrong blocks", of(10, 10, 10), wrong(of(10, 10, 10)), report.Broken, "wrong blocks: 1"},
		{"new", runOf(), of(10), report.Fresh, "no such phase"},
		{"from memory then", warm(of(20, 20, 20)), of(10, 10, 10), report.Slower, "page caches, or syncing, were not as they are now"},
	} {
		b := report.Sum(runs(row.now), report.Options{Baseline: runs(row.before)}).Baseline
		c := b.Changes[0]
		if len(b.Changes) != 1 || c.Verdict != row.want || !strings.Contains(c.Why, row.why) || row.why == "" && c.Why != "" {
			t.Errorf("%s: %s (%s), want %s (%s)", row.name, c.Verdict, c.Why, row.want, row.why)
		}
		bad := row.want == report.Slower || row.want == report.Broken || row.want == report.Missing
		if c.Regression() != bad || (b.Regressions == 1) != bad {
			t.Errorf("%s: a regression: %v, and %d are counted", row.name, c.Regression(), b.Regressions)
		}
	}
}

// TestTolerance: what somebody tolerates is tolerated.
func TestTolerance(t *testing.T) {
	chance := rand.New(rand.NewPCG(1, 1))
	before, now := runs(repeats(chance, 5, 1e9, 0.001)), runs(repeats(chance, 5, 0.88e9, 0.001))
	for tolerance, want := range map[float64]int{0: 1, 0.1: 1, 0.15: 0} {
		if b := report.Sum(now, report.Options{Baseline: before, Tolerance: tolerance}).Baseline; b.Regressions != want {
			t.Errorf("a tolerance of %g: %d regressions, want %d", tolerance, b.Regressions, want)
		}
	}
}
