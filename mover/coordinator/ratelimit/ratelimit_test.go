package ratelimit

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	_ "datamove.dev/test/seed/property" // of rapid
)

// network is a task whose agents stand still now and then, so that they hear late what they
// are told, are heard late, and not at all while they are cut off.
type network struct {
	parts   *Parts
	now     time.Time
	limit   int64
	lead    string
	epoch   int
	working map[string]bool // as the coordinator knows
	agents  map[string]*reader
}

// reader is an agent with its process.
type reader struct {
	there  bool
	stands bool // it hears nothing for a while
	orders []readerOrder
	says   []readerState
	at     readerState // as it is
	epoch  int         // of the lead that its process is for
}

type readerOrder struct {
	epoch int
	part  int64
	begin bool // it has work from here on
	stop  bool // it has none any more
}

type readerState struct {
	at    time.Time
	reads bool
	has   int64
}

// do is what an agent does with an order.
func (r *reader) do(o readerOrder) {
	switch {
	case o.begin && r.epoch != o.epoch:
		r.epoch, r.at.has, r.at.reads = o.epoch, o.part, true
	case r.epoch != o.epoch:
	case o.stop:
		r.at.reads = false
	default:
		r.at.has, r.at.reads = o.part, r.at.reads || o.begin
	}
}

// pass lets time go by: what is due is heard.
func (n *network) pass(d time.Duration) {
	n.now = n.now.Add(d)
	for _, name := range slices.Sorted(maps.Keys(n.agents)) {
		r := n.agents[name]
		for len(r.says) > 0 && !r.says[0].at.After(n.now) {
			n.hear(name, r.says[0])
			r.says = r.says[1:]
		}
	}
}

func (n *network) hear(name string, s readerState) {
	has := s.has
	if !s.reads {
		has = 0 // it has no session
	}
	n.parts.Heard(n.now, name, s.reads, has, float64(n.limit))
}

// send tells an agent something, unless it is cut off.
func (n *network) send(name string, o readerOrder) bool {
	r := n.agents[name]
	if r.there {
		r.orders = append(r.orders, o)
		r.catchUp()
	}
	return r.there
}

// catchUp has an agent do what it was told, unless it stands still.
func (r *reader) catchUp() {
	for len(r.orders) > 0 && !r.stands {
		r.do(r.orders[0])
		r.orders = r.orders[1:]
	}
}

func (n *network) names() (names []string) {
	for name, does := range n.working {
		if does {
			names = append(names, name)
		}
	}
	return names
}

// sum is what all may read at this moment.
func (n *network) sum() (sum int64) {
	for _, r := range n.agents {
		if r.at.reads {
			sum += r.at.has
		}
	}
	return sum
}

// Whoever comes and goes, whatever is heard late or never, and whether the coordinator begins
// anew or the lead is another one: what all may read together is never more than the limit,
// but for a twentieth.
//
//safety:8 with test/cluster TestOwnLimitIsShared
func TestPartsHoldTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.Int64Range(1000, 1<<40).Draw(t, "limit")
		n := &network{now: time.Unix(1, 0), limit: limit, lead: "n0", epoch: 1, working: map[string]bool{"n0": true}, agents: map[string]*reader{}}
		for i := range 5 {
			n.agents[fmt.Sprintf("n%d", i)] = &reader{there: true}
		}
		n.parts = (*Parts)(nil).Begin(limit, n.lead, n.now)
		n.agents["n0"].do(readerOrder{epoch: 1, part: limit, begin: true})
		late := func() time.Duration { return time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "late")) }
		for step := range rapid.IntRange(1, 60).Draw(t, "steps") {
			for range 4 {
				n.pass(time.Duration(rapid.Int64Range(1, int64(time.Second)).Draw(t, "pause")))
				if sum, most := n.sum(), limit+limit/partFirst+int64(len(n.agents)); sum > most {
					t.Fatalf("step %d: %d of %d", step, sum, limit)
				}
			}
			who := fmt.Sprintf("n%d", rapid.IntRange(0, 4).Draw(t, "who"))
			r := n.agents[who]
			switch rapid.SampledFrom([]string{"begin", "begin", "end", "lost", "cut", "heal", "heal", "stand", "go on", "go on", "says", "says", "anew", "leads"}).Draw(t, "what") {
			case "begin":
				if r.there && !n.working[who] {
					n.working[who] = true
					n.divide()
					n.send(who, readerOrder{epoch: n.epoch, part: n.parts.Part(who), begin: true})
				}
			case "end": // its work is done
				if who != n.lead && r.at.reads && r.epoch == n.epoch && len(r.orders) == 0 {
					n.working[who], r.at.reads = false, false
				}
			case "lost": // its work is given to others
				if who != n.lead && n.working[who] {
					n.working[who] = false
					n.send(who, readerOrder{epoch: n.epoch, stop: true})
				}
			case "cut":
				r.there, r.orders, r.says = false, nil, nil
			case "heal": // it says what it has, and is told if that is not so
				if !r.there {
					r.there = true
					n.hear(who, r.at)
					if r.at.reads && (!n.working[who] || r.epoch != n.epoch) {
						n.send(who, readerOrder{epoch: r.epoch, stop: true})
					}
				}
			case "stand":
				r.stands = true
			case "go on":
				r.stands = false
				r.catchUp()
			case "says":
				if s := r.at; r.there && !r.stands {
					if s.at = n.now.Add(late()); len(r.says) > 0 && r.says[len(r.says)-1].at.After(s.at) {
						s.at = r.says[len(r.says)-1].at
					}
					r.says = append(r.says, s)
				}
			case "anew":
				for _, r := range n.agents {
					r.there, r.orders, r.says = false, nil, nil
				}
				n.parts = Unknown(limit, n.now, slices.Collect(maps.Keys(n.agents)), n.names())
			case "leads":
				if r.there {
					for _, name := range slices.Sorted(maps.Keys(n.agents)) {
						n.send(name, readerOrder{epoch: n.epoch, stop: true})
					}
					n.lead, n.working, n.epoch = who, map[string]bool{who: true}, n.epoch+1
					n.parts = n.parts.Begin(limit, who, n.now)
					n.send(who, readerOrder{epoch: n.epoch, part: n.parts.Part(who), begin: true})
				}
			}
			n.divide()
		}
	})
}

