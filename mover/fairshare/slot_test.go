package fairshare

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/test/must"
)

// checkRoom finds what is wrong with the room of the turns.
func (c *crowd) checkRoom(t *rapid.T) {
	taken := int64(0)
	for _, x := range c.turns {
		taken += x.room
		if x.queued != nil && x.room != 0 {
			t.Fatal("a turn that waits takes room")
		}
	}
	if taken != c.taken {
		t.Fatalf("%d are taken, the turns that run have %d", c.taken, taken)
	}
	if c.taken < int64(c.slots)*slotParts && c.root.ready() {
		t.Fatalf("%d of %d slots are taken, and a turn that could run waits", c.taken/slotParts, c.slots)
	}
}

// Whatever comes and goes, and however wide it is: no room is free while a turn waits
// that could run, none runs twice, and when all have ended, all room is free.
func TestRoomHolds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		still(t, rt, func(t *rapid.T) {
			c := &crowd{Scheduler: NewScheduler(Options{Slots: rapid.IntRange(1, 9).Draw(t, "slots")}), rounds: map[*group]int64{}}
			t.Repeat(map[string]func(*rapid.T){
				"join": func(t *rapid.T) {
					w := Width{Most: rapid.IntRange(0, 5).Draw(t, "most"), Fill: rapid.IntRange(0, 20).Draw(t, "fill")}
					f := genFlow(t)
					running := c.task(f).use.Running
					if x := c.addWide(t, f, genCost(t), w); x.queued == nil && w.Most > 0 && running >= w.Most {
						t.Fatalf("one more than %d runs of a flow that can use %d", running, w.Most)
					}
				},
				"end": func(t *rapid.T) {
					if x := c.draw(t, false); x != nil {
						c.end(x, genCost(t))
					}
				},
				"give up": func(t *rapid.T) {
					if x := c.draw(t, rapid.Bool().Draw(t, "waits")); x != nil {
						c.giveUp(x)
					}
				},
				"": func(t *rapid.T) {
					c.checkRoom(t)
					c.root.check(t)
					c.root.checkRounds(t, c.rounds)
				},
			})
			for len(c.turns) > 0 {
				c.endRunning(Cost{})
			}
			if c.taken != 0 || c.root.busy() {
				t.Fatalf("all has ended: %d are taken, %+v", c.taken, c.root.use)
			}
		})
	})
}

// still calls f where no time passes, so that the room of no turn is taken away.
func still(t *testing.T, rt *rapid.T, f func(*rapid.T)) { inBubble(t, func() { f(rt) }) }

// inBubble calls f where time is virtual. What f panics with, as a check that has failed
// does, goes on in the caller.
func inBubble(t *testing.T, f func()) {
	var failed any
	synctest.Test(t, func(*testing.T) {
		defer func() { failed = recover() }()
		f()
	})
	if failed != nil {
		panic(failed)
	}
}

// As many turns run as each flow says fill the node, also where flows differ.
func TestTurnsFillTheNode(t *testing.T) {
	narrow, wide := flow(stage, "narrow"), flow(stage, "wide")
	for _, row := range []struct {
		name       string
		narrow     Width
		wide       Width
		wantNarrow int
		wantWide   int
	}{
		{"who says nothing takes a slot", Width{}, Width{}, 4, 4},
		{"two of a kind", Width{Most: 4, Fill: 4}, Width{Most: 4, Fill: 4}, 2, 2},
		{"one may use no more than one", Width{Most: 1, Fill: 4}, Width{Most: 16, Fill: 16}, 1, 12},
		{"of the same price as many of each", Width{Most: 4, Fill: 4}, Width{Most: 16, Fill: 16}, 4, 3},
	} {
		c := &crowd{Scheduler: NewScheduler(Options{Slots: 8})}
		all := func() Snapshot { return c.Snapshot() }
		blocker := must.Get(c.join(flow(restore, "blocker"), Cost{}, Width{Fill: 1}))(t)
		for range 32 {
			for _, x := range []struct {
				f Flow
				w Width
			}{{narrow, row.narrow}, {wide, row.wide}} {
				if _, err := c.join(x.f, Cost{Bytes: mib}, x.w); err != nil {
					t.Fatal(err)
				}
			}
		}
		if r := all().Total.Running; r != 1 {
			t.Errorf("%s: %d run beside one that fills the node", row.name, r-1)
		}
		c.end(blocker, Cost{})
		if n, w := all().Flows[narrow].Running, all().Flows[wide].Running; n != row.wantNarrow || w != row.wantWide {
			t.Errorf("%s: %d narrow ones and %d wide ones run, want %d and %d", row.name, n, w, row.wantNarrow, row.wantWide)
		}
	}
}

// A task whose turns wait for something far away keeps nobody from the node: that it has
// had the least would give it every turn, and all others would be as slow.
func TestSlowTurnsLeaveTheirRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(Options{Slots: 4})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var wg sync.WaitGroup
		near, far := flow(stage, "near"), flow(stage, "far")
		cost := Cost{Bytes: 4 * mib}
		for range 6 {
			wg.Go(func() { worker(ctx, s, near, cost, cost, 4*time.Millisecond) })
			wg.Go(func() { worker(ctx, s, far, cost, cost, 2*time.Second) })
		}
		wg.Wait()
		all := s.Snapshot()
		const alone = 4 * 60_000 / 4 // turns of near
		if n := all.Flows[near].Turns; n < alone/2 {
			t.Errorf("%d turns beside slow ones, %d without", n, alone)
		}
		if n := all.Flows[far].Turns; n < 6*60/2*9/10 {
			t.Errorf("%d slow turns", n)
		}
	})
}

