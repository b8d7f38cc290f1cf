package roofline

import (
	"math"
	"math/rand/v2"
	"slices"

	"datamove.dev/mover"
)

// Run is what some nodes have reached together, once or more often.
type Run struct {
	Nodes int64
	Rates []float64 // bytes per second of each repeat
}

// usl is the Universal Scalability Law (Gunther): N nodes reach λN / (1 + σ(N-1) + κN(N-1)). What is waited for is in σ, what each has to agree on with each in κ.
// top bounds it: a ceiling that was reached; +Inf is none.
type usl struct{ lambda, sigma, kappa, top float64 }

func (u usl) at(n float64) float64 {
	return min(u.top, u.lambda*n/(1+u.sigma*(n-1)+u.kappa*n*(n-1)))
}

// point is what so many nodes have reached.
type point struct{ nodes, rate float64 }

// fit finds the law for points. N/X is linear in what is looked for, so that it is a weighted sum of squares with three unknowns that are not negative.
func fit(points []point) usl {
	best, least := usl{top: math.Inf(1)}, math.Inf(1)
	for free := range 4 { // σ, κ, both or none of them
		a, b, c, ok := solve(points, free&1 != 0, free&2 != 0)
		if !ok || a <= 0 || b < 0 || c < 0 {
			continue
		}
		u := usl{1 / a, b / a, c / a, math.Inf(1)}
		if s := squares(points, u); s < least {
			best, least = u, s
		}
	}
	return best
}

// squares is the sum of the squares of what a law is off, as shares of what was reached.
func squares(points []point, u usl) (sum float64) {
	for _, p := range points {
		off := u.at(p.nodes)/p.rate - 1
		sum += off * off
	}
	return sum
}

// solve finds a + b(N-1) + cN(N-1) for N/X by the normal equations; without b or c these are 0.
func solve(points []point, withB, withC bool) (a, b, c float64, ok bool) {
	use := []func(n float64) float64{func(float64) float64 { return 1 }}
	if withB {
		use = append(use, func(n float64) float64 { return n - 1 })
	}
	if withC {
		use = append(use, func(n float64) float64 { return n * (n - 1) })
	}
	k := len(use)
	m := make([][]float64, k)
	for i := range m {
		m[i] = make([]float64, k+1)
	}
	for _, p := range points {
		y := p.nodes / p.rate
		for i := range k {
			for j := range k {
				m[i][j] += use[i](p.nodes) * use[j](p.nodes) / (y * y)
			}
			m[i][k] += use[i](p.nodes) / y
		}
	}
	x, ok := eliminate(m)
	if !ok {
		return 0, 0, 0, false
	}
	a = x[0]
	if withB {
		b = x[1]
	}
	if withC {
		c = x[k-1]
	}
	return a, b, c, true
}

// eliminate solves a system of linear equations, of which the right side is the last column.
func eliminate(m [][]float64) (x []float64, ok bool) {
	k := len(m)
	for i := range k {
		pivot := i
		for j := i + 1; j < k; j++ {
			if math.Abs(m[j][i]) > math.Abs(m[pivot][i]) {
				pivot = j
			}
		}
		m[i], m[pivot] = m[pivot], m[i]
		if math.Abs(m[i][i]) < 1e-12*math.Abs(m[i][k])+1e-300 {
			return nil, false
		}
		for j := range k {
			if j == i {
				continue
			}
			by := m[j][i] / m[i][i]
			for l := i; l <= k; l++ {
				m[j][l] -= by * m[i][l]
			}
		}
	}
	for i := range k {
		x = append(x, m[i][k]/m[i][i])
	}
	return x, true
}

// fitCapped finds the law, and the ceiling that was reached, where points say that there is one: from some number of nodes on there is no more. It has to pay for its two more unknowns.
func fitCapped(points []point) usl {
	best := fit(points)
	score := bic(points, best, 3)
	sizes := []float64{}
	for _, p := range points {
		if !slices.Contains(sizes, p.nodes) {
			sizes = append(sizes, p.nodes)
		}
	}
	slices.Sort(sizes)
	for k := 2; k < len(sizes); k++ { // at least two sizes are below it
		var below, there []point
		top := 0.0
		for _, p := range points {
			if p.nodes < sizes[k] {
				below = append(below, p)
			} else {
				there, top = append(there, p), top+p.rate
			}
		}
		u := fit(below)
		u.top = top / float64(len(there))
		if s := bic(points, u, 5); s < score {
			best, score = u, s
		}
	}
	return best
}

// bic is Schwarz's criterion: less is better.
func bic(points []point, u usl, unknowns float64) float64 {
	n := float64(len(points))
	return n*math.Log(squares(points, u)/n+1e-12) + unknowns*math.Log(n)
}

// Estimate is what so many nodes are likely to reach, in bytes per second.
type Estimate struct {
	Likely, Low, High float64 // of nine in ten
	Ceiling           float64 // that the runs have reached; 0 is none
}

// roofOff is how much a ceiling that was measured alone is off, as the standard deviation of its share.
const roofOff = 0.02

// tries are how often an estimate is made anew of what might have been measured.
const tries = 400

// Extrapolate says what nodes would reach, of runs of fewer of them, with the roof that was measured or declared. It is asked only for what is at most twice as large as the largest
// run: of more a fit says nothing.
func Extrapolate(runs []Run, nodes int64, roof float64) (Estimate, error) {
	var points []point
	largest := int64(0)
	for _, r := range runs {
		for _, rate := range r.Rates {
			if r.Nodes < 1 || !(rate > 0) || math.IsInf(rate, 0) {
				return Estimate{}, mover.Usagef("a run of %d nodes with %g bytes per second", r.Nodes, rate)
			}
			points, largest = append(points, point{float64(r.Nodes), rate}), max(largest, r.Nodes)
		}
	}
	if len(runs) < 3 || largest*2 < nodes {
		return Estimate{}, mover.Usagef("%d nodes can not be told of %d runs of at most %d: run at least 3 sizes, and half of the nodes", nodes, len(runs), largest)
	}
	u := fitCapped(points)
	random := rand.New(rand.NewPCG(1, uint64(nodes)))
	noise := math.Sqrt(squares(points, u) / max(1, float64(len(points)-3)))
	var all []float64
	for range tries {
		again := make([]point, len(points))
		for i, p := range points {
			again[i] = point{p.nodes, u.at(p.nodes) * math.Exp(noise*random.NormFloat64())}
		}
		all = append(all, min(roof*(1+roofOff*random.NormFloat64()), fitCapped(again).at(float64(nodes))))
	}
	slices.Sort(all)
	out := Estimate{Likely: min(roof, u.at(float64(nodes))), Low: all[tries/50], High: all[tries-1-tries/50]}
	if !math.IsInf(u.top, 1) {
		out.Ceiling = u.top
	}
	return out, nil
}
