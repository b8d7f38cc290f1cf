package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
	"datamove.dev/bench/stats"
)

// Schema names the version of the JSON form.
const Schema = "datamove.report/v1"

// Options is what runs are seen beside. The zero value is nothing.
type Options struct {
	Baseline  []*result.Run    // those before a change; none is no comparison
	Tolerance float64          // the share by which a phase may be slower than before; 0 means 0.05
	Model     *roofline.Report // what the cluster can do at most; nil is not known
}

// Report is what runs have measured, summed up.
type Report struct {
	Schema   string           `json:"schema"`
	Runs     []Source         `json:"runs"`
	Phases   []Phase          `json:"phases"`
	Scaling  []Scaling        `json:"scaling"`
	IO500    []IO500          `json:"io500,omitempty"`
	Baseline *Baseline        `json:"baseline,omitempty"`
	Model    *roofline.Report `json:"model,omitempty"`
	Notes    []string         `json:"notes"`

	runs []*result.Run
}

// Source is a run that is in a report.
type Source struct {
	ID      string    `json:"id"`
	Version string    `json:"version"`
	Command string    `json:"command"`
	Begun   time.Time `json:"begun"`
	Nodes   int       `json:"node_count"`
	Targets []string  `json:"targets"`
	Failed  string    `json:"failed,omitempty"`
}

// Key is what phases that are repeats of each other have in common.
type Key struct {
	Suite string      `json:"suite"`
	Name  string      `json:"name"`
	What  string      `json:"what"`
	Unit  result.Unit `json:"unit"`
	Nodes int         `json:"node_count"`
	Ranks int         `json:"ranks"`
}

func keyOf(p *result.Phase) Key { return Key{p.Suite, p.Name, p.What, p.Unit, p.NodeCount, p.Ranks} }

// Phase is one kind of work, of all its repeats. Those that failed are in none of its figures.
type Phase struct {
	Key
	Rate       stats.Interval `json:"rate_per_second"`       // in its unit, until the last rank was done
	First      stats.Interval `json:"first_rate_per_second"` // until the first rank was done
	Efficiency float64        `json:"efficiency,omitempty"`  // of its rate, of as many nodes as one reaches alone; 0 is not known
	Latency    Latency        `json:"latency"`
	Skew       float64        `json:"skew_seconds"` // of the repeat with the most
	Wrong      int64          `json:"wrong,omitempty"`
	Failed     []string       `json:"failed,omitempty"` // why, for each repeat that did
	Cache      string         `json:"cache"`
	Durable    string         `json:"durable,omitempty"`

	good  []*result.Phase
	twice bool // on as many nodes and ranks the same phase was done in another way, too
}

// Sum makes a report of runs.
func Sum(runs []*result.Run, o Options) *Report {
	r := &Report{Schema: Schema, Model: o.Model, Phases: phases(runs), Scaling: []Scaling{}, Notes: []string{}, runs: runs}
	for _, run := range runs {
		r.Runs = append(r.Runs, Source{run.ID, run.Version, run.Command, run.Begun, len(run.Nodes), run.Targets, run.Failed})
	}
	r.scale()
	r.IO500 = scores(r.Phases)
	if len(o.Baseline) > 0 {
		r.Baseline = compare(phases(o.Baseline), r.Phases, cmp.Or(o.Tolerance, usualTolerance))
	}
	r.note()
	return r
}

// phases are those of runs, repeats together: in the order in which suites and phases were first done, and of each the one with the least nodes first.
func phases(runs []*result.Run) []Phase {
	type work struct{ suite, name string }
	suites, works, groups := map[string]int{}, map[work]int{}, map[Key][]*result.Phase{}
	var keys []Key
	for _, run := range runs {
		for i := range run.Phases {
			p := &run.Phases[i]
			k := keyOf(p)
			if groups[k] == nil {
				keys = append(keys, k)
			}
			groups[k] = append(groups[k], p)
			if _, known := suites[k.Suite]; !known {
				suites[k.Suite] = len(suites)
			}
			if _, known := works[work{k.Suite, k.Name}]; !known {
				works[work{k.Suite, k.Name}] = len(works)
			}
		}
	}
	slices.SortStableFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(suites[a.Suite], suites[b.Suite]), cmp.Compare(works[work{a.Suite, a.Name}], works[work{b.Suite, b.Name}]),
			cmp.Compare(a.Nodes, b.Nodes), cmp.Compare(a.Ranks, b.Ranks))
	})
	all := make([]Phase, 0, len(keys))
	for _, k := range keys {
		all = append(all, sumPhase(k, groups[k]))
		if n := len(all); n > 1 && all[n-2].sameBut(&all[n-1]) {
			all[n-2].twice, all[n-1].twice = true, true
		}
	}
	return all
}

// sameBut says whether phases are the same, but for the way in which they are done.
func (p *Phase) sameBut(o *Phase) bool {
	return p.Suite == o.Suite && p.Name == o.Name && p.Nodes == o.Nodes && p.Ranks == o.Ranks
}

// label is the name of a phase among those of its suite.
func (p *Phase) label() string {
	if p.twice {
		return plain(p.Name + ", " + way(p.What))
	}
	return plain(p.Name)
}

// sumPhase sums up the repeats of a phase.
func sumPhase(k Key, repeats []*result.Phase) Phase {
	p := Phase{Key: k, Cache: repeats[0].Cache, Durable: repeats[0].Durable}
	var last, first []float64
	for _, one := range repeats {
		p.Wrong += one.Wrong
		if why := failure(one); why != "" {
			p.Failed = append(p.Failed, fmt.Sprintf("repeat %d: %s", one.Repeat, why))
			continue
		}
		p.good = append(p.good, one)
		last, first = append(last, one.Rate()), append(first, one.FirstRate())
		p.Skew = max(p.Skew, sane(one.Skew))
	}
	p.Rate, p.First = stats.Of(last), stats.Of(first)
	p.Latency = latency(p.good)
	return p
}

// failure says why a repeat of a phase has no rate; "" where it has one.
func failure(p *result.Phase) string {
	switch {
	case p.Failed != "":
		return p.Failed
	case p.Rate() < 1/mostFigure:
		return "nothing was done"
	case max(p.Rate(), p.FirstRate()) > mostFigure:
		return "it took no time that can be measured"
	}
	return ""
}

// mostFigure is more than anything that is measured: of bytes per second, of microseconds.
const mostFigure = 1e18

// sane is a figure from outside that can be reckoned with.
func sane(v float64) float64 { return min(max(v, 0), mostFigure) }

// typical is the repeat with the rate that is the nearest to the median.
func (p *Phase) typical() *result.Phase {
	if len(p.good) == 0 {
		return nil
	}
	return slices.MinFunc(p.good, func(a, b *result.Phase) int {
		return cmp.Compare(math.Abs(a.Rate()-p.Rate.Median), math.Abs(b.Rate()-p.Rate.Median))
	})
}

// rates are those of the repeats that have one.
func (p *Phase) rates() (all []float64) {
	for _, one := range p.good {
		all = append(all, one.Rate())
	}
	return all
}

// Bad says whether something failed, or was read that was not written.
func (p *Phase) Bad() bool { return len(p.Failed) > 0 || p.Wrong > 0 }
