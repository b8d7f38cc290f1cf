package report

import (
	"fmt"
	"strings"

	"datamove.dev/bench/result"
	"datamove.dev/bench/roofline"
	"datamove.dev/mover/units"
)

// best is the phase with the highest rate of a path; nil is none.
func (r *Report) best(path roofline.Path) (best *Phase) {
	for i := range r.Phases {
		p := &r.Phases[i]
		if p.Unit == result.Bytes && len(p.good) > 0 && p.Wrong == 0 && pathOf(p.Name) == path && (best == nil || p.Rate.Median > best.Rate.Median) {
			best = p
		}
	}
	return best
}

// pathOf is the way that the bytes of a phase go, by its name; "" is not known.
func pathOf(name string) roofline.Path {
	switch name[strings.LastIndexByte(name, '-')+1:] {
	case "write", "put", "multipart":
		return roofline.Writing
	case "read", "verify", "restore", "epoch", "get":
		return roofline.Reading
	}
	return ""
}

const (
	roofRow  = 38
	roofRoom = 20 // above the bars, for the name of the target, and below, for that of what was measured
)

// roofChart draws the ceilings of a path as bars, with the target and what was measured.
func roofChart(a *roofline.Answer, measured *Phase) *chart {
	reached := 0.0
	if measured != nil {
		reached = measured.Rate.Median / 1e9
	}
	c := &chart{Title: "Ceilings, " + string(a.Path), Sub: "GB/s", W: chartWidth, H: px(roofRow*len(a.Ceilings) + 2*roofRoom + 4)}
	limit := 1.5 * max(a.Target, a.Roof, reached)
	x := axis{0, limit, 2, c.W - 26, false}
	c.Table = table{Caption: "Ceilings of " + string(a.Path), Head: []string{"ceiling", "units", "each", "all", "", "missing"}}
	for i, one := range a.Ceilings {
		y := px(roofRoom + roofRow*i)
		class, how, missing := "bar", "declared", ""
		if one.Name == a.Binding {
			class = "bar binding"
		}
		if one.Measured {
			how = "measured"
		}
		if one.Missing > 0 {
			missing = units.Count(one.Missing)
		}
		to := x.at(one.Total)
		c.Rects = append(c.Rects, rect{x.from, y + 20, max(1, to-x.from), 10, class, fmt.Sprintf("%s: %s", one.Name, gbPerSec(one.Total))})
		if one.Total > limit {
			c.Paths = append(c.Paths, path{"beyond", fmt.Sprintf("M%s %sl6 5l-6 5M%s %sl6 5l-6 5", to+4, y+20, to+11, y+20)})
		}
		c.Texts = append(c.Texts, label{X: x.from, Y: y + 14, Anchor: "start", Class: "strong", Text: one.Name},
			label{X: c.W - 2, Y: y + 14, Anchor: "end", Text: fmt.Sprintf("%s × %s = %s", units.Count(one.Units), figure(one.Per), gbPerSec(one.Total))})
		c.Table.Rows = append(c.Table.Rows, []string{one.Name, units.Count(one.Units) + " " + one.Unit, gbPerSec(one.Per), gbPerSec(one.Total), how, missing})
	}
	c.Desc = fmt.Sprintf("the lowest ceiling is %s, %s", a.Binding, gbPerSec(a.Roof))
	c.Legend = []legend{{"binding", a.Binding + " binds: " + gbPerSec(a.Roof)}}
	if a.Target > 0 {
		c.mark(x.at(a.Target), "target", 12, "target "+gbPerSec(a.Target))
		c.Desc += fmt.Sprintf("; %s are asked for: %s", gbPerSec(a.Target), a.Verdict)
	}
	if measured != nil {
		c.mark(x.at(reached), "reached", c.H-6, "measured "+gbPerSec(reached))
		c.Desc += fmt.Sprintf("; measured were %s, by %s", gbPerSec(reached), plain(measured.title()))
	}
	return c
}

// mark draws a line through all bars, with its name above or below them.
func (c *chart) mark(x px, class string, y px, text string) {
	c.Grid = append(c.Grid, segment{x, roofRoom - 3, x, c.H - roofRoom - 2, class})
	half := px(len([]rune(text))) * 3.7
	c.Texts = append(c.Texts, label{X: min(max(x, half+2), c.W-half-2), Y: y, Anchor: "middle", Class: class, Text: text})
}

// gbPerSec prints a rate that is in GB/s, with four digits.
func gbPerSec(v float64) string {
	if v >= 9999.5 {
		return units.Count(int64(sane(v))) + " GB/s"
	}
	return figure(v) + " GB/s"
}
