package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger is what Refill asks: the ids of flows that wait for somebody.
type ledger struct {
	mu    sync.Mutex // guards all below
	flows map[string][]string
	asked int
	err   error
}

func newLedger(flow string, ids ...string) *ledger {
	return &ledger{flows: map[string][]string{flow: ids}}
}

func (l *ledger) refill(_ context.Context, flow, after string, n int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	ids := l.flows[flow]
	i, found := slices.BinarySearch(ids, after)
	if found {
		i++
	}
	return slices.Clone(ids[i:min(i+n, len(ids))]), l.err
}

func (l *ledger) add(flow string, ids ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.flows[flow] = slices.Compact(slices.Sorted(slices.Values(append(slices.Clone(l.flows[flow]), ids...))))
}

// done takes an id off, as who works on it does before it says so to the queue. It
// says whether the id was there.
func (l *ledger) done(flow, id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i, found := slices.BinarySearch(l.flows[flow], id)
	if found {
		l.flows[flow] = slices.Delete(slices.Clone(l.flows[flow]), i, i+1)
	}
	return found
}

func numbers(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%07d", i)
	}
	return ids
}

// bench is a queue in a test, with the words of the test.
type bench struct {
	t *testing.T
	*Queue
}

func (b bench) offer(flow string, ids ...string) {
	b.t.Helper()
	for _, id := range ids {
		must.Do(b.t, b.Offer(b.t.Context(), flow, id))
	}
}

// take takes what must be there.
func (b bench) take(flow, id string) *Claim {
	b.t.Helper()
	c, ok, err := b.Take(b.t.Context(), flow)
	if err != nil || !ok || c.ID() != id {
		b.t.Fatalf("Take = %v, %v, %v; want %q", c, ok, err, id)
	}
	return c
}

func (b bench) nothing(flow string) {
	b.t.Helper()
	if c, ok, err := b.Take(b.t.Context(), flow); ok || err != nil {
		b.t.Fatalf("Take = %v, %v, want nothing", c, err)
	}
}

func (b bench) length(flow string, want int) {
	b.t.Helper()
	if n := b.waiting(flow); n != want {
		b.t.Errorf("%d wait in %q, want %d", n, flow, want)
	}
}

// waiting is how many ids of a flow wait here.
func (b bench) waiting(flow string) int {
	b.t.Helper()
	f := must.Get(b.find(b.t.Context(), flow, false))(b.t)
	if f == nil {
		return 0
	}
	defer f.leave()
	return f.waiting
}

func (b bench) check(err error) {
	b.t.Helper()
	must.Do(b.t, err)
}

// lost checks that a claim is none any more.
func (b bench) lost(c *Claim) {
	b.t.Helper()
	for name, err := range map[string]error{"Done": c.Done(), "Back": c.Back(0)} {
		if !errors.Is(err, mover.ErrHeld) {
			b.t.Errorf("%s of a lost claim = %v", name, err)
		}
	}
}

