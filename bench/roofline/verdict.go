package roofline

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// Verdict is what is said of a target.
type Verdict string

// The verdicts, as the package has them.
const (
	Validated    Verdict = "validated"
	Modelled     Verdict = "modelled"
	Extrapolated Verdict = "extrapolated"
	Refuted      Verdict = "refuted"
)

// rank orders verdicts, the weakest first; one that is none is last.
func (v Verdict) rank() int {
	all := []Verdict{Refuted, Modelled, Extrapolated, Validated}
	if i := slices.Index(all, v); i >= 0 {
		return i
	}
	return len(all)
}

// Answer is what the model says of one path.
type Answer struct {
	Path     Path             `json:"path"`
	Target   float64          `json:"target_gb_per_s,omitempty"`
	Verdict  Verdict          `json:"verdict,omitempty"` // none without a target
	Binding  string           `json:"binding"`
	Roof     float64          `json:"roof_gb_per_s"`
	Missing  map[string]int64 `json:"missing"`  // by ceiling: units more that it takes
	Declared []string         `json:"declared"` // ceilings that are declared, and not measured
	Ceilings []CeilingView    `json:"ceilings"`
	OneDown  float64          `json:"roof_gb_per_s_with_one_oss_down,omitempty"`
	Cost     float64          `json:"cost_per_gb_per_s,omitempty"`
	// Of runs:
	Measured *Measurement `json:"measured,omitempty"` // of the most nodes
	Estimate *Projection  `json:"estimate,omitempty"` // of all nodes
	Notes    []string     `json:"notes,omitempty"`    // why a run does not say more
}

// Projection is what all nodes are likely to reach, in GB/s.
type Projection struct {
	Nodes   int64   `json:"nodes"`
	Likely  float64 `json:"gb_per_s"`
	Low     float64 `json:"gb_per_s_low"` // nine in ten are between
	High    float64 `json:"gb_per_s_high"`
	Ceiling float64 `json:"ceiling_gb_per_s,omitempty"` // that the runs have reached
}

// CeilingView is a ceiling as it is written.
type CeilingView struct {
	Name     string  `json:"name"`
	Units    int64   `json:"units"`
	Unit     string  `json:"unit"`
	Per      float64 `json:"gb_per_s_each"`
	Total    float64 `json:"gb_per_s"`
	Measured bool    `json:"measured"`
	Missing  int64   `json:"missing,omitempty"`
}

// Judge says what the roof of a path, and what was measured of it, means for a target, in bytes per second; 0 is none.
func (c *Cluster) Judge(p Path, target float64, runs ...*result.Run) Answer {
	out := c.roof(p, target)
	e := EvidenceOf(runs, p)
	if len(runs) > 0 {
		c.weigh(&out, &e)
	}
	return out
}

// Bindings of a verdict that no ceiling gives.
const (
	byRuns = "measured"     // all nodes were run, and did not reach it
	byFit  = "extrapolated" // what fewer nodes reached shows that all do not reach it
)

// above is how much more than the roof may be measured before the one or the other is wrong.
const above = 1.05

// weigh holds what was measured against the roof and the target.
func (c *Cluster) weigh(out *Answer, e *Evidence) {
	say := func(format string, args ...any) { out.Notes = append(out.Notes, fmt.Sprintf(format, args...)) }
	out.Notes = append(out.Notes, e.Notes...)
	largest := e.largest()
	if largest == nil {
		say("no run has measured this path: it takes suite large, or io500")
		return
	}
	m, all := largest.measurement(), c.Clients.Nodes
	out.Measured = &m
	switch {
	case m.Rate > above*out.Roof:
		say("%.4g GB/s were measured, and the roof is %.4g by %s: a ceiling is declared wrongly, or what was read came from a cache", m.Rate, out.Roof, out.Binding)
	case out.Verdict != Modelled: // the roof has said it, or nothing was asked for
	case m.Nodes < all:
		c.project(out, e)
	case m.Repeats < leastRepeats:
		say("it was measured %d times: 3 make a verdict, and 5 a good one", m.Repeats)
	case m.High < out.Target:
		out.Verdict, out.Binding = Refuted, byRuns
		say("all %d nodes reached %.4g GB/s (%.4g to %.4g), %.0f %% of the roof, and no ceiling that is known holds them back", m.Nodes, m.Rate, m.Low, m.High, 100*m.Rate/out.Roof)
	case m.Low < out.Target:
		say("%.4g GB/s were measured (%.4g to %.4g): that is too near to the target to say whether it is reached; repeat it more often", m.Rate, m.Low, m.High)
	case !e.Verified:
		say("what was read was not compared with what was written: without suite large's verify nothing is validated")
	default:
		out.Verdict = Validated
	}
}

