package report

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"datamove.dev/bench/result"
)

const (
	heatLevels = 8
	heatBins   = 60
	heatRows   = 32 // that are drawn: of more, those that did the least
	heatLeft   = 104
	heatRow    = 16
)

// heatChart draws the rate of each share of a repeat over time: a row each. One that does nothing while there is work stands out. It is nil where nothing was looked at on the way.
func heatChart(title, one string, p *result.Phase, shares []result.Share) *chart {
	b := binsOf(p, shares, heatBins)
	if b.count == 0 {
		return nil
	}
	rows, top := make([][]float64, len(shares)), 0.0
	for i := range shares {
		rows[i] = b.rates(shares[i])
		top = max(top, slices.Max(rows[i]))
	}
	shown := slowest(shares, p.Unit)
	height := px(max(heatRow, min(44, 100/len(shown))))
	c := &chart{Title: title, Sub: "by seconds, the typical repeat", W: chartWidth, H: height*px(len(shown)) + bottomRoom + 4}
	x := axis{0, b.end, heatLeft, c.W - rightRoom, false}
	var levels [heatLevels + 1]pen
	c.Table = table{Caption: title, Head: []string{one, "rate", "lowest", "highest", "idle"}}
	for row, i := range shown {
		y := px(row) * height
		idle := b.row(&levels, x, rows[i], &shares[i], top, y, height-1)
		name := plain(shares[i].Name)
		c.Texts = append(c.Texts, label{X: heatLeft - 8, Y: y + height/2 + 4, Anchor: "end", Class: "name", Text: narrow(name, 15), Title: name})
		c.Table.Rows = append(c.Table.Rows, []string{name, rate(shareRate(&shares[i], p.Unit), p.Unit), rate(slices.Min(rows[i]), p.Unit), rate(slices.Max(rows[i]), p.Unit), seconds(idle)})
	}
	for level := range levels {
		if d := levels[level].String(); d != "" {
			c.Paths = append(c.Paths, path{"h" + strconv.Itoa(level), d})
		}
	}
	_, times := upTo(b.end, 5, 0, 1)
	c.below(frame{x: x}, slices.DeleteFunc(times, func(t float64) bool { return t > b.end*1.0001 }), figure)
	if len(shown) < len(shares) {
		c.Sub += fmt.Sprintf(", the %d that did the least of %d", len(shown), len(shares))
	}
	c.Legend = []legend{{"ramp", rate(top, p.Unit)}, {"h0", "nothing done"}}
	least := shown[0]
	for _, i := range shown {
		if shareRate(&shares[i], p.Unit) < shareRate(&shares[least], p.Unit) {
			least = i
		}
	}
	c.Desc = fmt.Sprintf("%s; the least was done by %s, %s", several(len(shares), one), plain(shares[least].Name), rate(shareRate(&shares[least], p.Unit), p.Unit))
	return c
}

// row draws the rates of one share, and is for how many seconds it did nothing before its end.
func (b bins) row(levels *[heatLevels + 1]pen, x axis, rates []float64, s *result.Share, top float64, y, height px) (idle float64) {
	end := min(max(s.Seconds, b.seconds), b.end)
	for i := 0; i < b.count; {
		level, first := levelOf(rates[i], top), i
		for i++; i < b.count && levelOf(rates[i], top) == level; i++ {
		}
		from, to := b.edge(first), b.edge(i)
		if level == 0 {
			if to = min(to, end); to <= from {
				continue // it is done
			}
			idle += to - from
		}
		left, right := x.at(from), x.at(to)
		p := &levels[level]
		p.to('M', left, y)
		p.horizontal(right)
		p.vertical(y + height)
		p.horizontal(left)
		p.b.WriteByte('Z')
	}
	return idle
}

// levelOf is 0 for nothing, and else from 1 to heatLevels.
func levelOf(rate, top float64) int {
	if rate <= 0 || top <= 0 {
		return 0
	}
	return 1 + min(int(rate/top*heatLevels), heatLevels-1)
}

// shareRate is what a share did per second of its time.
func shareRate(s *result.Share, u result.Unit) float64 {
	n := s.Ops
	if u == result.Bytes {
		n = s.Bytes
	}
	if s.Seconds <= 0 {
		return 0
	}
	return sane(float64(n) / s.Seconds)
}

// slowest are those that are drawn, in the order of a record.
func slowest(shares []result.Share, u result.Unit) []int {
	all := make([]int, len(shares))
	for i := range all {
		all[i] = i
	}
	if len(all) > heatRows {
		slices.SortStableFunc(all, func(a, b int) int {
			return cmp.Or(cmp.Compare(shareRate(&shares[a], u), shareRate(&shares[b], u)), strings.Compare(shares[a].Name, shares[b].Name))
		})
		all = all[:heatRows]
		slices.Sort(all)
	}
	return all
}
