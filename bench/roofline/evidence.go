package roofline

import (
	"math"
	"slices"
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/mover"
)

// A phase that counts is one of large files, of which each process has its own: what reaches the roof when anything does.
var counting = map[Path][][2]string{
	Reading: {{"large", "read"}, {"io500", "ior-easy-read"}},
	Writing: {{"large", "write"}, {"io500", "ior-easy-write"}},
}

// checking are the phases that say whether what was written is what was read.
var checking = [][2]string{{"large", "verify"}}

// Evidence is what runs have measured of a path.
type Evidence struct {
	Runs     []Run // by hosts, the fewest first
	Verified bool  // what was read was compared with what was written, and nothing was wrong
	Notes    []string
}

// EvidenceOf is what of some runs counts for a path: phases that came to their end, with bytes that did not come from the memory of clients. Nodes that run on one kernel are one host:
// how many processes there are does not make a cluster larger.
func EvidenceOf(runs []*result.Run, path Path) (e Evidence) {
	rates := map[int64][]float64{}
	checked, wrong := false, false
	for _, r := range runs {
		for i := range r.Phases {
			p := &r.Phases[i]
			if is(p, checking) {
				checked, wrong = true, wrong || p.Failed != "" || p.Wrong > 0
			}
			if !is(p, counting[path]) || p.Unit != result.Bytes || p.Rate() <= 0 {
				continue
			}
			switch hosts := hosts(r, p); {
			case p.Failed != "":
				e.note("a phase that has failed does not count: " + p.Failed)
			case p.Cached:
				e.note("what may have come from the memory of clients does not count")
			default:
				if hosts < int64(p.NodeCount) {
					e.note("nodes on one host count as one")
				}
				rates[hosts] = append(rates[hosts], p.Rate())
			}
		}
	}
	for hosts, all := range rates {
		e.Runs = append(e.Runs, Run{hosts, all})
	}
	slices.SortFunc(e.Runs, func(a, b Run) int { return int(a.Nodes - b.Nodes) })
	e.Verified = checked && !wrong
	return e
}

func (e *Evidence) note(text string) {
	if !slices.Contains(e.Notes, text) {
		e.Notes = append(e.Notes, text)
	}
}

func is(p *result.Phase, names [][2]string) bool {
	return slices.Contains(names, [2]string{p.Suite, p.Name})
}

// hosts is on how many hosts the nodes of a phase were. One that does not say where it was is with the others that do not.
func hosts(r *result.Run, p *result.Phase) int64 {
	seen := map[string]bool{}
	for _, share := range p.PerNode {
		for _, n := range r.Nodes {
			if n.Name == share.Name {
				seen[n.Host] = true
			}
		}
	}
	return int64(max(1, len(seen)))
}

// largest is the run of the most nodes; nil is none.
func (e *Evidence) largest() *Run {
	if len(e.Runs) == 0 {
		return nil
	}
	return &e.Runs[len(e.Runs)-1]
}

// groups are those of which one may be measured alone, with what of each has which ceiling.
var groups = map[string]map[string]string{
	"clients": {"memory": "clients.memory", "nic.send": "clients.nic", "nic.receive": "clients.nic"},
	"oss":     {"memory": "oss.memory", "nic.send": "oss.nic", "nic.receive": "oss.nic", "disk.read": "oss.read", "disk.write": "oss.write"},
	"s3":      {"memory": "s3.memory", "nic.send": "s3.nic", "nic.receive": "s3.nic", "s3.read": "s3.read"},
}

// Measure has in the cluster what was measured alone on one of a group, in bytes per second, by the names of package hardware. Disks of one host are added up, as they work at the
// same time; of links and endpoints the best one counts, and of a link
// the direction that is slower.
func (c *Cluster) Measure(group string, rates map[string][]float64) error {
	ceilings, ok := groups[group]
	if !ok {
		return mover.Usagef("there is no group %q; want clients, oss or s3", group)
	}
	if c.Measured == nil {
		c.Measured = map[string]Rate{}
	}
	links := []float64{}
	for name, all := range rates {
		ceiling, ok := ceilings[name]
		if !ok {
			continue // a checksum, or names of files
		}
		total, best := 0.0, 0.0
		for _, rate := range all {
			if !(rate > 0) || math.IsInf(rate, 0) {
				return mover.Usagef("%s of %g bytes per second", name, rate)
			}
			total, best = total+rate, max(best, rate)
		}
		switch {
		case strings.HasPrefix(name, "nic."):
			links = append(links, best)
		case strings.HasPrefix(name, "disk."):
			c.Measured[ceiling] = Rate(total)
		default:
			c.Measured[ceiling] = Rate(best)
		}
	}
	if len(links) > 0 {
		c.Measured[ceilings["nic.send"]] = Rate(slices.Min(links))
	}
	return nil
}

// Measurement is what some nodes have reached, in GB/s.
type Measurement struct {
	Nodes   int64   `json:"nodes"`
	Repeats int     `json:"repeats"`
	Rate    float64 `json:"gb_per_s"` // the mean
	// The mean of all such runs is above Low, but in one case of a thousand, and below High. Of one repeat nothing is known of it, and both are 0.
	Low  float64 `json:"gb_per_s_low,omitempty"`
	High float64 `json:"gb_per_s_high,omitempty"`
}

// leastRepeats are those of which a measurement is one.
const leastRepeats = 3

// student are the quantiles of Student's t at 0.999, for 1 to 30 degrees of freedom.
var student = [...]float64{318.31, 22.327, 10.215, 7.173, 5.893, 5.208, 4.785, 4.501, 4.297, 4.144, 4.025, 3.930, 3.852, 3.787, 3.733,
	3.686, 3.646, 3.610, 3.579, 3.552, 3.527, 3.505, 3.485, 3.467, 3.450, 3.435, 3.421, 3.408, 3.396, 3.385}

// measurement sums what one number of nodes has reached.
func (r *Run) measurement() Measurement {
	n := float64(len(r.Rates))
	mean, squares := 0.0, 0.0
	for _, rate := range r.Rates {
		mean += rate / n
	}
	for _, rate := range r.Rates {
		squares += (rate - mean) * (rate - mean)
	}
	m := Measurement{Nodes: r.Nodes, Repeats: len(r.Rates), Rate: mean / 1e9}
	if free := len(r.Rates) - 1; free > 0 {
		off := student[min(free, len(student))-1] * math.Sqrt(squares/float64(free)/n)
		m.Low, m.High = max(0, mean-off)/1e9, (mean+off)/1e9
	}
	return m
}
