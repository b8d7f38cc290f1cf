package policy

import (
	"cmp"
	"container/heap"
	"hash/fnv"
	"math"
	"slices"
	"strings"

	"datamove.dev/mover"
	"datamove.dev/tiering/dataset"
)

// Tally is files and their bytes.
type Tally struct{ Files, Bytes int64 }

func (c *Tally) add(bytes int64) { c.sum(Tally{1, bytes}) }

func (c *Tally) sum(more Tally) {
	c.Files += more.Files
	c.Bytes += more.Bytes
}

// Item is a file that something is to be done to.
type Item struct {
	dataset.File
	Area   int // that it is in, as the caller numbers them
	Rule   int
	Weight float64
}

// Plan is what a policy would do, in the order in which it would.
type Plan struct {
	Items []Item
	Scope Tally    // the files that it was asked about
	Rules []Tally  // those that each rule has matched, and that something is to be done to
	Kept  []Tally  // those of each rule that are kept: because it says so, or all the same, see Verdict.Held
	Left  []Left   // those that are left out, by why
	Notes []string // what one has to know to judge the plan
	Err   error    // of the first expression that failed
	Fails int64    // how many failed
}

// Left is how much was left out of a plan, and why.
type Left struct {
	Why string
	Tally
}

// Total is all that the plan does, and what of it may be gone then.
func (p *Plan) Total(prog *Program) (all, gone Tally) {
	for i := range p.Items {
		item := &p.Items[i]
		all.add(item.Size)
		if prog.rules[item.Rule].action.Type.Removes() {
			gone.add(item.Size)
		}
	}
	return all, gone
}

// itemsMost bounds a plan: what is beyond is for the next one.
const itemsMost = 1_000_000

// Selection collects what a program says of files, and keeps those that weigh most. It is for one goroutine.
type Selection struct {
	judge  *Judge
	most   int
	items  items
	plan   Plan
	owners map[uint32]int64 // files in the scope
	beyond Tally            // those that weighed too little
	canary uint64           // of 2^64; 0 is all
}

// items is a heap, the one that weighs least on top.
type items []Item

func (h items) Len() int           { return len(h) }
func (h items) Less(i, j int) bool { return before(&h[j], &h[i]) }
func (h items) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *items) Push(x any)        { *h = append(*h, x.(Item)) }
func (h *items) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	*h = (*h)[:last]
	return x
}

// before reports whether a comes before b in a plan: it weighs more, or its name decides.
func before(a, b *Item) bool {
	return cmp.Or(cmp.Compare(b.Weight, a.Weight), cmp.Compare(a.Area, b.Area), strings.Compare(a.Dir, b.Dir), strings.Compare(a.Base, b.Base)) < 0
}

// Select begins a selection.
func (j *Judge) Select() *Selection {
	s := &Selection{judge: j, most: itemsMost, owners: map[uint32]int64{}}
	spec := &j.program.Policy.Spec
	if spec.Limits.Files > 0 {
		s.most = int(min(int64(spec.Limits.Files), itemsMost))
	}
	if spec.Mode == ModeCanary {
		if part := cmp.Or(float64(spec.Safety.Canary), 0.1) / 100; part < 1 {
			s.canary = uint64(part * math.MaxUint64)
		}
	}
	rules := len(j.program.rules)
	s.plan.Rules, s.plan.Kept = make([]Tally, rules), make([]Tally, rules)
	return s
}

// Add asks about a file, in one of the areas of the scope. To a directory nothing is done.
func (s *Selection) Add(area int, f *dataset.File, at *Facts) {
	if f.Kind == mover.Dir {
		return
	}
	s.plan.Scope.add(f.Size)
	if f.Known.Has(mover.FactOwner) {
		s.owners[f.UID]++
	}
	if at.Reads == mover.ReadsDaily && slices.ContainsFunc(s.judge.program.rules, func(r rule) bool { return r.byReads }) {
		s.note(daily)
	}
	v := s.judge.Decide(f, at)
	switch {
	case v.Err != nil:
		s.fail(v.Err)
		return
	case v.Rule < 0:
		return
	case v.Held != "":
		s.plan.Kept[v.Rule].add(f.Size)
		if v.Held == unseen { // of the whole file system, and something can be done about it
			s.leave(v.Held, Tally{1, f.Size})
		}
		return
	case s.judge.program.None(v):
		s.plan.Kept[v.Rule].add(f.Size)
		return
	}
	s.plan.Rules[v.Rule].add(f.Size)
	if s.canary > 0 && hashOf(f) >= s.canary {
		s.leave("this is a canary", Tally{1, f.Size})
		return
	}
	weight, err := s.judge.Weight(f, at)
	if err != nil {
		s.fail(err)
		return
	}
	s.take(Item{*f, area, v.Rule, weight})
}

