package report_test

import (
	"math"
	"strings"
	"testing"

	"datamove.dev/bench/report"
	"datamove.dev/bench/result"
)

// one is a phase of some seconds, that moves a number of bytes or does as many operations each second.
func one(suite, name string, unit result.Unit, nodes int, rate float64) result.Phase {
	const took = 400
	p := result.Phase{Suite: suite, Name: name, What: "8 ranks on some nodes, in blocks of 4 MiB", Unit: unit, Repeat: 1, NodeCount: nodes, Ranks: 8 * nodes}
	p.Last = result.Done{Seconds: took, Bytes: int64(rate * took), Ops: int64(rate * took)}
	p.First = result.Done{Seconds: took / 2, Bytes: int64(rate * took / 2 * 1.1), Ops: int64(rate * took / 2 * 1.1)}
	return p
}

func runOf(phases ...result.Phase) *result.Run {
	return &result.Run{Schema: result.Schema, ID: "0123456789abcdef", Phases: phases}
}

func runs(all ...*result.Run) []*result.Run { return all }

// TestSum: what is the same work is one phase, also of several files; and what failed is in no figure.
func TestSum(t *testing.T) {
	failed, wrong := one("large", "write", result.Bytes, 4, 90e9), one("large", "read", result.Bytes, 4, 30e9)
	failed.Repeat, failed.Failed, wrong.Wrong = 7, "n3 was lost", 2
	first := runOf(one("large", "write", result.Bytes, 4, 22e9), wrong, one("small", "stat", result.Ops, 4, 5e3), one("large", "write", result.Bytes, 1, 10e9), failed)
	second := runOf(one("large", "write", result.Bytes, 4, 24e9), one("large", "write", result.Bytes, 4, 20e9), one("large", "write", result.Bytes, 2, 18e9))
	r := report.Sum(runs(first, second), report.Options{})
	var names []string
	for _, p := range r.Phases {
		names = append(names, strings.Join([]string{p.Suite, p.Name, string(rune('0' + p.Nodes))}, " "))
	}
	if got, want := strings.Join(names, ", "), "large write 1, large write 2, large write 4, large read 4, small stat 4"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	p := &r.Phases[2]
	if p.Rate.Median != 22e9 || p.Rate.Count != 3 || p.Rate.Few || p.Rate.Low < 20e9 || p.Rate.High > 24e9 || math.Abs(p.First.Median-24.2e9) > 10 {
		t.Errorf("%+v, first %+v", p.Rate, p.First)
	}
	if p.Efficiency != 0.55 || len(p.Failed) != 1 || p.Failed[0] != "repeat 7: n3 was lost" || !p.Bad() {
		t.Errorf("efficiency %g, failed %q", p.Efficiency, p.Failed)
	}
	if p := r.Phases[3]; p.Wrong != 2 || !p.Bad() {
		t.Errorf("%d wrong blocks", p.Wrong)
	}
}

// TestNoRate: a phase that did nothing, or took no time, has no rate; it is not one of 0, nor one without an end.
func TestNoRate(t *testing.T) {
	idle, quick := one("large", "read", result.Bytes, 1, 0), one("large", "write", result.Bytes, 1, 1e9)
	quick.Last.Seconds = math.SmallestNonzeroFloat64
	r := report.Sum(runs(runOf(idle, quick)), report.Options{})
	for i, want := range []string{"nothing was done", "no time that can be measured"} {
		if p := r.Phases[i]; p.Rate.Count != 0 || len(p.Failed) != 1 || !strings.Contains(p.Failed[0], want) {
			t.Errorf("%s: %+v, %q", p.Name, p.Rate, p.Failed)
		}
	}
}

// TestScaling: the efficiency is of as many times what one node reaches; where one node was not run there is none; and what is done in two ways are two curves.
func TestScaling(t *testing.T) {
	other := func(p result.Phase) result.Phase {
		p.What = "8 ranks on some nodes, in blocks of 1 MiB"
		return p
	}
	r := report.Sum(runs(runOf(
		one("large", "write", result.Bytes, 1, 10e9), one("large", "write", result.Bytes, 2, 18e9), one("large", "write", result.Bytes, 4, 30e9),
		one("large", "read", result.Bytes, 2, 18e9), one("large", "read", result.Bytes, 4, 30e9),
		one("small", "stat", result.Ops, 4, 100),
		one("small", "read", result.Ops, 1, 100), one("small", "read", result.Ops, 2, 200), other(one("small", "read", result.Ops, 1, 60)), other(one("small", "read", result.Ops, 2, 90)),
	)), report.Options{})
	type curve struct {
		name    string
		way     string
		oneNode float64
		last    float64 // the efficiency with the most nodes
		points  int
	}
	var got []curve
	for _, s := range r.Scaling {
		got = append(got, curve{s.Suite + " " + s.Name, s.What, s.OneNode, s.Points[len(s.Points)-1].Efficiency, len(s.Points)})
	}
	want := []curve{{"large write", "", 10e9, 0.75, 3}, {"large read", "", 0, 0, 2}, {"small read", "in blocks of 4 MiB", 100, 1, 2}, {"small read", "in blocks of 1 MiB", 60, 0.75, 2}}
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%+v, want %+v", got[i], want[i])
		}
	}
}

// TestNotes: what a reader has to know is said: clocks, page caches, nodes that began apart, and few repeats.
func TestNotes(t *testing.T) {
	apart, cached := one("large", "write", result.Bytes, 2, 1e9), one("large", "read", result.Bytes, 2, 1e9)
	apart.Skew, apart.Cache, cached.Cache = 30, "direct", "warm: what is read may come from memory"
	run := runOf(apart, cached)
	run.Notes, run.Failed = []string{"the time of day of n2 is 3s off"}, "n2 was lost"
	r := report.Sum(runs(run), report.Options{})
	for _, want := range []string{"ended before its end: n2 was lost", "the time of day of n2 is 3s off", "large write on 2 nodes: nodes began up to 30.0 s apart, in a phase of 400 s",
		"page caches: direct (large write)", "page caches: warm: what is read may come from memory (large read)", "2 phases of fewer than 3 repeats"} {
		if !strings.Contains(strings.Join(r.Notes, "\n"), want) {
			t.Errorf("nothing says %q:\n%s", want, strings.Join(r.Notes, "\n"))
		}
	}
}
