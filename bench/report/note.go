package report

import (
	"fmt"
	"strings"

	"datamove.dev/bench/stats"
)

// mostNotes are how many notes of a kind are kept.
const mostNotes = 100

// note collects what a reader has to know beside.
func (r *Report) note() {
	for _, run := range r.runs {
		of := ""
		if len(r.runs) > 1 {
			of = fmt.Sprintf("run %s: ", run.ID)
		}
		if run.Failed != "" {
			r.Notes = append(r.Notes, of+"ended before its end: "+run.Failed)
		}
		for i, n := range run.Notes {
			if i == mostNotes {
				r.Notes = append(r.Notes, fmt.Sprintf("%s%d more notes are in its file", of, len(run.Notes)-i))
				break
			}
			r.Notes = append(r.Notes, of+n)
		}
	}
	r.noteSkew()
	r.noteCaches()
	r.noteRepeats()
}

// noteSkew names phases with nodes that did not begin together.
func (r *Report) noteSkew() {
	n := 0
	for i := range r.Phases {
		p := &r.Phases[i]
		t := p.typical()
		if t == nil || p.Skew <= t.Last.Seconds/20 {
			continue
		}
		if n++; n <= mostNotes {
			r.Notes = append(r.Notes, fmt.Sprintf("%s: nodes began up to %s apart, in a phase of %s", p.title(), seconds(p.Skew), seconds(t.Last.Seconds)))
		}
	}
}

// noteCaches says what was done about page caches, of which phases.
func (r *Report) noteCaches() {
	phases := map[string][]string{}
	var all []string
	for i := range r.Phases {
		p := &r.Phases[i]
		if p.Cache == "" {
			continue
		}
		if phases[p.Cache] == nil {
			all = append(all, p.Cache)
		}
		name := p.Suite + " " + p.Name
		if known := phases[p.Cache]; len(known) == 0 || known[len(known)-1] != name {
			phases[p.Cache] = append(known, name)
		}
	}
	for i, cache := range all {
		of := ""
		if len(all) > 1 {
			of = " (" + short(strings.Join(phases[cache], ", "), longest) + ")"
		}
		if i < mostNotes {
			r.Notes = append(r.Notes, "page caches: "+cache+of)
		}
	}
}

// noteRepeats says when there are not enough repeats to tell noise, or to tell it well.
func (r *Report) noteRepeats() {
	few := 0
	for i := range r.Phases {
		if r.Phases[i].Rate.Few && r.Phases[i].Rate.Count > 0 {
			few++
		}
	}
	if few > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s of fewer than %d repeats: what is beside their medians is the lowest and the highest, and noise can not be told", several(few, "phase"), stats.Enough))
	}
	if r.Baseline == nil {
		return
	}
	compared := 0
	for _, c := range r.Baseline.Changes {
		if c.Ratio.Count >= stats.Enough && c.Ratio.Count < 5 {
			compared++
		}
	}
	if compared > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s compared by 3 or 4 repeats: at 3, one in 20 is seen slower by chance where noise is above the tolerance; 5 repeats make it one in 60", several(compared, "phase")))
	}
}

// title names a phase among others.
func (k *Key) title() string {
	return fmt.Sprintf("%s %s on %s", k.Suite, k.Name, several(k.Nodes, "node"))
}
