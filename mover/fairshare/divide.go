package fairshare

import "math/bits"

// Divide divides a total among so many demands, max-min fair by weight. No demand gets
// more than it asks for while another lacks something. Of those that lack something, none
// can get more unless one with less for its weight gets still less. What
// is left when all have what they demand is divided by weight too, so that demands have
// room to grow. Without weights all count alike; a weight below 1 counts as 1.
//
// The shares sum up to total, or to nothing where it is negative. A share may be 0: as a
// rate that must not be read as unlimited.
func Divide(total int64, demands, weights []int64) []int64 {
	d := division{left: max(total, 0), shares: make([]int64, len(demands))}
	lacking := make([]int, len(demands))
	for i := range demands {
		lacking[i] = i
		d.weights = append(d.weights, 1)
		if i < len(weights) {
			d.weights[i] = min(max(weights[i], 1), maxWeight)
		}
	}
	for satisfied := true; satisfied; {
		before := len(lacking)
		lacking = d.satisfy(lacking, demands)
		satisfied = len(lacking) < before
	}
	if len(lacking) == 0 {
		for i := range demands {
			lacking = append(lacking, i)
		}
	}
	d.spread(lacking)
	return d.shares
}

type division struct {
	left    int64 // to be given
	shares  []int64
	weights []int64
}

// satisfy gives those what they demand that demand no more than their share of what
// is left, and returns the others.
func (d *division) satisfy(lacking []int, demands []int64) (others []int) {
	left, all := d.left, d.sum(lacking)
	for _, i := range lacking {
		if demand := max(demands[i], 0); demand <= part(left, d.weights[i], all) {
			d.shares[i] = demand
			d.left -= demand
		} else {
			others = append(others, i)
		}
	}
	return others
}

// spread gives all that is left, by weight. What can not be divided goes one by one to
// the first.
func (d *division) spread(among []int) {
	left, all := d.left, d.sum(among)
	for _, i := range among {
		more := part(left, d.weights[i], all)
		d.shares[i] += more
		d.left -= more
	}
	for _, i := range among {
		if d.left == 0 {
			return
		}
		d.shares[i]++
		d.left--
	}
}

func (d *division) sum(among []int) (all int64) {
	for _, i := range among {
		all += d.weights[i]
	}
	return all
}

// part is total * weight / all, without overflow in between.
func part(total, weight, all int64) int64 {
	hi, lo := bits.Mul64(uint64(total), uint64(weight))
	quotient, _ := bits.Div64(hi, lo, uint64(all))
	return int64(quotient)
}
