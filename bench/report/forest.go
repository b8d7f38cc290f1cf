package report

import (
	"fmt"
	"slices"
	"strings"

	"datamove.dev/mover/units"
)

const (
	forestRow  = 22
	forestRows = 40 // that are drawn: regressions come first
	forestLeft = 150
)

// forestChart draws the change of each phase, with where it is likely to be. It is nil where nothing can be compared.
func forestChart(b *Baseline) *chart {
	var shown []*Change
	low, high := 0.9, 1.1
	for i := range b.Changes {
		c := &b.Changes[i]
		if c.Ratio.Count == 0 || len(shown) == forestRows {
			continue
		}
		shown = append(shown, c)
		low, high = min(low, c.Ratio.Low, c.Ratio.Median), max(high, c.Ratio.High, c.Ratio.Median)
	}
	if len(shown) == 0 {
		return nil
	}
	low, high = max(low*0.98, 0.25), min(high*1.02, 4)
	c := &chart{Title: "Change of each phase", Sub: "of the median rate, with where 95 in 100 are", W: chartWidth, H: px(forestRow*len(shown) + bottomRoom + 6)}
	f := frame{x: axis{low, high, forestLeft + 8, c.W - rightRoom, true}}
	left, right := f.x.at(1-b.Tolerance), f.x.at(1+b.Tolerance)
	c.Rects = append(c.Rects, rect{left, 2, right - left, c.H - bottomRoom - 4, "tolerated", ""})
	ticks := slices.DeleteFunc([]float64{0.25, 0.5, 0.8, 0.9, 1, 1.1, 1.25, 2, 4}, func(ratio float64) bool { return ratio < low || ratio > high })
	for _, ratio := range ticks {
		class := "grid"
		if ratio == 1 {
			class = "zero"
		}
		c.Grid = append(c.Grid, segment{f.x.at(ratio), 2, f.x.at(ratio), c.H - bottomRoom - 2, class})
	}
	c.below(f, ticks, func(ratio float64) string { return strings.Replace(difference(ratio), ".0", "", 1) })
	for i, one := range shown {
		y := px(forestRow*i) + forestRow/2 + 2
		name := fmt.Sprintf("%s %s", plain(one.Suite), plain(one.Name))
		on := " · " + units.Count(int64(one.Nodes))
		c.Texts = append(c.Texts, label{X: forestLeft, Y: y + 4, Anchor: "end", Class: "name", Text: narrow(name, 24-len([]rune(on))) + on, Title: name})
		c.Paths = append(c.Paths, path{"whisker " + string(one.Verdict), fmt.Sprintf("M%s %sH%s", f.x.at(one.Ratio.Low), y, f.x.at(one.Ratio.High))})
		c.Dots = append(c.Dots, dot{f.x.at(one.Ratio.Median), y, 4, string(one.Verdict), fmt.Sprintf("%s on %s: %s", name, several(one.Nodes, "node"), difference(one.Ratio.Median))})
	}
	c.Legend = []legend{{"slower", "slower"}, {"faster", "faster"}, {"tolerated", "within " + figure(b.Tolerance*100) + " %"}}
	c.Desc = b.Summary()
	return c
}
