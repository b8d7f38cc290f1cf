package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Table writes a report for a terminal.
func (r *Report) Table(w io.Writer) error {
	var b strings.Builder
	for _, s := range r.Runs {
		fmt.Fprintf(&b, "run %s of %s, %s: %s\n", plain(s.ID), s.Begun.UTC().Format("2006-01-02 15:04 MST"), several(s.Nodes, "node"), plain(s.Command))
	}
	suite := ""
	var rows *columns
	for i := range r.Phases {
		p := &r.Phases[i]
		if rows == nil || p.Suite != suite {
			rows.write(&b)
			suite, rows = p.Suite, newColumns(phaseHeader...)
			fmt.Fprintf(&b, "\n%s\n\n", plain(suite))
		}
		rows.add(p.row()...)
		if p.Wrong > 0 {
			rows.say(fmt.Sprintf("!! %d WRONG BLOCKS: what was read is not what was written", p.Wrong))
		}
		for _, why := range p.Failed {
			rows.say("!! FAILED, " + plain(why))
		}
	}
	rows.write(&b)
	r.ioTable(&b)
	r.changeTable(&b)
	if len(r.Notes) > 0 {
		b.WriteString("\nNotes:\n")
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "  %s\n", plain(n))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

var phaseHeader = []string{"PHASE", "NODES", "RANKS", "RUNS", "LAST DONE", "95 % OF MEDIAN", "FIRST DONE", "EFFICIENCY", "P50", "P99", "P99.9", "SKEW"}

func (p *Phase) row() []string {
	row := []string{p.label(), strconv.Itoa(p.Nodes), strconv.Itoa(p.Ranks), strconv.Itoa(p.Rate.Count)}
	if p.Rate.Count == 0 {
		return append(row, "failed", "", "", "", "", "", "", "")
	}
	efficiency, interval := "", span(p.Rate, p.Unit)
	if p.Efficiency > 0 {
		efficiency = percent(p.Efficiency)
	}
	if p.Rate.Few && p.Rate.Count > 1 {
		interval += " *"
	}
	return append(row, rate(p.Rate.Median, p.Unit), interval, rate(p.First.Median, p.Unit), efficiency,
		micros(p.Latency.P50), micros(p.Latency.P99), micros(p.Latency.P999), seconds(p.Skew))
}

// ioTable writes the scores.
func (r *Report) ioTable(b *strings.Builder) {
	for i := range r.IO500 {
		s := &r.IO500[i]
		fmt.Fprintf(b, "\nIO500-style, %s, %s (not the official benchmark)\n\n", several(s.Nodes, "node"), several(s.Ranks, "rank"))
		rows := newColumns("PHASE", "MEDIAN", "", "TIME")
		for _, row := range s.Rows {
			rows.add(row.Name, digits(row.Value), row.Unit, seconds(row.Seconds))
		}
		rows.write(b)
		for _, line := range s.said() {
			fmt.Fprintf(b, "  %s\n", line)
		}
	}
}

// said is what a score comes to, in words.
func (s *IO500) said() (lines []string) {
	if len(s.NoScore) > 0 {
		return []string{"no score: " + plain(strings.Join(s.NoScore, "; "))}
	}
	lines = append(lines, fmt.Sprintf("score %.4g: bandwidth %.4g GiB/s, metadata %.4g kIOPS", s.Score, s.Bandwidth, s.Metadata))
	if len(s.Invalid) > 0 {
		lines = append(lines, fmt.Sprintf("INVALID by the rules of IO500: what writes has to take %d s or more; %s", leastSeconds, plain(strings.Join(s.Invalid, "; "))))
	}
	return lines
}

// changeTable writes what has changed since the baseline.
func (r *Report) changeTable(b *strings.Builder) {
	if r.Baseline == nil {
		return
	}
	fmt.Fprintf(b, "\nbeside the baseline: %s\n\n", r.Baseline.Summary())
	rows := newColumns("PHASE", "NODES", "BEFORE", "NOW", "CHANGE", "95 % OF CHANGE", "VERDICT")
	for i := range r.Baseline.Changes {
		c := &r.Baseline.Changes[i]
		mark := ""
		if c.Regression() {
			mark = "!! "
		}
		rows.add(append([]string{plain(c.Suite + " " + c.Name), strconv.Itoa(c.Nodes)}, append(c.figures(), mark+c.verdict())...)...)
	}
	rows.write(b)
}

// figures are the rates then and now, the change, and where it is likely to be.
func (c *Change) figures() []string {
	figures := []string{"–", "–", "–", "–"}
	if c.Before.Count > 0 {
		figures[0] = rate(c.Before.Median, c.Unit)
	}
	if c.Now.Count > 0 {
		figures[1] = rate(c.Now.Median, c.Unit)
	}
	if c.Ratio.Count > 0 {
		figures[2], figures[3] = difference(c.Ratio.Median), difference(c.Ratio.Low)+" to "+difference(c.Ratio.High)
	}
	return figures
}

// verdict is one, and why.
func (c *Change) verdict() string {
	if c.Why == "" {
		return string(c.Verdict)
	}
	return string(c.Verdict) + ": " + plain(c.Why)
}

// Summary says how many phases are worse than they were.
func (b *Baseline) Summary() string {
	if b.Regressions == 0 {
		return fmt.Sprintf("no regression in %s, within %s", several(len(b.Changes), "phase"), figure(b.Tolerance*100)+" %")
	}
	return fmt.Sprintf("%s in %s", several(b.Regressions, "regression"), several(len(b.Changes), "phase"))
}

// columns are rows of cells that stand below each other: the first and the last to the left, the others to the right.
type columns struct {
	rows   [][]string // one cell is a line of its own
	widths []int
}

func newColumns(header ...string) *columns {
	c := &columns{widths: make([]int, len(header))}
	c.add(header...)
	return c
}

func (c *columns) add(row ...string) {
	for i, cell := range row {
		c.widths[i] = max(c.widths[i], utf8.RuneCountInString(cell))
	}
	c.rows = append(c.rows, row)
}

// say adds a line below the last row.
func (c *columns) say(line string) { c.rows = append(c.rows, []string{line}) }

func (c *columns) write(b *strings.Builder) {
	if c == nil {
		return
	}
	for _, row := range c.rows {
		if len(row) == 1 {
			fmt.Fprintf(b, "    %s\n", row[0])
			continue
		}
		line := ""
		for i, cell := range row {
			space := strings.Repeat(" ", c.widths[i]-utf8.RuneCountInString(cell))
			if i == 0 || i == len(row)-1 && len(c.widths) < len(phaseHeader) {
				line += "  " + cell + space
			} else {
				line += "  " + space + cell
			}
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
}
