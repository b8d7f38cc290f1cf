package report

import (
	"cmp"
	"fmt"
	"slices"

	"datamove.dev/bench/stats"
)

const (
	// usualTolerance is the share by which a phase may be slower.
	usualTolerance = 0.05
	// blindTolerance is the same where noise can not be told from change.
	blindTolerance = 0.20
)

// Verdict is what is said of a phase beside a baseline.
type Verdict string

// The verdicts. The first three are regressions.
const (
	Missing Verdict = "missing" // it was done then, and not now
	Broken  Verdict = "failed"  // it failed, or read what was not written, and did not then
	Slower  Verdict = "slower"  // beyond the noise, and the tolerance
	Faster  Verdict = "faster"
	Alike   Verdict = "alike" // no change that could be told from noise, or none that is worth it
	Fresh   Verdict = "new"   // there is nothing to compare it with
)

// Baseline is what has changed since.
type Baseline struct {
	Tolerance   float64  `json:"tolerance"`
	Regressions int      `json:"regressions"`
	Changes     []Change `json:"changes"` // regressions first, of these what is worst
}

// Change is one phase, then and now.
type Change struct {
	Key
	Verdict Verdict        `json:"verdict"`
	Before  stats.Interval `json:"before_per_second"`
	Now     stats.Interval `json:"now_per_second"`
	Ratio   stats.Interval `json:"ratio"` // of the medians, now / before
	Why     string         `json:"why,omitempty"`
}

// Regression says whether it is one.
func (c *Change) Regression() bool { return weight(c.Verdict) < 3 }

// String is a change in a few words: "large read on 8 nodes is slower, −18.2 %".
func (c *Change) String() string {
	text := plain(c.title()) + " is " + c.verdict()
	if c.Verdict == Slower {
		text += ", " + difference(c.Ratio.Median)
	}
	return text
}

// weight is how far up a verdict stands.
func weight(v Verdict) int {
	return slices.Index([]Verdict{Missing, Broken, Slower, Faster, Alike, Fresh}, v)
}

// compare says of each phase what has become of it.
func compare(before, now []Phase, tolerance float64) *Baseline {
	b := &Baseline{Tolerance: tolerance, Changes: []Change{}}
	then := map[Key]*Phase{}
	for i := range before {
		then[before[i].Key] = &before[i]
	}
	for i := range now {
		p := &now[i]
		if old := then[p.Key]; old != nil {
			b.Changes = append(b.Changes, change(old, p, tolerance))
			delete(then, p.Key)
		} else {
			b.Changes = append(b.Changes, Change{Key: p.Key, Verdict: Fresh, Now: p.Rate, Why: "the baseline has no such phase"})
		}
	}
	for i := range before {
		if p := &before[i]; then[p.Key] != nil {
			b.Changes = append(b.Changes, Change{Key: p.Key, Verdict: Missing, Before: p.Rate, Why: "the baseline has it, and it was not done"})
		}
	}
	slices.SortStableFunc(b.Changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(weight(x.Verdict), weight(y.Verdict)), cmp.Compare(x.Ratio.Median, y.Ratio.Median))
	})
	for i := range b.Changes {
		if b.Changes[i].Regression() {
			b.Regressions++
		}
	}
	return b
}

// change compares a phase with what it was.
func change(old, p *Phase, tolerance float64) Change {
	c := Change{Key: p.Key, Before: old.Rate, Now: p.Rate, Ratio: stats.Ratio(p.rates(), old.rates())}
	switch {
	case p.worse(old):
		c.Verdict, c.Why = Broken, trouble(p)
	case len(p.good) == 0:
		c.Verdict, c.Why = Alike, "it failed then, too"
	case len(old.good) == 0:
		c.Verdict, c.Why = Fresh, "it failed then"
	default:
		c.Verdict, c.Why = judge(c.Ratio, tolerance)
	}
	if c.Ratio.Count > 0 && (old.Cache != p.Cache || old.Durable != p.Durable) {
		c.Why = joined(c.Why, "page caches, or syncing, were not as they are now")
	}
	return c
}

// worse says whether a phase failed, or read what was not written, in a way in which it did not before.
func (p *Phase) worse(old *Phase) bool {
	return p.Wrong > 0 && old.Wrong == 0 || len(p.Failed) > 0 && len(old.Failed) == 0 || len(p.good) == 0 && len(old.good) > 0
}

// judge says whether a ratio is a change.
func judge(ratio stats.Interval, tolerance float64) (v Verdict, why string) {
	low, high := ratio.Low, ratio.High
	if ratio.Few {
		why = fmt.Sprintf("fewer than %d repeats: noise can not be told", stats.Enough)
		tolerance, low, high = max(tolerance, blindTolerance), ratio.Median, ratio.Median
	}
	switch {
	case high < 1 && ratio.Median <= 1-tolerance:
		return Slower, why
	case low > 1 && ratio.Median >= 1+tolerance:
		return Faster, why
	}
	return Alike, why
}

// trouble says what is wrong with a phase.
func trouble(p *Phase) (why string) {
	if p.Wrong > 0 {
		why = fmt.Sprintf("wrong blocks: %d", p.Wrong)
	}
	if len(p.Failed) > 0 {
		why = joined(why, p.Failed[0])
	}
	if more := len(p.Failed) - 1; more > 0 {
		why += fmt.Sprintf("; and %d more", more)
	}
	return why
}

func joined(a, b string) string {
	if a == "" {
		return b
	}
	return a + "; " + b
}
