package fairshare

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	datamovev1 "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/test/must"
)

// crowd is a scheduler with turns that are begun and ended without goroutines.
type crowd struct {
	*Scheduler
	turns  []*turn // that wait or run
	prices int64   // of those that ended
	ended  int64
	rounds map[*group]int64 // that were seen
}

func (c *crowd) add(t *rapid.T, f Flow, expected Cost) *turn {
	return c.addWide(t, f, expected, Width{})
}

func (c *crowd) addWide(t *rapid.T, f Flow, expected Cost, w Width) *turn {
	x := must.Get(c.join(f, expected, w))(t)
	c.turns = append(c.turns, x)
	return x
}

// draw takes out a turn that waits, or one that runs; nil when there is none.
func (c *crowd) draw(t *rapid.T, waits bool) *turn {
	var at []int
	for i, x := range c.turns {
		if (x.queued != nil) == waits {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	i := rapid.SampledFrom(at).Draw(t, "turn")
	x := c.turns[i]
	c.turns = append(c.turns[:i], c.turns[i+1:]...)
	return x
}

// endRunning ends one turn that runs and returns it.
func (c *crowd) endRunning(actual Cost) *turn {
	i := slices.IndexFunc(c.turns, func(x *turn) bool { return x.queued == nil })
	x := c.turns[i]
	c.turns = slices.Delete(c.turns, i, i+1)
	c.end(x, actual)
	return x
}

func genCost(t *rapid.T) Cost {
	return Cost{Bytes: rapid.Int64Range(0, 4*mib).Draw(t, "bytes"), Ops: rapid.Int64Range(0, 20).Draw(t, "ops")}
}

// Whatever comes and goes: no slot is free while a turn waits, no more turns run than
// there are slots, and all that was served is counted at every level.
func TestSchedulerHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		still(t, rt, func(t *rapid.T) {
			c := &crowd{Scheduler: NewScheduler(Options{Slots: 3}), rounds: map[*group]int64{}}
			fits := 3 // turns that may run: those that ran when slots became fewer, or slots
			t.Repeat(map[string]func(*rapid.T){
				"join": func(t *rapid.T) { c.add(t, genFlow(t), genCost(t)) },
				"end": func(t *rapid.T) {
					if x := c.draw(t, false); x != nil {
						cost := genCost(t)
						c.end(x, cost)
						c.end(x, cost) // counts once
						c.ended, c.prices = c.ended+1, c.prices+cost.price(c.opBytes)
					}
				},
				"give up": func(t *rapid.T) {
					if x := c.draw(t, rapid.Bool().Draw(t, "waits")); x != nil {
						c.giveUp(x)
					}
				},
				"slots": func(t *rapid.T) {
					c.SetSlots(rapid.IntRange(0, 6).Draw(t, "slots"))
				},
				"weights": func(t *rapid.T) {
					c.SetWeights(Weights{
						Classes:  map[datamovev1.TaskClass]int64{tier: rapid.Int64Range(0, 9).Draw(t, "tier")},
						Projects: map[string]int64{"p": rapid.Int64Range(0, 9).Draw(t, "p")},
					})
				},
				"": func(t *rapid.T) {
					all := c.Snapshot()
					fits = max(min(fits, all.Total.Running), all.Slots)
					if all.Total.Running > fits || all.Total.Waiting > 0 && all.Total.Running < all.Slots {
						t.Fatalf("%d run and %d wait for %d slots", all.Total.Running, all.Total.Waiting, all.Slots)
					}
					if all.Total.Running+all.Total.Waiting != len(c.turns) || all.Total.Turns != c.ended || all.Total.Price != c.prices {
						t.Fatalf("%+v; want %d turns there, %d ended for %d", all.Total, len(c.turns), c.ended, c.prices)
					}
					if classes, flows := sum(all.Classes), sum(all.Flows); classes != all.Total || flows != all.Total {
						t.Fatalf("total %+v, by class %+v, by flow %+v", all.Total, classes, flows)
					}
					c.root.check(t)
					c.root.checkRounds(t, c.rounds)
				},
			})
		})
	})
}

