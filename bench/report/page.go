package report

import (
	_ "embed" // the page
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
	"datamove.dev/mover/units"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

const (
	mostDrawn = 200 // phases that have charts
	mostOpen  = 12  // of these are open when the page is opened
	mostNodes = 64  // that are listed

	mostTargets = 4 // that are named on top
)

// HTML writes one page that needs nothing else: no script, no font, no picture from anywhere.
func (r *Report) HTML(w io.Writer) error { return pageTemplate.Execute(w, newPage(r)) }

// page is what the template shows. All texts in it are as people see them.
type page struct {
	Title    string
	Runs     []sourceView
	Alerts   []string
	Tiles    []tile
	Summary  []summaryRow // of each phase what was done on the most nodes
	All      []summaryRow // of all; none where these are the same
	Baseline *baselineView
	Scaling  []*chart
	Roofs    []roofView
	IO500    *ioView
	Suites   []suiteView
	Notes    []string
	Nodes    table
	Undrawn  int // phases without charts

	charts int
}

type sourceView struct{ ID, Version, Command, Begun, Nodes, Targets string }

// tile is a figure that is seen first.
type tile struct{ Name, Value, Of, Class string }

type summaryRow struct {
	At    string // of its charts on the page; "" has none
	Suite string // of the first row of a suite
	Cells []string
	Bad   []string
}

type baselineView struct {
	Summary string
	Bad     bool
	Chart   *chart
	Rows    []changeView
	Fresh   string // what is in no row: it is compared with nothing
}

type changeView struct {
	Name, Nodes string
	Figures     []string
	Verdict     Verdict
	Why         string
}

type roofView struct {
	*roofline.Answer
	Cluster string
	Chart   *chart
	Lines   []string
	Table   table
}

// ioView is the IO500-style table: a column for each number of nodes.
type ioView struct {
	Sizes    []string
	Rows     []ioRowView
	Verdicts []string
	Said     []string
}

type ioRowView struct {
	Name, Unit string
	Total      bool
	Cells      []ioCell
}

type ioCell struct{ Value, Time string }

type suiteView struct {
	Name   string
	At     string
	Phases []detailView
}

// detailView is a phase with its charts.
type detailView struct {
	At, Name, Size, Rate, What string
	Open                       bool
	Bad                        []string
	Facts                      []string
	Columns                    [][]*chart
}

func newPage(r *Report) *page {
	v := &page{}
	v.sources(r)
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Bad() {
			v.Alerts = append(v.Alerts, plain(p.title()+": "+trouble(p)))
		}
	}
	v.tiles(r)
	v.baseline(r.Baseline)
	for i := range r.Scaling {
		v.Scaling = append(v.Scaling, v.numbered(scalingChart(&r.Scaling[i])))
	}
	v.roofs(r)
	v.IO500 = ioViewOf(r.IO500)
	v.phases(r)
	for _, n := range r.Notes {
		v.Notes = append(v.Notes, plain(n))
	}
	v.nodes(r.runs)
	return v
}

// numbered gives a chart a name on the page.
func (v *page) numbered(c *chart) *chart {
	if c != nil {
		v.charts++
		c.ID = "c" + strconv.Itoa(v.charts)
	}
	return c
}

func (v *page) sources(r *Report) {
	nodes := 0
	for _, s := range r.Runs {
		nodes = max(nodes, s.Nodes)
		targets := plain(strings.Join(s.Targets[:min(len(s.Targets), mostTargets)], ", "))
		if more := len(s.Targets) - mostTargets; more > 0 {
			targets += fmt.Sprintf(" and %d more", more)
		}
		v.Runs = append(v.Runs, sourceView{plain(s.ID), plain(s.Version), plain(s.Command), s.Begun.UTC().Format("2 January 2006, 15:04 MST"), several(s.Nodes, "node"), targets})
		if s.Failed != "" {
			v.Alerts = append(v.Alerts, "A run ended before its end: "+plain(s.Failed))
		}
	}
	v.Title = "Load of " + several(nodes, "node")
}

// tiles are the highest rates, and what is wrong.
func (v *page) tiles(r *Report) {
	add := func(name string, p *Phase) {
		if p != nil {
			v.Tiles = append(v.Tiles, tile{name, rate(p.Rate.Median, p.Unit), plain(p.title()), ""})
		}
	}
	add("Highest write", r.best(roofline.Writing))
	add("Highest read", r.best(roofline.Reading))
	var ops *Phase
	for i := range r.Phases {
		if p := &r.Phases[i]; p.Unit == result.Ops && len(p.good) > 0 && (ops == nil || p.Rate.Median > ops.Rate.Median) {
			ops = p
		}
	}
	add("Most operations", ops)
	bad := 0
	for i := range r.Phases {
		if r.Phases[i].Bad() {
			bad++
		}
	}
	t := tile{"Failures", "none", "in " + several(len(r.Phases), "phase"), "good"}
	if bad > 0 {
		t.Value, t.Class = several(bad, "phase"), "bad"
		t.Of = "of " + units.Count(int64(len(r.Phases)))
	}
	v.Tiles = append(v.Tiles, t)
}

