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
	seed   uint64
	agents int
	swarm  bool // agents give each other what they stage
	rate   int64
	trees  []shape
	steps  []step
	rates  rates
}

// shape is what a source has.
type shape struct {
	small, large int
	largeBytes   int64
}

// step is one thing that happens, after a while.
type step struct {
	wait    time.Duration
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

// deeds are what steps do, with their weights.
var deeds = []struct {
	do     string
	weight int
}{
	{"copy", 8}, {"sync", 4}, {"twice", 2}, {"change", 2},
	{"add", 4}, {"stage", 7}, {"release", 3}, {"lease", 2}, {"drop", 2}, {"pin", 1}, {"unpin", 1},
	{"cancel", 4}, {"pause", 3}, {"resume", 3},
	{"kill", 5}, {"sleep", 4}, {"agent", 3}, {"cut", 4}, {"crash", 4}, {"full", 2}, {"break", 3}, {"hour", 1},
}

var waits = []time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond, time.Second, 2500 * time.Millisecond, 7 * time.Second}

// draw makes the world of a seed.
func draw(seed uint64) world {
	rng := rand.New(rand.NewPCG(seed, 39))
	w := world{seed: seed, agents: 1 + rng.IntN(3), rate: []int64{128 << 10, 512 << 10, 2 << 20}[rng.IntN(3)]}
	w.swarm = w.agents > 1 && rng.IntN(3) == 0
	for range sources {
		w.trees = append(w.trees, shape{small: rng.IntN(16), large: rng.IntN(3), largeBytes: 1 << 20})
	}
	total := 0
	for _, d := range deeds {
		total += d.weight
	}
	for range 4 + rng.IntN(most-3) {
		n := rng.IntN(total)
		i := 0
		for n >= deeds[i].weight {
			n -= deeds[i].weight
			i++
		}
		w.steps = append(w.steps, step{wait: waits[rng.IntN(len(waits))], do: deeds[i].do, a: rng.IntN(1 << 10), b: rng.IntN(1 << 10), c: rng.IntN(1 << 10)})
	}
	chance := func(most float64) float64 { return most * rng.Float64() * float64(rng.IntN(2)) }
	w.rates = rates{delay: chance(0.5), lost: chance(0.03), answered: chance(0.03), twice: chance(0.05), slow: chance(0.2),
		longest: []time.Duration{5 * time.Millisecond, 200 * time.Millisecond, 1500 * time.Millisecond}[rng.IntN(3)]}
	return w
}

// String says how to have a world again: its seed, and what is left of it.
func (w *world) String() string {
	full := draw(w.seed)
	s := strconv.FormatUint(w.seed, 10)
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
	for name, of := range w.fields() {
		if *of == 0 && *full.fields()[name] != 0 {
			s += ":no=" + name
		}
	}
	if w.swarm != full.swarm {
		s += ":no=swarm"
	}
	return s
}

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
	w := draw(seed)
	for _, p := range parts[1:] {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "agents":
			w.agents, err = strconv.Atoi(value)
		case "steps":
			var kept []step
			for i := range w.steps {
				if slices.Contains(strings.Split(value, ","), strconv.Itoa(i)) {
					kept = append(kept, w.steps[i])
				}
			}
			w.steps = kept
		case "no":
			if rate := w.fields()[value]; rate != nil {
				*rate = 0
			} else if value == "swarm" {
				w.swarm = false
			} else {
				err = fmt.Errorf("nothing is called %q", value)
			}
		default:
			err = fmt.Errorf("nothing is called %q", name)
		}
		if err != nil {
			return w, fmt.Errorf("world %q: %w", text, err)
		}
	}
	return w, nil
}

// smaller are worlds that have less than w, the smallest first.
func (w *world) smaller() (all []world) {
	without := func(from, to int) world {
		x := *w
		x.steps = slices.Concat(w.steps[:from], w.steps[to:])
		return x
	}
	for size := len(w.steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(w.steps); from += size {
			all = append(all, without(from, min(from+size, len(w.steps))))
		}
	}
	for _, name := range []string{"delay", "lost", "answered", "twice", "slow"} {
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
	fmt.Fprintf(&b, "%d agents, swarm %v, %d bytes/s, %+v, %+v\n", w.agents, w.swarm, w.rate, w.trees, w.rates)
	for i, s := range w.steps {
		fmt.Fprintf(&b, "%d after %v: %s %d %d %d\n", i, s.wait, s.do, s.a, s.b, s.c)
	}
	return b.String()
}
