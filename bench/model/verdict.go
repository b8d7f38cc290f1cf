package model

// Verdict is what is said of a target.
type Verdict string

// The verdicts, as the package has them.
const (
	Validated    Verdict = "validated"
	Modelled     Verdict = "modelled"
	Extrapolated Verdict = "extrapolated"
	Refuted      Verdict = "refuted"
)

// Answer is what the model says of one path.
type Answer struct {
	Path     Path             `json:"path"`
	Target   float64          `json:"target_gb_per_s,omitempty"`
	Verdict  Verdict          `json:"verdict,omitempty"` // none without a target
	Binding  string           `json:"binding"`
	Roof     float64          `json:"roof_gb_per_s"`
	Missing  map[string]int64 `json:"missing"`  // by ceiling: units more that it takes
	Declared []string         `json:"declared"` // ceilings that nobody has measured
	Ceilings []CeilingView    `json:"ceilings"`
	OneDown  float64          `json:"roof_gb_per_s_with_one_oss_down,omitempty"`
	Cost     float64          `json:"cost_per_gb_per_s,omitempty"`
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

// Judge says what the roof of a path means for a target, in bytes per second; 0 is none.
func (c *Cluster) Judge(p Path, target float64) Answer {
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
func (c *Cluster) Report() Report {
	all := c.Answers()
	worst := all[0]
	for _, a := range all {
		if a.Verdict == Refuted && worst.Verdict != Refuted {
			worst = a
		}
	}
	return Report{"datamove.model/v1", c.Name, worst, all}
}

// Answers are those of the targets of a cluster, or, without one, of all paths.
func (c *Cluster) Answers() (all []Answer) {
	t := c.Target
	if t == nil {
		t = &Target{}
	}
	if c.Target == nil || t.Read > 0 {
		all = append(all, c.Judge(Reading, float64(t.Read)))
	}
	if c.Target == nil || t.Write > 0 {
		all = append(all, c.Judge(Writing, float64(t.Write)))
	}
	if c.S3 != nil || c.WAN > 0 {
		all = append(all, c.Judge(Staging, 0))
	}
	return all
}
