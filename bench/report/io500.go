package report

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"datamove.dev/bench/result"
)

// IO500 is a table in the style of IO500, of one number of nodes. It is not the official benchmark.
type IO500 struct {
	Nodes     int        `json:"node_count"`
	Ranks     int        `json:"ranks"`
	Rows      []IO500Row `json:"phases"`
	Bandwidth float64    `json:"bandwidth_gib_per_s,omitempty"` // the geometric mean of the phases of ior
	Metadata  float64    `json:"metadata_kiops,omitempty"`      // the geometric mean of the others
	Score     float64    `json:"score,omitempty"`               // the square root of both multiplied
	NoScore   []string   `json:"no_score,omitempty"`            // why there is none
	Invalid   []string   `json:"invalid,omitempty"`             // why IO500 would not take it
}

// IO500Row is one of its phases.
type IO500Row struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"` // the median of repeats
	Unit    string  `json:"unit"`
	Seconds float64 `json:"seconds"` // of the shortest repeat
}

// ior and mdtest are the phases that count, in the order in which IO500 prints them.
var (
	ior    = []string{"ior-easy-write", "ior-hard-write", "ior-easy-read", "ior-hard-read"}
	mdtest = []string{"mdtest-easy-write", "mdtest-hard-write", "mdtest-easy-stat", "mdtest-hard-stat", "mdtest-easy-delete", "mdtest-hard-delete", "mdtest-hard-read", "find"}
)

// leastSeconds is how long IO500 wants what writes to take.
const leastSeconds = 300

// scores are those of the suite io500, by numbers of nodes and ranks.
func scores(phases []Phase) (all []IO500) {
	type size struct{ nodes, ranks int }
	groups := map[size]map[string][]*Phase{}
	var sizes []size
	for i := range phases {
		p := &phases[i]
		if p.Suite != "io500" {
			continue
		}
		at := size{p.Nodes, p.Ranks}
		if groups[at] == nil {
			groups[at], sizes = map[string][]*Phase{}, append(sizes, at)
		}
		groups[at][p.Name] = append(groups[at][p.Name], p)
	}
	for _, at := range sizes {
		s := IO500{Nodes: at.nodes, Ranks: at.ranks}
		s.Bandwidth = s.mean(groups[at], ior, result.Bytes, "GiB/s", 1<<30)
		s.Metadata = s.mean(groups[at], mdtest, result.Ops, "kIOPS", 1000)
		if len(s.NoScore) == 0 {
			s.Score = math.Sqrt(s.Bandwidth * s.Metadata)
		} else {
			s.Bandwidth, s.Metadata = 0, 0
		}
		all = append(all, s)
	}
	return all
}

// mean adds the rows of phases, and is their geometric mean.
func (s *IO500) mean(phases map[string][]*Phase, names []string, unit result.Unit, unitName string, by float64) float64 {
	logs := 0.0
	for _, name := range names {
		all := phases[name]
		if why := unscored(all, unit); why != "" {
			s.NoScore = append(s.NoScore, name+" "+why)
			continue
		}
		row := IO500Row{Name: name, Value: all[0].Rate.Median / by, Unit: unitName, Seconds: math.Inf(1)}
		for _, one := range all[0].good {
			row.Seconds = min(row.Seconds, one.Last.Seconds)
		}
		if strings.HasSuffix(name, "-write") && row.Seconds < leastSeconds {
			s.Invalid = append(s.Invalid, fmt.Sprintf("%s took %s", name, seconds(row.Seconds)))
		}
		s.Rows = append(s.Rows, row)
		logs += math.Log(row.Value)
	}
	return math.Exp(logs / float64(len(names)))
}

// unscored says why a phase is in no score.
func unscored(all []*Phase, unit result.Unit) string {
	switch {
	case len(all) == 0:
		return "was not run"
	case len(all) > 1:
		return "was run in more than one way"
	case all[0].Unit != unit:
		return fmt.Sprintf("counts %s, and not %s", all[0].Unit, unit)
	case len(all[0].good) == 0:
		return "failed: " + short(all[0].Failed[0], longest)
	case all[0].Wrong > 0:
		return fmt.Sprintf("read %s that was not written", several(all[0].Wrong, "block"))
	}
	return ""
}

// row is that of a phase; nil where it has none.
func (s *IO500) row(name string) *IO500Row {
	if i := slices.IndexFunc(s.Rows, func(r IO500Row) bool { return r.Name == name }); i >= 0 {
		return &s.Rows[i]
	}
	return nil
}