func sum[K comparable](uses map[K]Use) (all Use) {
	for _, u := range uses {
		all.Waiting += u.Waiting
		all.Running += u.Running
		all.Turns += u.Turns
		all.Waited += u.Waited
		all.Served.Bytes += u.Served.Bytes
		all.Served.Ops += u.Served.Ops
		all.Price += u.Price
	}
	return all
}

// serve keeps each flow's queue filled and ends the oldest turn again and again, each
// for what actual says, until so much is served.
func (c *crowd) serve(t *rapid.T, expected, actual map[Flow]Cost, much int64) Snapshot {
	for f, cost := range expected {
		for range c.slots + 1 {
			c.add(t, f, cost)
		}
	}
	for c.root.use.Price < much {
		i := slices.IndexFunc(c.turns, func(x *turn) bool { return x.queued == nil })
		f := c.turns[i].task.flow
		c.endRunning(actual[f])
		c.add(t, f, expected[f])
	}
	return c.Snapshot()
}

// Projects that always want more get what their weights say, however large their turns
// are and however wrong they announce them.
func TestSharesFollowWeights(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		still(t, rt, func(t *rapid.T) {
			const opBytes, most = 16 << 10, 1 << 20
			c := &crowd{Scheduler: NewScheduler(Options{Slots: rapid.IntRange(1, 4).Draw(t, "slots"), OpBytes: opBytes})}
			weights, all := map[string]int64{}, int64(0)
			expected, actual := map[Flow]Cost{}, map[Flow]Cost{}
			for i := range rapid.IntRange(2, 5).Draw(t, "projects") {
				f := Flow{Class: stage, Project: strconv.Itoa(i), User: "u", Task: "t"}
				weights[f.Project] = rapid.Int64Range(1, 8).Draw(t, "weight")
				all += weights[f.Project]
				says := rapid.Int64Range(0, most-opBytes).Draw(t, "says")
				takes := rapid.Int64Range(most/4, most-opBytes).Draw(t, "takes")
				expected[f] = Cost{Bytes: says}
				actual[f] = Cost{Bytes: takes}
			}
			c.SetWeights(Weights{Projects: weights})
			much := all * 100 * most
			got := c.serve(t, expected, actual, much)
			for f, use := range got.Flows {
				want := much / all * weights[f.Project]
				// Each project may be off by a turn that it can not pay yet, a round, and a
				// correction for each slot, and so off the mean of all.
				off := int64(c.slots+2) * most
				off += off * int64(len(weights)) * weights[f.Project] / all
				if use.Price < want-off || use.Price > want+off {
					t.Errorf("project %s of weight %d was served %d, want %d, %d more or less", f.Project, weights[f.Project], use.Price, want, off)
				}
			}
		})
	})
}

// A turn comes after so many rounds, whatever others do: better classes, and projects,
// users and tasks that are new each time and owe nothing.
func TestNobodyStarves(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		still(t, rt, func(t *rapid.T) {
			const most = 16 * mib
			c := &crowd{Scheduler: NewScheduler(Options{Slots: 1})}
			genBig := func() Cost { return Cost{Bytes: rapid.Int64Range(0, most).Draw(t, "other")} }
			level := rapid.IntRange(0, 3).Draw(t, "level")
			seen := 0
			newcomer := func() {
				seen++
				f := Flow{Class: scrub}
				switch level {
				case 0:
					f.Class, f.Task = classes[seen%5], strconv.Itoa(seen)
				case 1:
					f.Project = strconv.Itoa(seen)
				case 2:
					f.User = strconv.Itoa(seen)
				case 3:
					f.Task = strconv.Itoa(seen)
				}
				c.add(t, f, genBig())
			}
			for range rapid.IntRange(2, 9).Draw(t, "others") {
				newcomer()
			}
			price := Cost{Bytes: rapid.Int64Range(0, most).Draw(t, "price")}
			patient := c.add(t, Flow{Class: scrub}, price)
			who := slices.Collect(patient.task.path())[3-level] // that competes
			last := who.parent.round + price.price(c.opBytes)/who.quantum + 1
			for patient.queued != nil && who.parent.round <= last {
				c.endRunning(genBig())
				newcomer()
			}
			if patient.queued != nil {
				t.Fatalf("a turn for %d still waits in round %d", price.Bytes, who.parent.round)
			}
		})
	})
}

