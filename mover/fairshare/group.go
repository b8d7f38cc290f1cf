package fairshare

import (
	"container/heap"
	"container/list"
	"iter"
	"time"
)

// group is a class, a project, a user or a task; the root stands above the classes.
//
// The members of a group stand in a ring. In each round each of them that can begin a
// turn earns its quantum, and takes turns as long as it can pay for them.
// Rounds are counted, not walked: due is the round in which a member can pay for what
// is next in it, and the ring is a heap by due and place. So a turn costs the logarithm
// of the number of members, however small the quantum is, and the smaller the quantum,
// the better the turns of several members are mixed.
type group struct {
	parent *group // nil is the root's
	key    string // among the members of parent
	flow   Flow   // of a task

	quantum int64
	deficit int64
	visited int64 // the parent's round up to which deficit has its quanta
	lull    int64 // the parent's lulls when deficit was last right
	head    int64 // the price of the turn that is next in it, while it is in the ring
	due     int64 // the parent's round in which deficit reaches head
	place   int64 // in the parent's ring: a new group goes to the end
	index   int   // in the parent's ring; -1 while it can begin no turn

	most int       // of a task: turns that may run at once; 0 is any number
	left time.Time // when it left the ring or ended a turn last

	members map[string]*group
	ring    ring
	round   int64
	places  int64 // that were given
	lulls   int64 // times that nothing was wanted any more

	queue list.List     // of *turn: those of a task that wait, first come first
	use   Use           // its turns, those of its members too
	rest  *list.Element // in the scheduler's idle, while nothing is wanted
}

const (
	// patience is how long a group is held to be there that has no turn in line: the way
	// to another process and back, while all cores are busy.
	patience = 100 * time.Millisecond
	// maxSaved is the most that it has saved then: some turns of others.
	maxSaved = 256 << 20
)

func newGroup(parent *group, key string, quantum int64) *group {
	return &group{parent: parent, key: key, quantum: quantum, index: -1}
}

// member returns the member of that name, a new one if there is none.
func (p *group) member(key string, quantum int64) *group {
	m := p.members[key]
	if m == nil {
		if p.members == nil {
			p.members = map[string]*group{}
		}
		m = newGroup(p, key, quantum)
		p.members[key] = m
	}
	return m
}

// path goes from p up to the root.
func (p *group) path() iter.Seq[*group] {
	return func(yield func(*group) bool) {
		for ; p != nil && yield(p); p = p.parent {
		}
	}
}

func (p *group) busy() bool { return p.use.Waiting+p.use.Running > 0 }

// ready reports whether a turn of p could begin if there is a slot.
func (p *group) ready() bool {
	if p.queue.Len() > 0 {
		return p.most <= 0 || p.use.Running < p.most
	}
	return len(p.ring) > 0
}

// push puts a turn behind those of its task that wait.
func (p *group) push(t *turn) {
	t.queued = p.queue.PushBack(t)
	for q := range p.path() {
		q.use.Waiting++
		q.rank()
	}
}

// drop removes a turn that waits.
func (p *group) drop(t *turn) {
	p.queue.Remove(t.queued)
	t.queued = nil
	for q := range p.path() {
		q.use.Waiting--
		q.rank()
	}
}

// take starts the turn that is next in the root p, and charges its price all the way.
func (p *group) take() *turn {
	for p.queue.Len() == 0 {
		p = p.ring[0]
		p.pay()
	}
	t := p.queue.Remove(p.queue.Front()).(*turn)
	t.queued = nil
	for q := range p.path() {
		q.use.Waiting--
		q.use.Running++
		q.rank()
	}
	return t
}

// finish ends a turn of p for which refund was paid too much; below zero, too little.
func (p *group) finish(refund int64) {
	now := time.Now()
	for q := range p.path() {
		q.use.Running--
		q.left = now
		if q.parent != nil {
			q.correct(refund)
		}
		q.rank()
	}
}

// pay earns what is missing and spends the price of what is next.
func (p *group) pay() {
	p.deficit += (p.due-p.visited)*p.quantum - p.head
	p.visited = p.due
	p.parent.round = max(p.parent.round, p.due)
}

// correct makes a payment right afterwards. A group that waits may so become due in a
// round that is over: it should have had its turn by then, and is next.
func (p *group) correct(refund int64) {
	if p.index < 0 {
		p.melt()
	}
	p.deficit = min(max(p.deficit+refund, -maxTurn), maxTurn)
}

// melt brings the deficit of a group that was not in the ring to the present round.
//
// A group that was away for a moment only, or has turns that run, earns as if it had been there.
// Between the end of a turn and the wait for the next one there is always a moment.
// The turn of another one that begins just then would cost it that turn's whole price.
// What it so saves has a bound, since it may want no more than it gets.
//
// Otherwise what it owes or is owed becomes less by a quantum in each round, until it is
// nothing: a group without demand saves nothing. When no group at all has a demand, all
// deficits become zero.
func (p *group) melt() {
	rounds := p.parent.round - p.visited
	switch {
	case p.lull != p.parent.lulls:
		p.deficit = 0
	case p.use.Running > 0 || time.Since(p.left) < patience:
		if most := max(p.deficit, maxSaved); rounds < (most-p.deficit)/p.quantum {
			p.deficit += rounds * p.quantum
		} else {
			p.deficit = most
		}
	case rounds > max(p.deficit, -p.deficit)/p.quantum:
		p.deficit = 0
	case p.deficit > 0:
		p.deficit -= rounds * p.quantum
	default:
		p.deficit += rounds * p.quantum
	}
	p.visited, p.lull = p.parent.round, p.parent.lulls
}

// rank puts p where it belongs in its parent's ring, now that something in it changed.
// It goes from a task upwards, since a group ranks by its first member.
func (p *group) rank() {
	switch {
	case p.parent == nil:
	case !p.ready() && p.index >= 0:
		heap.Remove(&p.parent.ring, p.index)
		p.left = time.Now()
	case p.ready() && p.index < 0:
		p.melt()
		p.parent.places++
		p.place = p.parent.places
		p.reckon()
		heap.Push(&p.parent.ring, p)
	case p.ready():
		p.reckon()
		heap.Fix(&p.parent.ring, p.index)
	}
}

// reckon finds what is next in p, and when p can pay for it.
func (p *group) reckon() {
	if front := p.queue.Front(); front != nil {
		p.head = front.Value.(*turn).price
	} else {
		p.head = p.ring[0].head
	}
	missing := max(p.head-p.deficit, 0)
	p.due = p.visited + (missing+p.quantum-1)/p.quantum
}

// reweigh changes the quantum, also for the wait that goes on.
func (p *group) reweigh(quantum int64) {
	p.quantum = quantum
	p.rank()
}

// ring is a heap of the members of a group that can begin a turn.
type ring []*group

func (r ring) Len() int { return len(r) }

func (r ring) Less(i, j int) bool {
	if r[i].due != r[j].due {
		return r[i].due < r[j].due
	}
	return r[i].place < r[j].place
}

func (r ring) Swap(i, j int) {
	r[i], r[j] = r[j], r[i]
	r[i].index, r[j].index = i, j
}

// Push implements heap.Interface.
func (r *ring) Push(x any) {
	p := x.(*group)
	p.index = len(*r)
	*r = append(*r, p)
}

// Pop implements heap.Interface.
func (r *ring) Pop() any {
	last := len(*r) - 1
	p := (*r)[last]
	(*r)[last] = nil
	*r = (*r)[:last]
	p.index = -1
	return p
}
