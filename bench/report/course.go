package report

import (
	"math"

	"datamove.dev/bench/result"
)

// mostBins are how many intervals a chart has at most.
const mostBins = 120

// bins are equal intervals of a phase.
type bins struct {
	count   int
	seconds float64 // of each but the last, which may be shorter
	end     float64 // of the phase
}

// binsOf are those of a phase: as wide as the widest of what was looked at, or as it takes to have few enough. Count is 0 where nothing was looked at.
func binsOf(p *result.Phase, shares []result.Share, most int) bins {
	widest, end := 0.0, p.Last.Seconds
	for i := range shares {
		if len(shares[i].Series) > 0 {
			widest = max(widest, shares[i].Every)
		}
	}
	if !(widest > 0) || end < 1/float64(1<<40) {
		return bins{}
	}
	width := end / float64(most)
	if end/widest < 1e9 {
		width = widest * max(1, math.Ceil(end/widest/float64(most)))
	}
	n := max(1, math.Ceil(end/width-0.25)) // what is left of less than a quarter of an interval belongs to the one before
	return bins{int(n), width, end}
}

// edge is where an interval begins.
func (b bins) edge(i int) float64 {
	if i == b.count {
		return b.end
	}
	return float64(i) * b.seconds
}

// add adds what a share did to intervals: what is between two looks was done evenly.
func (b bins) add(s *result.Share, into []float64) {
	for i, n := range s.Series {
		from := float64(i) * s.Every
		to := min(from+s.Every, mostFigure*mostFigure) // what is said of a time that can not be is finite
		if i == len(s.Series)-1 && b.end > from {
			to = min(to, b.end) // the last look was when all was done
		}
		if n <= 0 {
			continue
		}
		if !(to > from) || from >= b.end {
			into[b.bin(from)] += float64(n)
			continue
		}
		for k := b.bin(from); k <= b.bin(to); k++ {
			end := min(to, b.edge(k+1))
			if k == b.count-1 {
				end = to
			}
			into[k] += float64(n) * max(0, end-max(from, b.edge(k))) / (to - from)
		}
	}
}

// rates are those of shares together.
func (b bins) rates(shares ...result.Share) []float64 {
	all := make([]float64, b.count)
	for i := range shares {
		b.add(&shares[i], all)
	}
	for i := range all {
		all[i] /= b.edge(i+1) - b.edge(i)
	}
	return all
}

// bin is the interval that an instant is in.
func (b bins) bin(second float64) int {
	return int(min(max(second/b.seconds, 0), float64(b.count-1)))
}

// course is the rate of all nodes together over time.
type course struct {
	edges   []float64 // one more than rates
	rates   []float64
	typical bool
}

// courseOf is that of a repeat.
func courseOf(p *result.Phase) course {
	shares := p.PerNode
	b := binsOf(p, shares, mostBins)
	if b.count == 0 {
		shares = p.PerTarget
		b = binsOf(p, shares, mostBins)
	}
	if b.count == 0 {
		return course{}
	}
	t := course{rates: b.rates(shares...)}
	for i := range b.count + 1 {
		t.edges = append(t.edges, b.edge(i))
	}
	return t
}