// project says what all nodes are likely to reach, of runs of fewer.
func (c *Cluster) project(out *Answer, e *Evidence) {
	all := c.Clients.Nodes
	estimate, err := Extrapolate(e.Runs, all, out.Roof*1e9)
	if err != nil {
		out.Notes = append(out.Notes, strings.TrimPrefix(err.Error(), mover.ErrUsage.Error()+": "))
		return
	}
	out.Estimate = &Projection{all, estimate.Likely / 1e9, estimate.Low / 1e9, estimate.High / 1e9, estimate.Ceiling / 1e9}
	switch {
	case out.Estimate.Low >= out.Target:
		out.Verdict = Extrapolated
	case out.Estimate.High < out.Target:
		out.Verdict, out.Binding = Refuted, byFit
	default:
		out.Notes = append(out.Notes, "the target is inside of what is likely: the runs do not say whether it is reached")
	}
}

// roof is an answer of ceilings alone.
func (c *Cluster) roof(p Path, target float64) Answer {
	all := c.Ceilings(p)
	out := Answer{Path: p, Target: target / 1e9, Binding: all[0].Name, Roof: all[0].Total() / 1e9, Missing: map[string]int64{}, Declared: []string{}}
	for i := range all {
		one := &all[i]
		view := CeilingView{one.Name, one.Units, one.Unit, one.Per / 1e9, one.Total() / 1e9, one.Measured, 0}
		if !one.Measured {
			out.Declared = append(out.Declared, one.Name)
		}
		if n := one.Missing(target); target > 0 && n > 0 {
			view.Missing, out.Missing[one.Name] = n, n
		}
		out.Ceilings = append(out.Ceilings, view)
	}
	if target > 0 {
		out.Verdict = Modelled
		if len(out.Missing) > 0 {
			out.Verdict = Refuted
		}
	}
	if c.OSS.Nodes > 1 {
		roof := c.Without().Roof(p)
		out.OneDown = roof.Total() / 1e9
	}
	if price := c.Price(); price > 0 {
		out.Cost = price / out.Roof
	}
	return out
}

// Report is what the model says of a cluster: of what is asked of it, and of that what is worst on top.
type Report struct {
	Schema  string `json:"schema"` // datamove.model/v1
	Cluster string `json:"cluster"`
	Answer
	Paths []Answer `json:"paths"`
}

// Report makes one.
func (c *Cluster) Report(runs ...*result.Run) Report {
	all := c.Answers(runs...)
	worst := all[0]
	for _, a := range all {
		if a.Verdict != "" && a.Verdict.rank() < worst.Verdict.rank() {
			worst = a
		}
	}
	return Report{"datamove.model/v1", c.Name, worst, all}
}

// Answers are those of the targets of a cluster, or, without one, of all paths.
func (c *Cluster) Answers(runs ...*result.Run) (all []Answer) {
	t := c.Target
	if t == nil {
		t = &Target{}
	}
	if c.Target == nil || t.Read > 0 {
		all = append(all, c.Judge(Reading, float64(t.Read), runs...))
	}
	if c.Target == nil || t.Write > 0 {
		all = append(all, c.Judge(Writing, float64(t.Write), runs...))
	}
	if c.S3 != nil || c.WAN > 0 {
		all = append(all, c.Judge(Staging, 0))
	}
	return all
}