// note notes something once.
func (s *Selection) note(text string) {
	if !slices.Contains(s.plan.Notes, text) {
		s.plan.Notes = append(s.plan.Notes, text)
	}
}

func (s *Selection) fail(err error) {
	if s.plan.Err == nil {
		s.plan.Err = err
	}
	s.plan.Fails++
}

// take keeps an item, if it weighs enough.
func (s *Selection) take(item Item) {
	if len(s.items) < s.most {
		heap.Push(&s.items, item)
		return
	}
	if s.most > 0 && before(&item, &s.items[0]) {
		item, s.items[0] = s.items[0], item
		heap.Fix(&s.items, 0)
	}
	s.beyond.add(item.Size)
}

func (s *Selection) leave(why string, what Tally) {
	i := slices.IndexFunc(s.plan.Left, func(l Left) bool { return l.Why == why })
	if i < 0 {
		i = len(s.plan.Left)
		s.plan.Left = append(s.plan.Left, Left{Why: why})
	}
	s.plan.Left[i].sum(what)
}

// hashOf spreads names evenly.
func hashOf(f *dataset.File) uint64 { return Hash(f.Dir + "/" + f.Base) }

// Hash spreads texts evenly.
func Hash(text string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text))
	x := h.Sum64() // its high bits hardly change with the last letters
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// Merge takes what another selection of the same program has, which is over then.
func (s *Selection) Merge(o *Selection) {
	s.plan.Scope.sum(o.plan.Scope)
	for uid, n := range o.owners {
		s.owners[uid] += n
	}
	for i := range o.plan.Rules {
		s.plan.Rules[i].sum(o.plan.Rules[i])
		s.plan.Kept[i].sum(o.plan.Kept[i])
	}
	for _, l := range o.plan.Left {
		s.leave(l.Why, l.Tally)
	}
	for _, note := range o.plan.Notes {
		s.note(note)
	}
	if s.plan.Fails == 0 {
		s.plan.Err = o.plan.Err
	}
	s.plan.Fails += o.plan.Fails
	s.beyond.sum(o.beyond)
	for _, item := range o.items {
		s.take(item)
	}
}

// Plan ends a selection: what was kept, in its order, within the limits.
func (s *Selection) Plan() *Plan {
	slices.SortFunc(s.items, func(a, b Item) int {
		if before(&a, &b) {
			return -1
		}
		return 1
	})
	limits := &s.judge.program.Policy.Spec.Limits
	removes := func(i *Item) bool { return s.judge.program.rules[i.Rule].action.Type.Removes() }
	part := func(p Percent, of int64) int64 {
		if p == 0 {
			return of
		}
		return int64(math.Ceil(float64(of) * float64(p) / 100)) // rounded up, so that of a few files one may go
	}
	var bytes, gone, freed int64
	enough := s.judge.program.enough
	perOwner, most := map[uint32]int64{}, part(limits.DeleteFraction, s.plan.Scope.Files)
	for i := range s.items {
		item := &s.items[i]
		switch {
		case limits.Bytes > 0 && bytes+item.Size > int64(limits.Bytes):
			s.leave("limits.bytes", Tally{1, item.Size})
			continue
		case removes(item) && enough != (Tally{}) && freed >= enough.Bytes && gone >= enough.Files:
			s.leave("trigger.low", Tally{1, item.Size})
			continue
		case removes(item) && gone >= most:
			s.leave("limits.deleteFraction", Tally{1, item.Size})
			continue
		case removes(item) && item.Known.Has(mover.FactOwner) && perOwner[item.UID] >= part(limits.PerOwnerFraction, s.owners[item.UID]):
			s.leave("limits.perOwnerFraction", Tally{1, item.Size})
			continue
		}
		bytes += item.Size
		if removes(item) {
			gone++
			freed += item.Stored
			perOwner[item.UID]++
		}
		s.plan.Items = append(s.plan.Items, *item)
	}
	if s.beyond.Files > 0 {
		s.leave("limits.files", s.beyond)
	}
	return &s.plan
}
