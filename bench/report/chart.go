package report

import (
	"math"
	"strconv"
	"strings"
)

// px is a place or a length in a drawing.
type px float64

// String prints it with one digit behind the point.
func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

// chart is a drawing, with a description for readers that can not see it, and the table behind it.
type chart struct {
	ID     string
	Title  string
	Sub    string // the units of its axes
	Desc   string
	Legend []legend
	W, H   px
	Grid   []segment
	Paths  []path
	Rects  []rect
	Dots   []dot
	Texts  []label
	Table  table
}

// legend says what a colour is; without one it is a figure.
type legend struct{ Class, Text string }

type segment struct {
	X1, Y1, X2, Y2 px
	Class          string
}

type path struct{ Class, D string }

type rect struct {
	X, Y, W, H px
	Class      string
	Title      string
}

type dot struct {
	X, Y, R px
	Class   string
	Title   string
}

type label struct {
	X, Y   px
	Anchor string // start, middle or end
	Class  string
	Text   string
	Title  string // the whole text where Text is its beginning
}

// table has a header, and rows of which the first cell names the row.
type table struct {
	Caption string
	Head    []string
	Rows    [][]string
}

// axis maps values to places.
type axis struct {
	low, high float64
	from, to  px
	log       bool
}

func (a axis) at(v float64) px {
	low, high := a.low, a.high
	if a.log {
		low, high, v = math.Log(low), math.Log(high), math.Log(max(v, a.low))
	}
	if !(high > low) {
		return a.from
	}
	share := min(max((v-low)/(high-low), 0), 1)
	return a.from + px(share)*(a.to-a.from)
}

// nice is the step that makes about so many ticks up to a value: 1, 2 or 5 times a power of ten.
func nice(high float64, about int) float64 {
	raw := high / float64(about)
	power := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, by := range []float64{1, 2, 5} {
		if raw <= by*power*1.0001 {
			return by * power
		}
	}
	return 10 * power
}

// upTo is an axis from 0 to a round value, with its ticks.
func upTo(high float64, about int, from, to px) (a axis, ticks []float64) {
	if !(high > 0) {
		high = 1
	}
	step := nice(high, about)
	n := int(math.Ceil(high/step - 1e-9))
	for i := range n + 1 {
		ticks = append(ticks, float64(i)*step)
	}
	return axis{0, float64(n) * step, from, to, false}, ticks
}

// decades is a logarithmic axis around values, with its ticks: each power of ten, and what is between where there are few of these.
func decades(low, high float64, from, to px) (a axis, ticks []float64) {
	first, last := math.Floor(math.Log10(low)), math.Ceil(math.Log10(high))
	if last <= first {
		last = first + 1
	}
	between, step := []float64{1}, max(1, math.Ceil((last-first)/6))
	if last-first <= 2 {
		between = []float64{1, 2, 5}
	}
	for e := first; e <= last; e += step {
		for _, by := range between {
			if v := by * math.Pow(10, e); v <= math.Pow(10, last)*1.0001 {
				ticks = append(ticks, v)
			}
		}
	}
	return axis{math.Pow(10, first), math.Pow(10, last), from, to, true}, ticks
}

// frame is where curves are drawn in a chart.
type frame struct{ x, y axis }

const (
	chartWidth  = 400
	chartHeight = 220
	leftRoom    = 50 // for figures of the axis at the left
	rightRoom   = 14
	topRoom     = 12
	bottomRoom  = 26
)

// rows draws the lines and figures of the axis at the left.
func (c *chart) rows(f frame, ticks []float64, text func(float64) string) {
	for _, v := range ticks {
		y := f.y.at(v)
		c.Grid = append(c.Grid, segment{f.x.from, y, f.x.to, y, "grid"})
		c.Texts = append(c.Texts, label{X: f.x.from - 6, Y: y + 4, Anchor: "end", Text: text(v)})
	}
}

// below draws the figures of the axis below, those that have room: about the width of a letter is known.
func (c *chart) below(f frame, ticks []float64, text func(float64) string) {
	end := px(-1e9)
	for _, v := range ticks {
		t, x := text(v), f.x.at(v)
		half := px(len([]rune(t))) * 3.2
		x = min(x, c.W-half-1)
		if x-half < end {
			continue
		}
		end = x + half + 6
		c.Texts = append(c.Texts, label{X: x, Y: c.H - 8, Anchor: "middle", Text: t})
	}
}

// pen writes the way of a path.
type pen struct{ b strings.Builder }

func (p *pen) to(command byte, x, y px) {
	p.b.WriteByte(command)
	p.b.WriteString(x.String())
	p.b.WriteByte(' ')
	p.b.WriteString(y.String())
}

func (p *pen) horizontal(x px) { p.b.WriteString("H" + x.String()) }
func (p *pen) vertical(y px)   { p.b.WriteString("V" + y.String()) }
func (p *pen) String() string  { return p.b.String() }