func flow(class datamovev1.TaskClass, project string) Flow {
	return Flow{Class: class, Project: project, User: "user", Task: "task of " + project}
}

// take is an Acquire that may not have to wait.
func take(t *testing.T, s *Scheduler, f Flow, c Cost) func(Cost) {
	t.Helper()
	release := must.Get(s.Acquire(t.Context(), f, c, Width{}))(t)
	return release
}

// worker takes one turn after the other, each for so long, until ctx ends.
func worker(ctx context.Context, s *Scheduler, f Flow, says, truth Cost, long time.Duration) {
	for {
		release, err := s.Acquire(ctx, f, says, Width{})
		if err != nil {
			return
		}
		time.Sleep(long)
		release(truth)
	}
}

// Who was away does not come back with what it did not use.
func TestNobodySavesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(Options{Slots: 1})
		away, there := flow(stage, "away"), flow(stage, "there")
		cost := Cost{Bytes: mib}
		take(t, s, away, Cost{Bytes: 100 * mib})(cost) // that it is known, and is owed something
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { worker(ctx, s, there, cost, cost, time.Millisecond) })
		}
		time.Sleep(2 * time.Second)
		before := s.Snapshot()
		for range 2 {
			wg.Go(func() { worker(ctx, s, away, cost, cost, time.Millisecond) })
		}
		wg.Wait()
		after := s.Snapshot()
		turns := func(f Flow) int64 { return after.Flows[f].Turns - before.Flows[f].Turns }
		if d := turns(away) - turns(there); d < -2 || d > 2 || turns(there) < 900 {
			t.Errorf("%d turns for who was away, %d for who was there", turns(away), turns(there))
		}
	})
}

// What was had when nobody else wanted anything is owed to nobody.
func TestNoDebtWithoutOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		s := NewScheduler(Options{Slots: 1})
		alone, other := flow(stage, "alone"), flow(stage, "other")
		take(t, s, alone, Cost{})(Cost{Bytes: maxTurn}) // far more than it said
		blocker := take(t, s, flow(restore, "blocker"), Cost{})
		c := &crowd{Scheduler: s}
		for range 10 {
			for _, f := range []Flow{alone, other} {
				x := must.Get(s.join(f, Cost{Bytes: mib}, Width{}))(t)
				c.turns = append(c.turns, x)
			}
		}
		blocker(Cost{})
		for range 10 {
			c.endRunning(Cost{Bytes: mib})
		}
		if all := s.Snapshot(); all.Flows[other].Turns != 5 {
			t.Errorf("of 10 turns the other one had %d", all.Flows[other].Turns)
		}
	})
}

// New weights hold from now on, for those that wait too.
func TestSetWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // so that no time passes
		c := &crowd{Scheduler: NewScheduler(Options{Slots: 1, OpBytes: 1 << 10})}
		flows := []Flow{flow(stage, "a"), flow(stage, "b"), flow(tier, "c")}
		join := func(f Flow) {
			x := must.Get(c.join(f, Cost{Bytes: mib}, Width{}))(t)
			c.turns = append(c.turns, x)
		}
		for _, f := range flows {
			join(f)
			join(f)
		}
		for _, row := range []struct {
			weights Weights
			want    [3]int64 // of 120 turns
		}{
			{Weights{}, [3]int64{48, 48, 24}},
			{Weights{Projects: map[string]int64{"a": 3}}, [3]int64{72, 24, 24}},
			{Weights{Classes: map[datamovev1.TaskClass]int64{tier: 8}}, [3]int64{30, 30, 60}},
		} {
			c.SetWeights(row.weights)
			before := c.Snapshot()
			for range 120 {
				join(c.endRunning(Cost{Bytes: mib}).task.flow)
			}
			after := c.Snapshot()
			for i, f := range flows {
				if got := after.Flows[f].Turns - before.Flows[f].Turns; got < row.want[i]-2 || got > row.want[i]+2 {
					t.Errorf("%+v: %d turns for %s, want %d", row.weights, got, f.Project, row.want[i])
				}
			}
		}
	})
}

