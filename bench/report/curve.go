package report

import (
	"fmt"
	"math"
	"strconv"

	"datamove.dev/bench/result"
)

// scalingChart draws rates by numbers of nodes, and the line that they would be on if each node reached what one does alone.
func scalingChart(s *Scaling) *chart {
	highest, nodes := s.Points[len(s.Points)-1], 0.0
	top := 0.0
	for _, p := range s.Points {
		nodes = max(nodes, float64(p.Nodes))
		top = max(top, p.Rate.High, p.Rate.Median)
	}
	top = max(top, s.OneNode*nodes)
	by, prefix := magnitude(top)
	c := &chart{Title: plain(s.Suite + " " + s.Name), Sub: prefix + unitName(s.Unit) + " by number of nodes", W: chartWidth, H: chartHeight}
	var f frame
	var ticks []float64
	f.y, ticks = upTo(top/by, 4, c.H-bottomRoom, topRoom)
	f.x = axis{0, nodes, leftRoom, c.W - rightRoom - 8, false}
	c.rows(f, ticks, figure)
	c.Legend = []legend{{"measured", "measured"}}
	c.Table = table{Caption: "Rates by number of nodes", Head: []string{"nodes", "ranks", "rate", "95 % of the median", "efficiency"}}
	c.Desc = fmt.Sprintf("%s with %s", rate(highest.Rate.Median, s.Unit), several(highest.Nodes, "node"))
	if s.OneNode > 0 {
		c.Paths = append(c.Paths, path{"ideal", fmt.Sprintf("M%s %sL%s %s", f.x.at(0), f.y.at(0), f.x.at(nodes), f.y.at(s.OneNode*nodes/by))})
		c.Legend = append(c.Legend, legend{"ideal", "as many times one node"})
		c.Desc += fmt.Sprintf(": %s of as many times what one node reaches", percent(highest.Efficiency))
	} else {
		c.Legend = append(c.Legend, legend{"", "one node was not run: no efficiency"})
	}
	var line, whiskers pen
	var sizes []float64
	for i, p := range s.Points {
		x, y := f.x.at(float64(p.Nodes)), f.y.at(p.Rate.Median/by)
		command := byte('L')
		if i == 0 {
			command = 'M'
		}
		line.to(command, x, y)
		if p.Rate.High > p.Rate.Low {
			whiskers.to('M', x, f.y.at(p.Rate.Low/by))
			whiskers.vertical(f.y.at(p.Rate.High / by))
		}
		efficiency := "–"
		if p.Efficiency > 0 {
			efficiency = percent(p.Efficiency)
		}
		c.Dots = append(c.Dots, dot{x, y, 3.5, "", fmt.Sprintf("%s: %s, efficiency %s", several(p.Nodes, "node"), rate(p.Rate.Median, s.Unit), efficiency)})
		c.Table.Rows = append(c.Table.Rows, []string{strconv.Itoa(p.Nodes), strconv.Itoa(p.Ranks), rate(p.Rate.Median, s.Unit), span(p.Rate, s.Unit), efficiency})
		sizes = append(sizes, float64(p.Nodes))
	}
	c.Paths = append(c.Paths, path{"whisker", whiskers.String()}, path{"measured", line.String()})
	c.efficiencies(s.Points)
	c.below(f, sizes, figure)
	return c
}

// efficiencies writes them below the points, from the last one on, where there is room. Dots are those of the points.
func (c *chart) efficiencies(points []Point) {
	left := c.W
	for i := len(points) - 1; i > 0; i-- {
		x, y := c.Dots[i].X, c.Dots[i].Y
		if points[i].Efficiency == 0 || y > c.H-bottomRoom-22 {
			continue
		}
		text := percent(points[i].Efficiency)
		half := px(len(text)) * 3.4
		if x = min(x, c.W-half-2); x+half > left {
			continue
		}
		left = x - half - 4
		c.Texts = append(c.Texts, label{X: x, Y: y + 18, Anchor: "middle", Class: "strong", Text: text})
	}
}

// timeChart draws the rate of all nodes together over time, of all repeats; the typical one stands out. It is nil where nothing was looked at on the way.
func timeChart(p *Phase) *chart {
	typical := p.typical()
	if typical == nil {
		return nil
	}
	longest, top := 0.0, 0.0
	var all []course
	for _, one := range p.good {
		t := courseOf(one)
		if len(t.rates) == 0 {
			continue
		}
		t.typical = one == typical
		longest = max(longest, one.Last.Seconds)
		for _, r := range t.rates {
			top = max(top, r)
		}
		all = append(all, t)
	}
	if len(all) == 0 {
		return nil
	}
	by, prefix := magnitude(top)
	c := &chart{Title: "Rate over time", Sub: prefix + unitName(p.Unit) + " by seconds, all nodes together", W: chartWidth, H: chartHeight}
	var f frame
	var ticks, times []float64
	f.y, ticks = upTo(top/by, 4, c.H-bottomRoom, topRoom+12)
	f.x, times = upTo(longest, 6, leftRoom, c.W-rightRoom)
	f.x.high = longest
	c.rows(f, ticks, figure)
	for len(times) > 0 && times[len(times)-1] > longest*1.0001 {
		times = times[:len(times)-1]
	}
	c.below(f, times, figure)
	c.Legend = []legend{{"measured", "the typical repeat"}}
	if len(all) > 1 {
		c.Legend = append(c.Legend, legend{"faint", "other repeats"})
	}
	for _, t := range all {
		if t.typical {
			continue
		}
		c.Paths = append(c.Paths, path{"faint", t.steps(f, by)})
	}
	for _, t := range all {
		if t.typical {
			c.standsOut(f, by, typical, t)
		}
	}
	c.Desc = fmt.Sprintf("%s until the first rank was done, %s until the last was", rate(typical.FirstRate(), p.Unit), rate(typical.Rate(), p.Unit))
	return c
}