func (v *page) baseline(b *Baseline) {
	if b == nil {
		return
	}
	v.Baseline = &baselineView{Summary: b.Summary(), Bad: b.Regressions > 0, Chart: v.numbered(forestChart(b))}
	fresh := 0
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Verdict == Fresh {
			fresh++
			continue
		}
		v.Baseline.Rows = append(v.Baseline.Rows, changeView{plain(c.Suite + " " + c.Name), several(c.Nodes, "node"), c.figures(), c.Verdict, plain(c.Why)})
	}
	if fresh > 0 {
		v.Baseline.Fresh = several(fresh, "phase") + " of this run can not be compared: the baseline has none of the kind, or it failed then."
	}
	if v.Baseline.Chart != nil {
		v.Baseline.Chart.Table = table{} // it is beside the chart
	}
}

// verdictWords is what the verdicts of the model mean.
var verdictWords = map[roofline.Verdict]string{
	roofline.Refuted:      ", a ceiling is below that",
	roofline.Modelled:     ", no ceiling is below that; it was not measured at the scale of the cluster",
	roofline.Extrapolated: ", runs of at least half of the nodes make it likely",
	roofline.Validated:    ", it was measured at that scale",
}

func (v *page) roofs(r *Report) {
	if r.Model == nil {
		return
	}
	for i := range r.Model.Paths {
		a := &r.Model.Paths[i]
		measured := r.best(a.Path)
		view := roofView{Answer: a, Cluster: plain(r.Model.Cluster), Chart: v.numbered(roofChart(a, measured))}
		view.Table, view.Chart.Table = view.Chart.Table, table{} // it is beside the chart
		view.Lines = append(view.Lines, "at most "+gbPerSec(a.Roof)+", by "+a.Binding)
		if a.Target > 0 {
			view.Lines = append(view.Lines, gbPerSec(a.Target)+" are asked for: "+string(a.Verdict)+verdictWords[a.Verdict])
		}
		if measured != nil {
			view.Lines = append(view.Lines, "measured: "+rate(measured.Rate.Median, measured.Unit)+", "+plain(measured.title()))
		}
		if a.OneDown > 0 {
			view.Lines = append(view.Lines, "with one OSS down: at most "+gbPerSec(a.OneDown))
		}
		v.Roofs = append(v.Roofs, view)
	}
}

func ioViewOf(all []IO500) *ioView {
	if len(all) == 0 {
		return nil
	}
	v := &ioView{}
	for i := range all {
		s := &all[i]
		size, verdict := several(s.Nodes, "node")+", "+several(s.Ranks, "rank"), "valid"
		if len(s.NoScore) > 0 {
			verdict = "no score"
		} else if len(s.Invalid) > 0 {
			verdict = "INVALID"
		}
		v.Sizes, v.Verdicts = append(v.Sizes, size), append(v.Verdicts, verdict)
		if verdict != "valid" {
			lines := s.said()
			v.Said = append(v.Said, size+": "+lines[len(lines)-1])
		}
	}
	for _, name := range slices.Concat(ior, mdtest) {
		row := ioRowView{Name: name}
		for i := range all {
			one := ioCell{Value: "–"}
			if found := all[i].row(name); found != nil {
				row.Unit, one = found.Unit, ioCell{digits(found.Value), seconds(found.Seconds)}
			}
			row.Cells = append(row.Cells, one)
		}
		v.Rows = append(v.Rows, row)
	}
	for _, total := range []struct {
		name, unit string
		of         func(*IO500) float64
	}{
		{"bandwidth", "GiB/s", func(s *IO500) float64 { return s.Bandwidth }},
		{"metadata", "kIOPS", func(s *IO500) float64 { return s.Metadata }},
		{"score", "", func(s *IO500) float64 { return s.Score }},
	} {
		row := ioRowView{Name: total.name, Unit: total.unit, Total: true}
		for i := range all {
			one := ioCell{Value: "–"}
			if x := total.of(&all[i]); x > 0 {
				one.Value = digits(x)
			}
			row.Cells = append(row.Cells, one)
		}
		v.Rows = append(v.Rows, row)
	}
	return v
}