// Who announces too little or too much, one turn after the other, gets neither more
// nor less than who tells the truth.
func TestCorrectionIsFair(t *testing.T) {
	for _, row := range []struct {
		name    string
		says    Cost
		workers int
	}{
		{"too little", Cost{Ops: 1}, 3},
		{"too much", Cost{Bytes: 64 * mib}, 3},
		{"too little, one turn after the other", Cost{Ops: 1}, 2},
		{"too much, one turn after the other", Cost{Bytes: 64 * mib}, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := NewScheduler(Options{Slots: 2})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			honest, other := flow(stage, "honest"), flow(stage, "other")
			truth := Cost{Bytes: 16 * mib, Ops: 1}
			var wg sync.WaitGroup
			for range row.workers {
				wg.Go(func() { worker(ctx, s, honest, truth, truth, 10*time.Millisecond) })
				wg.Go(func() { worker(ctx, s, other, row.says, truth, 10*time.Millisecond) })
			}
			wg.Wait()
			all := s.Snapshot()
			if j := Jain([]float64{float64(all.Flows[honest].Price), float64(all.Flows[other].Price)}); j < 0.999 {
				t.Errorf("who says %s gets %d turns, who tells the truth %d", row.name, all.Flows[other].Turns, all.Flows[honest].Turns)
			}
		})
	}
}

func TestAcquireWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(Options{Slots: 2})
		f, g := flow(stage, "f"), flow(scrub, "g")
		first := take(t, s, f, Cost{})
		second := take(t, s, f, Cost{})
		got := make(chan func(Cost))
		go func() { got <- take(t, s, g, Cost{Bytes: 5}) }()
		synctest.Wait()
		time.Sleep(time.Second)
		if w := s.Snapshot(); w.Total.Waiting != 1 || w.Total.Running != 2 || w.Flows[g].Waited != time.Second || w.Classes[scrub].Waited != time.Second {
			t.Errorf("while it waits: %+v", w)
		}
		first(Cost{Bytes: 7, Ops: 2})
		first(Cost{Bytes: 7, Ops: 2}) // counts once
		third := <-got
		second(Cost{})
		third(Cost{Bytes: 9, Ops: 1})
		all := s.Snapshot()
		if u := all.Flows[f]; u.Turns != 2 || u.Served != (Cost{7, 2}) || u.Price != 7+3*64<<10 || u.Waited != 0 {
			t.Errorf("who came first: %+v", u)
		}
		if u := all.Flows[g]; u != (Use{Turns: 1, Served: Cost{9, 1}, Price: 9 + 64<<10, Waited: time.Second}) {
			t.Errorf("who waited: %+v", u)
		}
		if all.Total.Running != 0 || all.Total.Waiting != 0 || all.Total.Turns != 3 {
			t.Errorf("at the end: %+v", all.Total)
		}
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(Options{Slots: 1})
		f := flow(stage, "f")
		release := take(t, s, f, Cost{})
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() {
			_, err := s.Acquire(ctx, f, Cost{}, Width{})
			ended <- err
		}()
		synctest.Wait()
		time.Sleep(time.Second)
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("acquire: %v", err)
		}
		if _, err := s.Acquire(ctx, f, Cost{}, Width{}); !errors.Is(err, why) {
			t.Errorf("acquire with a context that has ended: %v", err)
		}
		if u := s.Snapshot().Total; u.Waiting != 0 || u.Running != 1 || u.Waited != time.Second {
			t.Errorf("after it: %+v", u)
		}
		release(Cost{})
		take(t, s, f, Cost{})(Cost{}) // the slot is free again
	})
}

// A turn that comes when its caller has just gone is given to the next.
func TestTurnForNobodyGoesOn(t *testing.T) {
	s := NewScheduler(Options{Slots: 1})
	release := take(t, s, flow(stage, "f"), Cost{})
	gone := must.Get(s.join(flow(stage, "gone"), Cost{Bytes: mib}, Width{}))(t)
	next := must.Get(s.join(flow(stage, "next"), Cost{Bytes: 2 * mib}, Width{}))(t)
	release(Cost{})
	<-gone.ready
	s.giveUp(gone)
	<-next.ready
	s.end(next, Cost{})
	if paid := gone.task.deficit; paid < mib {
		t.Errorf("who had no turn has %d back, want %d", paid, mib)
	}
	if u := s.Snapshot().Total; u.Turns != 2 || u.Running != 0 || u.Waiting != 0 {
		t.Errorf("after it: %+v", u)
	}
}