func (n *network) divide() {
	n.parts.Enlist(n.now, n.names()...)
	n.parts.Divide(n.now, func(name string, part int64) bool {
		return n.send(name, readerOrder{epoch: n.epoch, part: part})
	})
}

// rounds divides so many times, a second apart, with processes that use what they may, as
// far as they can.
func rounds(x *Parts, now *time.Time, n int, can map[string]int64) map[string]int64 {
	reads := map[string]int64{}
	var names []string
	for name := range can {
		names = append(names, name)
	}
	for range n {
		*now = now.Add(time.Second)
		x.Enlist(*now, names...)
		x.Divide(*now, func(name string, part int64) bool { reads[name] = part; return true })
		for name, part := range reads {
			_, works := can[name]
			x.Heard(*now, name, works, part, float64(min(part, can[name])))
		}
	}
	return reads
}

// TestPartsGoToWhoUsesThem: all read the same at first, who can not leaves it to the
// others, and who is alone has all.
func TestPartsGoToWhoUsesThem(t *testing.T) {
	const limit = 1000
	now := time.Unix(1, 0)
	x := (*Parts)(nil).Begin(limit, "a", now)
	if x.Divide(now, func(string, int64) bool { t.Error("one that is alone is told"); return true }); x.split {
		t.Error("it is split")
	}
	about := func(what string, got map[string]int64, name string, want int64) {
		t.Helper()
		if d := got[name] - want; max(d, -d) > limit/partFirst {
			t.Errorf("%s: %s reads %d, want about %d: %v", what, name, got[name], want, got)
		}
	}
	all := map[string]int64{"a": limit, "b": limit}
	about("one comes", rounds(x, &now, 1, all), "b", 0)
	got := rounds(x, &now, 1, all)
	about("a moment later", got, "a", limit/2)
	about("a moment later", got, "b", limit/2)
	got = rounds(x, &now, 10, map[string]int64{"a": limit, "b": 100})
	about("one is slow", got, "b", 250)
	about("one is slow", got, "a", 750)
	about("it is fast again", rounds(x, &now, 10, all), "b", limit/2)
	got = rounds(x, &now, 10, map[string]int64{"a": limit})
	if got["a"] != limit || len(x.of) != 1 {
		t.Errorf("who is alone reads %d of %d", got["a"], limit)
	}

	x = Unknown(limit, now, []string{"d"}, []string{"a", "b", "c"}) // of a coordinator that has begun anew
	told := map[string]int64{}
	tell := func(name string, part int64) bool { told[name] = part; return true }
	x.Heard(now, "a", true, 300, 300)
	x.Divide(now, tell)
	if told["a"] != 300 || told["b"] > limit/partFirst || told["c"] > limit/partFirst {
		t.Errorf("nobody knows what two others read, and told are %v", told)
	}
	x.Heard(now, "d", false, 0, 0)
	about("begun anew", rounds(x, &now, 5, map[string]int64{"a": limit, "b": limit, "c": limit}), "c", limit/3)

	x = x.Begin(limit, "d", now) // another one leads, and the others have not let go
	if got := x.Part("d"); got > limit/partFirst {
		t.Errorf("the next lead reads %d while those before it may", got)
	}
	for _, name := range []string{"a", "b", "c"} {
		x.Heard(now, name, false, 0, 0)
	}
	about("the next lead is alone", rounds(x, &now, 2, map[string]int64{"d": limit}), "d", limit)
}

// TestPartsOfWhoBeginsAgain: a process has ended, its agent has said so, and it is given work again before anything else is heard: it
// reads, and so the next lead does not get what it has.
func TestPartsOfWhoBeginsAgain(t *testing.T) {
	const limit = 1000
	now := time.Unix(1, 0)
	x := (*Parts)(nil).Begin(limit, "a", now)
	rounds(x, &now, 5, map[string]int64{"a": limit, "b": limit})
	x.Enlist(now, "a")
	x.Heard(now, "b", false, 0, 0)
	x.Enlist(now, "a", "b")
	x.Heard(now, "b", false, 0, 0) // it was said before
	next := x.Begin(limit, "a", now)
	if got := next.Part("a"); got > limit/2+limit/partFirst {
		t.Errorf("the next lead reads %d while another process may read %d", got, x.Part("b"))
	}
}
