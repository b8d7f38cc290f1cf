package service

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// world is all that a seed stands for: what there is, what is done, and what goes wrong.
type world struct {
	seed    uint64
	young   bool // young domains, too
	agents  int
	swarm   bool // agents give each other what they stage
	rate    int64
	domains []string
	trees   []shape
	steps   []step
	rates   rates
}

// shape is what a source has.
type shape struct {
	small, large int
	largeBytes   int64
}

// step is one thing that happens, after a while.
type step struct {
	wait    time.Duration
	domain  string
	do      string
	a, b, c int // what it is done to, modulo what there is
}

// rates are the chances of what happens to a message or a call.
type rates struct {
	delay, lost, answered, twice, slow float64
	longest                            time.Duration // of a delay
}

const (
	sources = 2
	targets = 3
	most    = 26 // steps
)

var waits = []time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, time.Second, 2500 * time.Millisecond, 7 * time.Second}

// draw makes the world of a seed. Each world has some of the domains and, of each, some of the deeds: what is seldom drawn among all is common in some.
func draw(seed uint64, young bool) world {
	rng := rand.New(rand.NewPCG(seed, 39))
	w := world{seed: seed, young: young, agents: 1 + rng.IntN(4), rate: []int64{128 << 10, 512 << 10, 2 << 20}[rng.IntN(3)]}
	w.swarm = w.agents > 1 && rng.IntN(3) == 0
	large := []int{0, 2, 2, 8}[rng.IntN(4)]
	for range sources {
		w.trees = append(w.trees, shape{small: rng.IntN([]int{4, 16, 16, 60}[rng.IntN(4)]), large: rng.IntN(large + 1), largeBytes: []int64{1 << 20, 1 << 20, 4 << 20}[rng.IntN(3)]})
	}
	type choice struct {
		domain, do string
		upTo       int
	}
	var choices []choice
	total := 0
	for _, k := range kinds {
		in := rng.IntN(12) < k.in && (young || !k.young) && !slices.Contains(w.domains, apart[k.name])
		if in {
			w.domains = append(w.domains, k.name)
		}
		for _, d := range k.deeds {
			times := []int{0, 1, 1, 1, 3}[rng.IntN(5)]
			if total += d.weight * times; in && times > 0 {
				choices = append(choices, choice{k.name, d.do, total})
			}
		}
	}
	for range 4 + rng.IntN(most-3) {
		s := step{wait: waits[rng.IntN(len(waits))], a: rng.IntN(1 << 10), b: rng.IntN(1 << 10), c: rng.IntN(1 << 10)}
		n := rng.IntN(choices[len(choices)-1].upTo)
		i := slices.IndexFunc(choices, func(c choice) bool { return n < c.upTo })
		s.domain, s.do = choices[i].domain, choices[i].do
		w.steps = append(w.steps, s)
	}
	chance := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	w.rates = rates{delay: chance(0.5), lost: chance(0.03), answered: chance(0.03), twice: chance(0.05), slow: chance(0.2),
		longest: []time.Duration{5 * time.Millisecond, 200 * time.Millisecond, 1500 * time.Millisecond}[rng.IntN(3)]}
	return w
}

// String says how to have a world again: its seed, and what is left of it.
func (w *world) String() string {
	full := draw(w.seed, w.young)
	s := strconv.FormatUint(w.seed, 10)
	if w.young {
		s += ":young"
	}
	for _, name := range full.domains {
		if !slices.Contains(w.domains, name) {
			s += ":no=" + name
		}
	}
	if len(w.steps) != len(full.steps) {
		var kept []string
		j := 0
		for i := range full.steps {
			if j < len(w.steps) && full.steps[i] == w.steps[j] {
				kept, j = append(kept, strconv.Itoa(i)), j+1
			}
		}
		s += ":steps=" + strings.Join(kept, ",")
	}
	if w.agents != full.agents {
		s += ":agents=" + strconv.Itoa(w.agents)
	}
	for _, name := range rateNames {
		if *w.fields()[name] == 0 && *full.fields()[name] != 0 {
			s += ":no=" + name
		}
	}
	if w.swarm != full.swarm {
		s += ":no=swarm"
	}
	return s
}

var rateNames = []string{"delay", "lost", "answered", "twice", "slow"}

func (w *world) fields() map[string]*float64 {
	return map[string]*float64{"delay": &w.rates.delay, "lost": &w.rates.lost, "answered": &w.rates.answered, "twice": &w.rates.twice, "slow": &w.rates.slow}
}

// parse is the world that String wrote.
func parse(text string) (world, error) {
	parts := strings.Split(text, ":")
	seed, err := strconv.ParseUint(parts[0], 10, 64)
	if err != nil {
		return world{}, fmt.Errorf("world %q: %w", text, err)
	}
	parts = parts[1:]
	young := len(parts) > 0 && parts[0] == "young"
	if young {
		parts = parts[1:]
	}
	w := draw(seed, young)
	full := w.steps
	for _, p := range parts {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "agents":
			w.agents, err = strconv.Atoi(value)
		case "steps":
			w.steps = nil
			for i := range full {
				if slices.Contains(strings.Split(value, ","), strconv.Itoa(i)) {
					w.steps = append(w.steps, full[i])
				}
			}
		case "no":
			err = w.remove(value)
		default:
			err = fmt.Errorf("nothing is called %q", name)
		}
		if err != nil {
			return w, fmt.Errorf("world %q: %w", text, err)
		}
	}
	return w, nil
}

// remove takes something out of a world.
func (w *world) remove(name string) error {
	switch rate := w.fields()[name]; {
	case rate != nil:
		*rate = 0
	case name == "swarm":
		w.swarm = false
	case slices.Contains(w.domains, name):
		*w = w.without(name)
	default:
		return fmt.Errorf("nothing is called %q", name)
	}
	return nil
}

// without is a world without a domain.
func (w *world) without(name string) world {
	x := *w
	x.domains = slices.DeleteFunc(slices.Clone(w.domains), func(d string) bool { return d == name })
	x.steps = slices.DeleteFunc(slices.Clone(w.steps), func(s step) bool { return s.domain == name })
	return x
}

// smaller are worlds that have less than w, the smallest first.
func (w *world) smaller() (all []world) {
	for _, name := range w.domains {
		if name != "tasks" { // it has the sources
			all = append(all, w.without(name))
		}
	}
	for size := len(w.steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(w.steps); from += size {
			x := *w
			x.steps = slices.Concat(w.steps[:from], w.steps[min(from+size, len(w.steps)):])
			all = append(all, x)
		}
	}
	for _, name := range rateNames {
		x := *w
		if rate := x.fields()[name]; *rate > 0 {
			*rate = 0
			all = append(all, x)
		}
	}
	if w.swarm {
		x := *w
		x.swarm = false
		all = append(all, x)
	}
	for n := 1; n < w.agents; n++ {
		x := *w
		x.agents = n
		all = append(all, x)
	}
	return all
}

// story is a world in words.
func (w *world) story() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d agents, swarm %v, %d bytes/s, %v, %+v, %+v\n", w.agents, w.swarm, w.rate, w.domains, w.trees, w.rates)
	for i, s := range w.steps {
		fmt.Fprintf(&b, "%d after %v: %s %d %d %d\n", i, s.wait, s.do, s.a, s.b, s.c)
	}
	return b.String()
}
