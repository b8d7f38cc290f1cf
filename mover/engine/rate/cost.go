package rate

import (
	"math"
	"time"
)

// cost learns what a file and what a byte cost in time, by least squares over
// all intervals, newer ones weighing more. A rate of bytes alone would be wrong
// by far for trees of mixed sizes, where thousands of small files come first and
// one large file last, or the other way round.
type cost struct {
	ff, fb, bb float64 // sums of files², files·bytes, bytes²
	ft, bt     float64 // sums of files·time, bytes·time
	f, b, t    float64 // sums: what was done in which time
}

// byteUnit is what bytes are counted in, so that both columns are of like size.
const byteUnit = 64 << 10

func (c *cost) learn(d time.Duration, files, bytes int64) {
	f, b, t := float64(files), float64(bytes)/byteUnit, d.Seconds()
	keep := math.Exp(-t / learnt.Seconds())
	for _, sum := range []*float64{&c.ff, &c.fb, &c.bb, &c.ft, &c.bt, &c.f, &c.b, &c.t} {
		*sum *= keep
	}
	c.ff, c.fb, c.bb = c.ff+f*f, c.fb+f*b, c.bb+b*b
	c.ft, c.bt = c.ft+f*t, c.bt+b*t
	c.f, c.b, c.t = c.f+f, c.b+b, c.t+t
}

// predict is the seconds for so many files and bytes; 0 is not known. Bytes never pass
// faster than they ever did where they look as if they cost nothing.
func (c *cost) predict(files, bytes int64, fastest float64) float64 {
	perFile, perUnit := c.solve()
	known := perFile*c.f + perUnit*c.b
	if known <= 0 {
		return 0
	}
	// The fit does not see intervals in which nothing was done; the sum does.
	sec := perFile*float64(files)*c.t/known + perUnit*float64(bytes)/byteUnit*c.t/known
	if perUnit == 0 && fastest > 0 {
		sec += float64(bytes) / fastest
	}
	return sec
}

// solve gives the seconds per file and per unit of bytes, neither negative.
func (c *cost) solve() (perFile, perUnit float64) {
	// A little added to the diagonal keeps the solution when all files are of one size.
	ff, bb := c.ff*(1+1e-6)+1e-12, c.bb*(1+1e-6)+1e-12
	det := ff*bb - c.fb*c.fb
	if det > 0 {
		perFile, perUnit = (c.ft*bb-c.bt*c.fb)/det, (c.bt*ff-c.ft*c.fb)/det
	}
	switch {
	case perFile <= 0 && perUnit <= 0, perFile < 0:
		return 0, c.bt / bb
	case perUnit < 0:
		return c.ft / ff, 0
	}
	return perFile, perUnit
}