// contract is what every queue does, in virtual time.
var contract = map[string]struct {
	o    Options
	test func(b bench, l *ledger)
}{
	"in order, each once": {Options{}, func(b bench, _ *ledger) {
		b.offer("f", "b", "a", "c", "b")
		b.length("f", 3)
		for _, id := range []string{"b", "a", "c"} {
			b.check(b.take("f", id).Done())
		}
		b.nothing("f")
		b.length("f", 0)
		b.offer("f", "b") // done, and wanted again
		b.take("f", "b")
		b.nothing("f")
		b.offer("f", "b") // somebody has it
		b.nothing("f")
	}},
	"flows do not mix": {Options{}, func(b bench, _ *ledger) {
		b.offer("f", "1", "2")
		b.offer("with a space > and * .", "1")
		b.take("with a space > and * .", "1")
		b.nothing("with a space > and * .")
		b.nothing("none")
		b.take("f", "1")
		b.length("f", 1)
	}},
	"a claim lasts until it is done": {Options{Window: 2}, func(b bench, l *ledger) {
		l.add("f", "1", "2") // and the ledger goes on to say so
		one := b.take("f", "1")
		time.Sleep(24 * time.Hour)
		b.take("f", "2")
		b.nothing("f")
		l.done("f", "1")
		b.check(one.Done())
		b.lost(one)
		b.nothing("f")
	}},
	"what comes back is first, in order": {Options{}, func(b bench, _ *ledger) {
		b.offer("f", "3", "1", "2", "5", "4")
		var had []*Claim
		for _, id := range []string{"3", "1", "2", "5"} {
			had = append(had, b.take("f", id))
		}
		for _, i := range []int{2, 0, 3, 1} {
			b.check(had[i].Back(time.Second))
		}
		b.check(b.take("f", "4").Back(0)) // its delay is over before theirs
		time.Sleep(time.Second)
		b.offer("f", "0")
		for _, id := range []string{"4", "3", "1", "2", "5", "0"} {
			b.take("f", id)
		}
		b.nothing("f")
	}},
	"given back, at once or later": {Options{}, func(b bench, _ *ledger) {
		b.offer("f", "1", "2")
		c := b.take("f", "1")
		b.check(c.Back(0))
		b.length("f", 2)
		b.lost(c)
		c = b.take("f", "1")
		b.check(c.Back(3 * time.Minute))
		two := b.take("f", "2")
		b.nothing("f")
		time.Sleep(179 * time.Second)
		b.nothing("f")
		time.Sleep(time.Second)
		again := b.take("f", "1")
		b.lost(c) // though another claim has the id
		b.check(again.Done())
		b.check(two.Done())
		b.nothing("f")
	}},
	"a take that is given up takes nothing": {Options{Window: 4}, func(b bench, l *ledger) {
		l.add("f", numbers(3)...)
		b.take("f", "0000000")
		f := must.Get(b.find(b.t.Context(), "f", false))(b.t) // it is in use
		ctx, stop := context.WithCancel(b.t.Context())
		over := make(chan error)
		for range 3 {
			go func() {
				_, _, err := b.Take(ctx, "f")
				over <- err
			}()
		}
		synctest.Wait()
		stop()
		for range 3 {
			if err := <-over; !errors.Is(err, context.Canceled) {
				b.t.Errorf("Take = %v", err)
			}
		}
		f.leave()
		b.take("f", "0000001")
		b.take("f", "0000002")
	}},
	"dropped": {Options{}, func(b bench, _ *ledger) {
		b.offer("f", "1", "2")
		b.offer("g", "1")
		c := b.take("f", "1")
		b.Drop("f")
		b.Drop("f")
		b.length("f", 0)
		b.nothing("f")
		b.lost(c)
		b.offer("f", "3")
		b.take("f", "3")
		b.nothing("f")
		b.take("g", "1")
	}},
	"a full window without a ledger": {Options{Window: 3}, func(b bench, _ *ledger) {
		b.offer("f", "1", "2", "3")
		if err := b.Offer(b.t.Context(), "f", "4"); !errors.Is(err, mover.ErrFull) {
			b.t.Errorf("Offer = %v", err)
		}
		b.take("f", "1")
		b.offer("f", "4")
		b.length("f", 3)
	}},
	"names have a size": {Options{}, func(b bench, _ *ledger) {
		long := string(make([]byte, nameBytes+1))
		_, _, err := b.Take(b.t.Context(), long)
		for _, err := range []error{b.Offer(b.t.Context(), "f", ""), b.Offer(b.t.Context(), "f", long), b.Offer(b.t.Context(), "", "1"), err} {
			if !errors.Is(err, mover.ErrUsage) {
				b.t.Errorf("%v", err)
			}
		}
	}},
	"filled from the ledger": {Options{Window: 8}, func(b bench, l *ledger) {
		ids := numbers(100)
		l.add("f", ids...)
		for _, id := range ids {
			c := b.take("f", id)
			if b.waiting("f") > 8 {
				b.t.Fatalf("%d wait", b.waiting("f"))
			}
			l.done("f", id)
			b.check(c.Done())
		}
		b.nothing("f")
		asked := l.asked
		for range 10 {
			b.nothing("f")
		}
		if l.asked != asked {
			b.t.Errorf("an empty ledger was asked %d times", l.asked-asked)
		}
		if asked > 100/(8-8/4)+3 {
			b.t.Errorf("it was asked %d times", asked)
		}
	}},
	"offered while the window is full": {Options{Window: 4}, func(b bench, l *ledger) {
		ids := numbers(30)
		for _, id := range ids {
			l.add("f", id)
			b.offer("f", id)
		}
		c := b.take("f", ids[0])
		for _, id := range ids[10:] {
			b.offer("f", id) // again, and that changes nothing
		}
		got := []string{c.ID()}
		for {
			c, ok, err := b.Take(b.t.Context(), "f")
			b.check(err)
			if !ok {
				break
			}
			got = append(got, c.ID())
			l.done("f", c.ID())
			b.check(c.Done())
		}
		if !slices.Equal(got, ids) {
			b.t.Errorf("taken %q", got)
		}
	}},
	"early ids that come late": {Options{Window: 4}, func(b bench, l *ledger) {
		late := numbers(6)
		l.add("f", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8")
		b.check(b.take("f", "x1").Done())
		l.done("f", "x1")
		for _, id := range late { // more than fit, and before the cursor
			l.add("f", id)
			b.offer("f", id)
		}
		seen := map[string]int{}
		for {
			c, ok, err := b.Take(b.t.Context(), "f")
			b.check(err)
			if !ok {
				break
			}
			seen[c.ID()]++
			l.done("f", c.ID())
			b.check(c.Done())
		}
		for _, id := range append(late, "x2", "x8") {
			if seen[id] != 1 {
				b.t.Errorf("%s was taken %d times", id, seen[id])
			}
		}
	}},
	"nobody gets what somebody has": {Options{Window: 4}, func(b bench, l *ledger) {
		l.add("f", "1", "2") // and the ledger goes on to say so
		b.take("f", "1")
		l.add("f", "0", "3", "4", "5", "6", "7")
		for _, id := range []string{"0", "3", "4", "5", "6", "7"} {
			b.offer("f", id)
		}
		for range 7 {
			c, ok, err := b.Take(b.t.Context(), "f")
			b.check(err)
			if !ok || c.ID() == "1" {
				b.t.Fatalf("took %v, %v", c, ok)
			}
		}
		b.nothing("f")
	}},
	"no more flows than there may be": {Options{Flows: 3}, func(b bench, l *ledger) {
		for _, f := range []string{"1", "2", "3", "4"} {
			l.add(f, f+"a", f+"b")
		}
		b.take("1", "1a")
		l.done("1", "1a")
		two := b.take("2", "2a")
		b.check(two.Back(0)) // nobody has anything of it: it can be spared
		b.take("3", "3a")
		l.done("3", "3a")
		b.take("4", "4a")
		l.done("4", "4a")
		if _, _, err := b.Take(b.t.Context(), "2"); !errors.Is(err, mover.ErrFull) {
			b.t.Errorf("Take of a fourth flow = %v", err)
		}
		b.Drop("1")
		b.take("2", "2a") // it comes back
		b.Drop("3")
		for n := range 20 {
			b.nothing(fmt.Sprint("empty ", n)) // flows with nothing in them take no room
		}
	}},
	"a ledger that fails": {Options{Window: 4}, func(b bench, l *ledger) {
		l.add("f", numbers(8)...)
		b.take("f", numbers(1)[0])
		l.err = errors.New("no ledger")
		for _, id := range numbers(4)[1:] {
			b.take("f", id) // what is here goes on
		}
		if _, ok, err := b.Take(b.t.Context(), "f"); ok || !errors.Is(err, l.err) {
			b.t.Errorf("Take = %v, %v", ok, err)
		}
		l.err = nil
		b.take("f", numbers(5)[4])
	}},
}

func TestContract(t *testing.T) {
	for name, c := range contract {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLedger("")
				o := c.o
				if o.Window > 0 && name != "a full window without a ledger" || o.Flows > 0 {
					o.Refill = l.refill
				}
				c.test(bench{t, New(o)}, l)
			})
		})
	}
}