func TestTooManyWaitingAreRefused(t *testing.T) {
	s := NewScheduler(Options{Slots: 1, MaxWaiting: 2})
	f := flow(stage, "f")
	release := take(t, s, f, Cost{})
	for range 2 {
		if _, err := s.join(f, Cost{}, Width{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := s.Acquire(t.Context(), f, Cost{}, Width{})
	if !errors.Is(err, mover.ErrRefused) || !strings.Contains(err.Error(), "task of f") {
		t.Errorf("the third that waits: %v", err)
	}
	release(Cost{})
	if _, err := s.join(f, Cost{}, Width{}); err != nil {
		t.Errorf("when there is room again: %v", err)
	}
}

func TestSetSlots(t *testing.T) {
	s := NewScheduler(Options{Slots: 1})
	c := &crowd{Scheduler: s}
	for range 6 {
		x := must.Get(s.join(flow(stage, "f"), Cost{}, Width{}))(t)
		c.turns = append(c.turns, x)
	}
	for _, row := range []struct{ slots, running int }{{1, 1}, {4, 4}, {2, 4}, {0, 4}, {6, 6}} {
		s.SetSlots(row.slots)
		if got := s.Snapshot().Total.Running; got != row.running {
			t.Errorf("%d run with %d slots, want %d", got, row.slots, row.running)
		}
	}
}

func TestUnknownClassIsReplicate(t *testing.T) {
	s := NewScheduler(Options{})
	for _, class := range []datamovev1.TaskClass{0, -1, 99} {
		take(t, s, flow(class, "p"), Cost{})(Cost{})
	}
	if all := s.Snapshot(); all.Classes[replicate].Turns != 3 || len(all.Classes) != 6 || len(all.Flows) != 1 {
		t.Errorf("%+v", all)
	}
}

// Flows without end are not remembered without end.
func TestIdleFlowsAreForgotten(t *testing.T) {
	s := NewScheduler(Options{Slots: 2})
	take(t, s, flow(stage, "busy"), Cost{})(Cost{})
	busy := take(t, s, flow(stage, "busy"), Cost{}) // idle before, and not any more
	for i := range 3 * remembered {
		take(t, s, Flow{Class: stage, Project: strconv.Itoa(i / 10), User: "u", Task: strconv.Itoa(i)}, Cost{})(Cost{Bytes: mib})
	}
	all := s.Snapshot()
	if len(all.Flows) > remembered+1 || all.Flows[flow(stage, "busy")].Running != 1 || all.Total.Turns != 3*remembered+1 {
		t.Errorf("%d flows are remembered, with %+v", len(all.Flows), all.Flows[flow(stage, "busy")])
	}
	parties := 0
	var count func(p *group)
	count = func(p *group) {
		parties++
		for _, m := range p.members {
			count(m)
		}
	}
	count(s.root)
	if parties > remembered+1+6+3 || s.idle.Len() > remembered {
		t.Errorf("%d parties, %d of them idle", parties, s.idle.Len())
	}
	busy(Cost{})
}

func BenchmarkAcquire(b *testing.B) {
	for _, row := range []struct {
		name         string
		slots, flows int
	}{
		{"one flow, free slots", 1 << 20, 1},
		{"100 flows, free slots", 1 << 20, 100},
		{"100 flows, 8 slots", 8, 100},
		{"1000 flows, 8 slots", 8, 1000},
	} {
		b.Run(row.name, func(b *testing.B) {
			s := NewScheduler(Options{Slots: row.slots})
			b.SetParallelism(max(row.flows/2, 1)) // as many goroutines as flows
			var next = make(chan int, 2*row.flows+8)
			for i := range cap(next) {
				next <- i
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				i := <-next % row.flows
				f := Flow{Class: classes[i%6], Project: strconv.Itoa(i % 7), User: strconv.Itoa(i % 11), Task: strconv.Itoa(i)}
				cost := Cost{Bytes: int64(i) * 4096, Ops: 1}
				for pb.Next() {
					release, err := s.Acquire(b.Context(), f, cost, Width{})
					if err != nil {
						b.Error(err)
						return
					}
					release(cost)
				}
			})
		})
	}
}
