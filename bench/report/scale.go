package report

import (
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/bench/stats"
)

// Scaling is the same work on more and more nodes.
type Scaling struct {
	Suite   string      `json:"suite"`
	Name    string      `json:"name"`
	What    string      `json:"what,omitempty"` // where the same phase was done in more than one way
	Unit    result.Unit `json:"unit"`
	OneNode float64     `json:"one_node_per_second,omitempty"` // what one node reaches alone; 0 was not run
	Points  []Point     `json:"points"`
}

// Point is a number of nodes.
type Point struct {
	Nodes      int            `json:"node_count"`
	Ranks      int            `json:"ranks"`
	Rate       stats.Interval `json:"rate_per_second"`
	Efficiency float64        `json:"efficiency,omitempty"` // the rate / (the nodes × what one node reaches alone); 0 is not known
}

// way is how a phase is done, whatever the number of nodes is: what it is, without its beginning, which counts ranks and nodes.
func way(what string) string {
	_, rest, _ := strings.Cut(what, ", ")
	return rest
}

// scale finds what was done on more than one number of nodes, and how much each is of what one node reaches.
func (r *Report) scale() {
	type work struct {
		suite, name string
		unit        result.Unit
		way         string
	}
	twice, seen := map[work]bool{}, map[work]map[int]bool{}
	for i := range r.Phases {
		p := &r.Phases[i]
		w := work{p.Suite, p.Name, p.Unit, ""}
		if seen[w] == nil {
			seen[w] = map[int]bool{}
		}
		twice[w] = twice[w] || seen[w][p.Nodes]
		seen[w][p.Nodes] = true
	}
	groups := map[work][]*Phase{}
	var works []work
	for i := range r.Phases {
		p := &r.Phases[i]
		w := work{p.Suite, p.Name, p.Unit, ""}
		if twice[w] {
			w.way = way(p.What)
		}
		if groups[w] == nil {
			works = append(works, w)
		}
		if len(p.good) > 0 {
			groups[w] = append(groups[w], p)
		}
	}
	for _, w := range works {
		s := Scaling{Suite: w.suite, Name: w.name, What: w.way, Unit: w.unit}
		if s.add(groups[w]) {
			r.Scaling = append(r.Scaling, s)
		}
	}
}

// add adds phases, those of the least nodes first, and says whether they are a curve: more than one number of nodes, and each once.
func (s *Scaling) add(all []*Phase) bool {
	for i, p := range all {
		if i > 0 && p.Nodes == all[i-1].Nodes {
			return false
		}
	}
	if len(all) < 2 {
		return false
	}
	if all[0].Nodes == 1 {
		s.OneNode = all[0].Rate.Median
	}
	for _, p := range all {
		if s.OneNode > 0 {
			p.Efficiency = p.Rate.Median / (float64(p.Nodes) * s.OneNode)
		}
		s.Points = append(s.Points, Point{p.Nodes, p.Ranks, p.Rate, p.Efficiency})
	}
	return true
}