// Where nothing is known of a node but turns that never end, because their tasks have limits of their own, a task of another account waits two seconds at most; also
// where their pace was learned.
func TestNeverEndingTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := NewScheduler(Options{})
		for _, what := range []string{"nothing is known", "a slow pace is known"} {
			for i := range 24 {
				go func() {
					_, _ = s.Acquire(t.Context(), Flow{Class: stage, User: "alice", Task: fmt.Sprint(i)}, Cost{Bytes: mib}, Width{})
				}()
			}
			synctest.Wait()
			begun := time.Now()
			release := take(t, s, Flow{Class: stage, User: "bob", Task: "other"}, Cost{Bytes: mib})
			if took := time.Since(begun); took > 2*time.Second {
				t.Errorf("%s: another task waits for %v", what, took)
			}
			time.Sleep(time.Hour)
			release(Cost{Bytes: mib})
		}
	})
}

// lateWorker is a worker that comes for its next turn so much later.
func lateWorker(ctx context.Context, s *Scheduler, f Flow, w Width, c Cost, long, late time.Duration) {
	for {
		release, err := s.Acquire(ctx, f, c, w)
		if err != nil {
			return
		}
		time.Sleep(long)
		release(c)
		time.Sleep(late)
	}
}

// threeProjects is how much three projects get of a node that runs two turns at one time:
// one that comes late for each of its turns, and two that are never late and have turns of
// 40 MiB that take 20 ms.
func threeProjects(ctx context.Context, long time.Duration, l lateness) (got []float64) {
	s := NewScheduler(Options{})
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	var wg sync.WaitGroup
	width := Width{Most: 2, Fill: 2}
	for range l.workers {
		wg.Go(func() { lateWorker(ctx, s, flow(stage, "late"), width, l.cost, l.takes, l.late) })
	}
	for range 4 {
		for _, p := range []string{"a", "b"} {
			wg.Go(func() { lateWorker(ctx, s, flow(stage, p), width, Cost{Bytes: 40 * mib}, 20*time.Millisecond, 0) })
		}
	}
	wg.Wait()
	all := s.Snapshot()
	for _, p := range []string{"late", "a", "b"} {
		got = append(got, float64(all.Flows[flow(stage, p)].Price)/mib)
	}
	return got
}

// lateness is a project whose workers come so much later for each turn.
type lateness struct {
	late    time.Duration
	workers int
	cost    Cost // of a turn
	takes   time.Duration
}

// could reports whether it could well get its share if each of its workers waited, for each turn,
// until one of the others has ended one: none is interrupted for it.
func (l lateness) could() bool {
	price := float64(l.cost.price(64<<10)) / mib
	share := 2 / (l.takes.Seconds()/price + 2*0.020/40.0625) // a second
	return float64(l.workers)*price/(l.takes+l.late+10*time.Millisecond).Seconds() > 1.25*share
}

// Three projects get the same, though one is late each time and the turn of another one
// begins meanwhile.
func TestLateIsNotLost(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name string
		l    lateness
	}{
		{"small turns, and many in line", lateness{5 * ms, 8, Cost{Bytes: 4 * mib}, 2 * ms}},
		{"none in line when one is due", lateness{5 * ms, 2, Cost{Bytes: 32 * mib}, 8 * ms}},
		{"large turns, one after the other", lateness{5 * ms, 1, Cost{Bytes: 80 * mib}, 20 * ms}},
		{"operations", lateness{5 * ms, 6, Cost{Ops: 100}, 2 * ms}},
	} {
		synctest.Test(t, func(t *testing.T) {
			if !row.l.could() {
				t.Fatalf("%s: it wants less than its share", row.name)
			}
			if got := threeProjects(t.Context(), time.Minute, row.l); Jain(got) < 0.99 {
				t.Errorf("%s: Jain %.3f, %.0f MiB", row.name, Jain(got), got)
			}
		})
	}
}

// However late, as long as it could use more than its share: it gets its share.
func TestLateGetsItsShare(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := lateness{
			late:    time.Duration(rapid.IntRange(0, 20).Draw(rt, "late")) * time.Millisecond,
			workers: rapid.IntRange(2, 12).Draw(rt, "workers"),
			cost:    Cost{Bytes: rapid.Int64Range(2, 20).Draw(rt, "bytes") * mib, Ops: rapid.Int64Range(0, 200).Draw(rt, "operations")},
			takes:   time.Duration(rapid.IntRange(1, 20).Draw(rt, "takes")) * time.Millisecond,
		}
		if !l.could() {
			rt.Skip("it wants less than its share")
		}
		inBubble(t, func() {
			if got := threeProjects(context.Background(), 10*time.Second, l); Jain(got) < 0.97 {
				rt.Fatalf("Jain %.3f, %.0f MiB", Jain(got), got)
			}
		})
	})
}
