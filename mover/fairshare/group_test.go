package fairshare

import (
	"testing"

	"pgregory.net/rapid"
)

// walker is a group as the textbook has it: a ring that is walked, member by member.
type walker struct {
	key     string
	quantum int64
	deficit int64
	earned  bool // its quantum of this visit
	queue   []*turn
	ring    []*walker
	at      int
}

func (w *walker) member(key string, quantum int64) *walker {
	for _, m := range w.ring {
		if m.key == key {
			return m
		}
	}
	w.ring = append(w.ring, &walker{key: key, quantum: quantum})
	return w.ring[len(w.ring)-1]
}

// head walks to the member whose turn it is, and returns what that turn costs.
func (w *walker) head() int64 {
	if len(w.queue) > 0 {
		return w.queue[0].price
	}
	for {
		m := w.ring[w.at%len(w.ring)]
		if !m.earned {
			m.deficit, m.earned = m.deficit+m.quantum, true
		}
		if price := m.head(); price <= m.deficit {
			return price
		}
		m.earned = false
		w.at++
	}
}

func (w *walker) take() *turn {
	if len(w.queue) > 0 {
		t := w.queue[0]
		w.queue = w.queue[1:]
		return t
	}
	price := w.head()
	w.at %= len(w.ring)
	m := w.ring[w.at]
	m.deficit -= price
	t := m.take()
	if len(m.queue)+len(m.ring) == 0 {
		w.ring = append(w.ring[:w.at], w.ring[w.at+1:]...)
	}
	return t
}

// Counting rounds gives every turn in the order in which walking them does.
func TestSameAsWalkingTheRing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := NewScheduler(Options{OpBytes: rapid.Int64Range(1, 50).Draw(t, "op bytes")})
		s.weights.Projects = map[string]int64{"q": rapid.Int64Range(1, 5).Draw(t, "weight of q")}
		model := &walker{}
		n := rapid.IntRange(1, 60).Draw(t, "turns")
		for range n {
			f := genFlow(t)
			next := &turn{task: s.task(f), price: rapid.Int64Range(1, 2000).Draw(t, "price")}
			next.task.push(next)
			w := model.member(f.Class.String(), s.opBytes*s.weights.class(f.Class)).
				member(f.Project, s.opBytes*s.weights.project(f.Project)).
				member(f.User, s.opBytes).member(f.Task, s.opBytes)
			w.queue = append(w.queue, next)
		}
		for i := range n {
			if got, want := s.root.take(), model.take(); got != want {
				t.Fatalf("turn %d is of %+v at %d, want one of %+v at %d", i, got.task.flow, got.price, want.task.flow, want.price)
			}
		}
	})
}

func TestDeficit(t *testing.T) {
	for _, row := range []struct {
		name    string
		deficit int64
		rounds  int64 // that passed since, of 10 each
		lulls   int64
		refund  int64
		want    int64
	}{
		{"it stays in its round", 100, 0, 0, 0, 100},
		{"credit melts", 100, 3, 0, 0, 70},
		{"to nothing", 100, 11, 0, 0, 0},
		{"and not below", 5, 1 << 60, 0, 0, 0},
		{"debt melts", -100, 3, 0, 0, -70},
		{"to nothing too", -100, 11, 0, 0, 0},
		{"nobody is left to owe to", -100, 3, 1, 0, 0},
		{"nor to be owed by", 100, 3, 1, 0, 0},
		{"a refund comes after it", 20, 5, 0, 50, 50},
		{"so does what was not paid", -20, 5, 0, -50, -50},
		{"debt has a bound", -maxTurn, 0, 0, -1000, -maxTurn},
		{"so has credit", maxTurn, 0, 0, 1000, maxTurn},
	} {
		root := newGroup(nil, "", 0)
		p := root.member("p", 10)
		p.deficit, root.round, root.lulls = row.deficit, row.rounds, row.lulls
		p.correct(row.refund)
		if p.deficit != row.want {
			t.Errorf("%s: %d, want %d", row.name, p.deficit, row.want)
		}
	}
}

// Who gets back what it should not have paid is next, and no round comes twice.
func TestRefundOfOneThatWaits(t *testing.T) {
	root := newGroup(nil, "", 0)
	a, b := root.member("a", 10), root.member("b", 10)
	for _, next := range []struct {
		p     *group
		price int64
	}{{a, 100}, {b, 100}, {b, 100}, {a, 300}, {b, 100}} {
		next.p.push(&turn{task: next.p, price: next.price})
	}
	for i, row := range []struct {
		refund int64 // to a, before it
		who    *group
		round  int64
	}{{0, a, 10}, {0, b, 10}, {0, b, 20}, {300, a, 20}, {0, b, 30}} {
		if row.refund > 0 {
			a.finish(row.refund)
		}
		if got := root.take(); got.task != row.who || root.round != row.round {
			t.Errorf("turn %d is of %s in round %d, want %s in %d", i, got.task.key, root.round, row.who.key, row.round)
		}
	}
}

// check finds what is wrong in a group and below it.
func (p *group) check(t *rapid.T) {
	if p.queue.Len() > 0 && len(p.members) > 0 {
		t.Fatalf("%s has turns and members", p.key)
	}
	var waiting, running, inRing int
	for _, m := range p.members {
		m.check(t)
		waiting, running = waiting+m.use.Waiting, running+m.use.Running
		if m.index >= 0 {
			inRing++
			m.checkRank(t)
		}
		if (m.index >= 0) != m.ready() {
			t.Fatalf("%s has %d that wait and %d that run, and its index is %d", m.key, m.use.Waiting, m.use.Running, m.index)
		}
		if m.deficit < -maxTurn || m.deficit > maxTurn {
			t.Fatalf("%s has a deficit of %d", m.key, m.deficit)
		}
	}
	if inRing != len(p.ring) {
		t.Fatalf("%s has %d in its ring, want %d", p.key, len(p.ring), inRing)
	}
	if len(p.members) > 0 && (waiting != p.use.Waiting || running != p.use.Running) {
		t.Fatalf("%s counts %d+%d, its members %d+%d", p.key, p.use.Waiting, p.use.Running, waiting, running)
	}
}

func (p *group) checkRank(t *rapid.T) {
	if p.parent.ring[p.index] != p {
		t.Fatalf("%s is not at its index", p.key)
	}
	if p.index > 0 && p.parent.ring.Less(p.index, (p.index-1)/2) {
		t.Fatalf("%s stands behind a later one", p.key)
	}
	due, head := p.due, p.head
	if p.reckon(); p.due != due || p.head != head {
		t.Fatalf("%s is at %d for %d, want %d for %d", p.key, due, head, p.due, p.head)
	}
	if p.visited > p.parent.round {
		t.Fatalf("%s was visited in round %d, and it is round %d", p.key, p.visited, p.parent.round)
	}
}

// checkRounds finds a round that went back, since it was last seen.
func (p *group) checkRounds(t *rapid.T, seen map[*group]int64) {
	if p.round < seen[p] {
		t.Fatalf("%s is in round %d, and was in %d", p.key, p.round, seen[p])
	}
	seen[p] = p.round
	for _, m := range p.members {
		m.checkRounds(t, seen)
	}
}
