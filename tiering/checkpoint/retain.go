package checkpoint

import (
	"cmp"
	"slices"
)

// Keep says which checkpoints stay on a tier. The zero value keeps all.
type Keep struct {
	Last  int   // this many of the newest; 0 keeps all
	Every int64 // those with a step that is a multiple of it; 0 adds none
	Least int   // this many that are verified; less than 2 is 2
}

// Fewest is how many verified checkpoints of a run stay, whatever Keep says.
const Fewest = 2

// Held is a checkpoint on a tier.
type Held struct {
	Name     string
	Step     int64 // -1 is not known
	Saved    int64 // ns
	Verified bool  // its copy here was checked
	Unread   bool  // what it had in it when it came is not known: none goes because of it
	Tagged   bool
	Named    bool // a tracker here names it: a trainer that resumes without datamove begins there
	Second   bool // another tier has it, verified and read, too
}

// Verdict is what retention says of one.
type Verdict struct {
	Held
	Keep bool
	Why  string
	Left bool // it was left behind by a roll back
}

// RunOf is the run that a checkpoint is of, in a folder that may have several: its name without its numbers.
func RunOf(name string) string { return withoutStep(name) }

// Judge says which checkpoints stay on a tier, the newest first, and of each run for itself. two says that there is a second tier. What is not verified stays, and does not count: it may
// be on its way. Of those that are, and were read when they came, two stay, the newest too, and the newest that the second tier has as well; before that has one, all do. What was left behind
// by a roll back counts as older than all others.
func (k Keep) Judge(held []Held, two bool) []Verdict {
	runs := map[string][]Held{}
	for _, h := range held {
		runs[RunOf(h.Name)] = append(runs[RunOf(h.Name)], h)
	}
	out := make([]Verdict, 0, len(held))
	for _, run := range runs {
		out = append(out, k.judgeRun(run, two)...)
	}
	slices.SortFunc(out, func(a, b Verdict) int { return -a.Compare(b.Held) })
	return out
}

// judgeRun is Judge of one run.
func (k Keep) judgeRun(held []Held, two bool) []Verdict {
	slices.SortFunc(held, func(a, b Held) int { return -a.Compare(b) })
	left := leftBehind(held)
	slices.SortStableFunc(held, func(a, b Held) int { return cmp.Compare(rank(left[a.Name]), rank(left[b.Name])) })
	out := make([]Verdict, 0, len(held))
	verified, second := 0, false // seen so far, from the newest
	none := two && !slices.ContainsFunc(held, func(h Held) bool { return h.counts() && h.Second })
	for _, h := range held {
		v := Verdict{Held: h, Keep: true, Left: left[h.Name]}
		switch {
		case !h.Verified:
			v.Why = "it is not verified here"
		case k.Last <= 0:
			v.Why = "nothing says how many are to stay"
		case verified < k.newest() && h.Unread:
			v.Why = "what it had in it when it came is not known, and it does not count"
		case verified < k.newest():
			v.Why = "it is one of the newest"
		case none:
			v.Why = "no checkpoint is verified on a second tier"
		case two && !second && h.Second:
			v.Why = "it is the newest that a second tier has"
		case h.Tagged:
			v.Why = "it is tagged"
		case h.Named:
			v.Why = "a tracker names it"
		case k.Every > 0 && h.Step >= 0 && h.Step%k.Every == 0:
			v.Why = "its step is one of those that stay"
		case v.Left:
			v.Keep, v.Why = false, "it was left behind when the run was rolled back"
		default:
			v.Keep, v.Why = false, "newer ones are verified"
		}
		if h.counts() {
			verified++
			second = second || h.Second
		}
		out = append(out, v)
	}
	return out
}

// leftBehind are those of a run, the newest first, that a roll back has left behind: they were saved before the newest that counts, and have a later step.
func leftBehind(held []Held) map[string]bool {
	left := map[string]bool{}
	newest := slices.IndexFunc(held, Held.counts)
	if newest < 0 || held[newest].Step < 0 {
		return left
	}
	for _, h := range held[newest+1:] {
		left[h.Name] = h.Step > held[newest].Step
	}
	return left
}

// rank has what was left behind come last.
func rank(left bool) int {
	if left {
		return 1
	}
	return 0
}

// counts says whether others may go because of it.
func (h Held) counts() bool { return h.Verified && !h.Unread }

// newest is how many of the newest stay.
func (k Keep) newest() int { return max(k.Last, k.Least, Fewest) }

// Relies are those because of which others of their runs may go, the newest first, and what was left behind last: they stay, and count.
func (k Keep) Relies(all []Verdict) (names []string) {
	goes, left, second := map[string]bool{}, map[string]int{}, map[string]bool{}
	for _, v := range all {
		goes[RunOf(v.Name)] = goes[RunOf(v.Name)] || !v.Keep
	}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b Verdict) int { return cmp.Compare(rank(a.Left), rank(b.Left)) })
	for _, v := range all {
		run := RunOf(v.Name)
		if newest := v.Second && !second[run]; goes[run] && v.Keep && v.counts() && (left[run] < k.newest() || newest) {
			names = append(names, v.Name)
			second[run] = second[run] || v.Second
			left[run]++
		}
	}
	return names
}

// Compare orders checkpoints, the oldest first: by when they were saved. A run that was rolled back counts its steps again.
func (h Held) Compare(b Held) int {
	return older(Set{Name: h.Name, Step: h.Step, Saved: h.Saved}, Set{Name: b.Name, Step: b.Step, Saved: b.Saved})
}