// standsOut draws the repeat that stands out, and where its first rank was done.
func (c *chart) standsOut(f frame, by float64, p *result.Phase, t course) {
	c.Paths = append(c.Paths, path{"area", t.steps(f, by) + "V" + f.y.from.String() + "H" + f.x.at(0).String() + "Z"}, path{"measured", t.steps(f, by)})
	c.Table = table{Caption: "Rate by time, of the typical repeat", Head: []string{"from second", "to second", "rate"}}
	for i, r := range t.rates {
		c.Table.Rows = append(c.Table.Rows, []string{digits(t.edges[i]), digits(t.edges[i+1]), rate(r, p.Unit)})
	}
	if p.First.Seconds <= 0 || p.First.Seconds > p.Last.Seconds {
		return
	}
	x, anchor := f.x.at(p.First.Seconds), "start"
	if x > (f.x.from+f.x.to)/2 {
		anchor = "end"
	}
	c.Grid = append(c.Grid, segment{x, topRoom, x, f.y.from, "first"})
	c.Texts = append(c.Texts, label{X: x, Y: topRoom, Anchor: anchor, Class: "first", Text: "first rank done, " + seconds(p.First.Seconds)})
}

// steps is the way of a course.
func (t course) steps(f frame, by float64) string {
	var p pen
	for i, r := range t.rates {
		if y := f.y.at(r / by); i == 0 {
			p.to('M', f.x.at(t.edges[0]), y)
		} else {
			p.vertical(y)
		}
		p.horizontal(f.x.at(t.edges[i+1]))
	}
	return p.String()
}

// percentiles are those of the table of latencies.
var percentiles = []float64{50, 75, 90, 95, 99, 99.9, 99.99, 99.999}

// latencyChart draws latency by percentile, on an axis on which 90, 99 and 99.9 % are equally far apart. It is nil where there is no histogram.
func latencyChart(l *Latency) *chart {
	if l.all == nil || l.all.Max() < 1 {
		return nil
	}
	c := &chart{Title: "Latency", Sub: "by percentile, of " + several(l.Count, "operation"), W: chartWidth, H: chartHeight}
	nines := min(max(math.Log10(float64(l.Count)), 2), 6)
	var f frame
	var ticks []float64
	f.y, ticks = decades(max(float64(l.all.ValueAtPercentile(1)), 1)/1e3, max(float64(l.all.Max()), 2)/1e3, c.H-bottomRoom, topRoom)
	f.x = axis{0, nines, leftRoom + 8, c.W - rightRoom, false}
	c.rows(f, ticks, microsFigure)
	at := []float64{0}
	for p := 0.1; p <= nines; p += 0.1 {
		at = append(at, p)
	}
	var line pen
	for i, n := range append(at, nines) {
		v := l.all.ValueAtPercentile(100 * (1 - math.Pow(10, -n)))
		if i == len(at) {
			v = l.all.Max()
		}
		command := byte('L')
		if i == 0 {
			command = 'M'
		}
		line.to(command, f.x.at(n), f.y.at(float64(v)/1e3))
	}
	c.Paths = []path{{"measured", line.String()}}
	c.Desc = fmt.Sprintf("half of all operations took up to %s, 99 %% up to %s, the longest %s", micros(l.P50), micros(l.P99), micros(l.Max))
	c.Legend = []legend{{"", "p50 " + micros(l.P50)}, {"", "p99 " + micros(l.P99)}, {"", "p99.9 " + micros(l.P999)}, {"", "max " + micros(l.Max)}}
	c.Table = table{Caption: "Latency by percentile", Head: []string{"percentile", "latency"}}
	var marks []float64
	names := map[float64]string{}
	for _, p := range percentiles {
		n := -math.Log10(1 - p/100)
		if n > nines+0.01 {
			break
		}
		v := float64(l.all.ValueAtPercentile(p)) / 1e3
		c.Table.Rows = append(c.Table.Rows, []string{figureOf(p), micros(v)})
		if p == 75 || p == 95 {
			continue
		}
		marks, names[n] = append(marks, n), figureOf(p)
		c.Grid = append(c.Grid, segment{f.x.at(n), topRoom, f.x.at(n), f.y.from, "grid"})
		c.Dots = append(c.Dots, dot{f.x.at(n), f.y.at(v), 3, "", figureOf(p) + ": " + micros(v)})
	}
	c.Dots = append(c.Dots, dot{f.x.to, f.y.at(l.Max), 3, "", "the longest: " + micros(l.Max)})
	c.Table.Rows = append(c.Table.Rows, []string{"max", micros(l.Max)})
	if len(marks) > 0 && nines-marks[len(marks)-1] < 0.6 {
		marks = marks[:len(marks)-1]
	}
	c.below(f, append(marks, nines), func(n float64) string {
		if n == nines {
			return "max"
		}
		return names[n]
	})
	return c
}

func figureOf(percentile float64) string {
	return strconv.FormatFloat(percentile, 'g', -1, 64) + " %"
}