// phases makes the rows of the summary, and the charts of each phase. What was done on the most nodes is in the short summary, and open.
func (v *page) phases(r *Report) {
	open, suite := 0, ""
	for i := range r.Phases {
		p := &r.Phases[i]
		row := summaryRow{Cells: p.row(), Bad: p.bad()}
		begins := i == 0 || r.Phases[i-1].Suite != p.Suite
		largest := i+1 == len(r.Phases) || r.Phases[i+1].Suite != p.Suite || r.Phases[i+1].Name != p.Name
		if begins {
			suite = plain(p.Suite)
			row.Suite = suite
		}
		if i < mostDrawn {
			row.At = "p" + strconv.Itoa(i+1)
			if begins {
				v.Suites = append(v.Suites, suiteView{Name: suite, At: "s" + strconv.Itoa(len(v.Suites)+1)})
			}
			d := v.detail(p)
			d.At, d.Open = row.At, largest && open < mostOpen
			if d.Open {
				open++
			}
			last := &v.Suites[len(v.Suites)-1]
			last.Phases = append(last.Phases, d)
		}
		v.All = append(v.All, row)
		if largest || len(row.Bad) > 0 {
			row.Suite, suite = suite, "" // once above the rows that are in the short summary
			v.Summary = append(v.Summary, row)
		}
	}
	v.Undrawn = max(0, len(r.Phases)-mostDrawn)
	if len(v.All) == len(v.Summary) {
		v.All = nil
	}
}

// bad says what failed in a phase, a line each.
func (p *Phase) bad() (lines []string) {
	if p.Wrong > 0 {
		lines = append(lines, several(p.Wrong, "wrong block")+": what was read is not what was written")
	}
	for i, why := range p.Failed {
		if i == mostNotes {
			return append(lines, fmt.Sprintf("and %d more", len(p.Failed)-i))
		}
		lines = append(lines, "failed, "+plain(why))
	}
	return lines
}

// detail draws a phase.
func (v *page) detail(p *Phase) detailView {
	d := detailView{Bad: p.bad(), Name: plain(p.Name), Size: several(p.Nodes, "node") + ", " + several(p.Ranks, "rank"), Rate: "failed", What: plain(p.What)}
	if p.Rate.Count > 0 {
		d.Rate = rate(p.Rate.Median, p.Unit)
	}
	for _, fact := range []string{p.Durable, p.Cache} {
		if fact != "" {
			d.Facts = append(d.Facts, plain(fact))
		}
	}
	if p.Latency.Note != "" {
		d.Facts = append(d.Facts, "no curve of latencies: "+plain(p.Latency.Note))
	}
	typical := p.typical()
	if typical == nil {
		return d
	}
	curves := v.drawn(timeChart(p), latencyChart(&p.Latency))
	maps := v.drawn(heatChart("Targets", "target", typical, typical.PerTarget), heatChart("Nodes", "node", typical, typical.PerNode))
	if max(len(typical.PerTarget), len(typical.PerNode)) > tallRows {
		d.Columns = append([][]*chart{curves}, apart(maps)...)
	} else {
		d.Columns = append(apart(curves), maps)
	}
	return d
}

// apart are charts with a column each.
func apart(charts []*chart) (columns [][]*chart) {
	for _, c := range charts {
		columns = append(columns, []*chart{c})
	}
	return columns
}

// tallRows is from how many rows on a map has a column for itself, and curves are above each other.
const tallRows = 16

// drawn are the charts that there are.
func (v *page) drawn(all ...*chart) (there []*chart) {
	for _, c := range all {
		if c != nil {
			there = append(there, v.numbered(c))
		}
	}
	return there
}

// nodes lists those of all runs, each once.
func (v *page) nodes(runs []*result.Run) {
	v.Nodes = table{Caption: "Nodes", Head: []string{"node", "processor", "cores", "memory", "kernel", "clock"}}
	seen := map[result.Node]bool{}
	for _, run := range runs {
		for _, n := range run.Nodes {
			clock := n
			n.ClockAhead, n.ClockError = 0, 0
			if seen[n] {
				continue
			}
			seen[n] = true
			if len(seen) <= mostNodes {
				v.Nodes.Rows = append(v.Nodes.Rows, []string{plain(n.Name), plain(n.CPU), units.Count(int64(n.Cores)), units.Bytes(n.MemoryBytes), plain(n.Kernel), clockOf(&clock)})
			}
		}
	}
	if more := len(seen) - mostNodes; more > 0 {
		v.Nodes.Caption = fmt.Sprintf("Nodes, the first %d of %d", mostNodes, len(seen))
	}
}

// clockOf says how far the clock of a node is off.
func clockOf(n *result.Node) string {
	if n.ClockAhead == 0 && n.ClockError == 0 {
		return "–"
	}
	ahead := seconds(sane(n.ClockAhead)) + " ahead"
	if n.ClockAhead < 0 {
		ahead = seconds(sane(-n.ClockAhead)) + " behind"
	}
	return ahead + " ± " + seconds(sane(n.ClockError))
}
