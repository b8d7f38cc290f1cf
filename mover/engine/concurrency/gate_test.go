package concurrency

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"datamove.dev/mover"
	"datamove.dev/test/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNext(t *testing.T) {
	b := bounds{2, 32}
	// at is a window of a second in which the gate was full and done was got done.
	at := func(done int64) sample { return sample{seconds: 1, done: done, calls: 100, full: 100} }
	throttled := func(n int) sample { return sample{seconds: 1, done: 100, calls: 100, full: 100, throttled: n} }
	for _, row := range []struct {
		name string
		s    state
		m    sample
		want state
	}{
		{"the first probe is upwards", state{width: 8}, at(100), state{width: 10, was: 8, rate: 100}},
		{"more does more: further", state{width: 10, was: 8, rate: 100}, at(120), state{width: 12, was: 10, rate: 120}},
		{"more does no more: back, and rest", state{width: 10, was: 8, rate: 100}, at(103), state{width: 8, rest: 10, down: true}},
		{"more does less: back, and rest", state{width: 10, was: 8, rate: 100}, at(50), state{width: 8, rest: 10, down: true}},
		{"a rest", state{width: 8, rest: 3, down: true}, at(100), state{width: 8, rest: 2, down: true}},
		{"after it, downwards", state{width: 8, down: true}, at(100), state{width: 6, was: 8, rate: 100, down: true}},
		{"fewer do as well: stay with fewer", state{width: 6, was: 8, rate: 100, down: true}, at(98), state{width: 6, rest: 10}},
		{"fewer do more: further", state{width: 6, was: 8, rate: 100, down: true}, at(130), state{width: 5, was: 6, rate: 130, down: true}},
		{"fewer do less: back", state{width: 6, was: 8, rate: 100, down: true}, at(80), state{width: 8, rest: 10}},
		{"the endpoint has enough: give way", state{width: 16, was: 13, rate: 9}, throttled(30), state{width: 12, rest: 5}},
		{"give way by one at least", state{width: 3}, throttled(30), state{width: 2, rest: 5}},
		{"never below the least", state{width: 2}, throttled(100), state{width: 2, rest: 5}},
		{"an accident is no reason", state{width: 8}, throttled(2), state{width: 10, was: 8, rate: 100}},
		{"too little work tells nothing", state{width: 10, was: 8, rate: 100}, sample{seconds: 1, done: 1, calls: 10, full: 2}, state{width: 10, rate: 100}},
		{"at the most, downwards", state{width: 32}, at(100), state{width: 24, was: 32, rate: 100, down: true}},
		{"at the least, upwards", state{width: 2, down: true}, at(100), state{width: 3, was: 2, rate: 100}},
		{"the first window tells nothing", begin(4), at(100), state{width: 4, young: true}},
		{"young: double", state{width: 4, young: true}, at(100), state{width: 8, was: 4, rate: 100, young: true}},
		{"young, more does much more: double again", state{width: 8, was: 4, rate: 100, young: true}, at(130), state{width: 16, was: 8, rate: 130, young: true}},
		{"young, more does little more: back, and grown up", state{width: 8, was: 4, rate: 100, young: true}, at(115), state{width: 4, rest: 10}},
		{"young, up to the most", state{width: 20, young: true}, at(100), state{width: 32, was: 20, rate: 100, young: true}},
		{"young at the most: grown up", state{width: 32, young: true}, at(100), state{width: 24, was: 32, rate: 100, down: true}},
		{"young, too little work: still young", state{width: 8, young: true}, sample{seconds: 1, done: 1, calls: 10, full: 2}, state{width: 8, young: true}},
		{"young, the endpoint has enough: grown up", state{width: 16, was: 8, rate: 9, young: true}, throttled(30), state{width: 12, rest: 5}},
		{"never above the most", state{width: 30}, at(100), state{width: 32, was: 30, rate: 100}},
	} {
		if got := row.s.next(row.m, b); got != row.want {
			t.Errorf("%s: next is %+v, want %+v", row.name, got, row.want)
		}
	}
}

func TestPinnedStays(t *testing.T) {
	b := bounds{5, 5}
	s := begin(5)
	for i := range 40 {
		s = s.next(sample{seconds: 1, done: int64(100 * i), calls: 100, full: 100, throttled: i % 7}, b)
		if s.width != 5 {
			t.Fatalf("width %d after %d windows", s.width, i+1)
		}
	}
}

// server does at most so many calls at once well; the others wait for their turn.
type server struct {
	slots chan struct{}
	takes time.Duration
}

func (s *server) call() {
	s.slots <- struct{}{}
	time.Sleep(s.takes)
	<-s.slots
}

// work runs callers through the gate until the deadline.
func work(t *testing.T, g *Gate, callers int, long time.Duration, call func() error) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for g.Acquire(ctx) == nil {
				g.Release(1<<20, call())
			}
		})
	}
	wg.Wait()
}

func TestGateFindsTheWidth(t *testing.T) {
	for _, row := range []struct{ start, capacity, least, most int }{
		{4, 24, 18, 32},
		{64, 64, 48, 64},
		{48, 6, 5, 20},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := NewGate(GateOptions{Start: row.start, Min: 1, Max: 64})
			s := &server{make(chan struct{}, row.capacity), 50 * time.Millisecond}
			work(t, g, 64, 10*time.Minute, func() error { s.call(); return nil })
			if w := g.Width(); w < row.least || w > row.most {
				t.Errorf("a server for %d calls at once, from %d: width %d", row.capacity, row.start, w)
			}
		})
	}
}

// What is far away is soon asked for much at once.
func TestGateGrowsFastAtFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Start: 8, Min: 1, Max: 128})
		work(t, g, 128, 4*time.Second, func() error { time.Sleep(100 * time.Millisecond); return nil })
		if w := g.Width(); w < 96 { // the most, or the first probe from there
			t.Errorf("width %d after 4 s", w)
		}
	})
}

// An endpoint that refuses what is too much is soon asked for less.
func TestGateGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const capacity = 8
		g := NewGate(GateOptions{Start: 48, Min: 1, Max: 64})
		var mu sync.Mutex
		calls, refused, lately := 0, 0, 0
		began := time.Now()
		work(t, g, 64, time.Minute, func() error {
			mu.Lock()
			calls++
			tooMany := calls > capacity
			if tooMany {
				refused++
				if time.Since(began) > 40*time.Second {
					lately++
				}
			}
			mu.Unlock()
			time.Sleep(20 * time.Millisecond)
			mu.Lock()
			calls--
			mu.Unlock()
			if tooMany {
				return &mover.Error{Op: "write", Err: mover.ErrTransient}
			}
			return nil
		})
		if w := g.Width(); w > 2*capacity || refused == 0 || lately*5 > refused {
			t.Errorf("width %d, refused %d, of these %d lately", w, refused, lately)
		}
	})
}

func TestThrottledCountsWhatWasTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Start: 16, Max: 16})
		work(t, g, 16, 5*time.Second, func() error {
			time.Sleep(20 * time.Millisecond)
			g.Throttled(&mover.Error{Op: "read", Err: mover.ErrTransient})
			return nil
		})
		if w := g.Width(); w >= 16 {
			t.Errorf("width %d", w)
		}
	})
}

//safety:8 calls in flight, and what a refused one holds
func TestAcquireIsBoundedAndFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Start: 2, Min: 2})
		must.Tell(t, g.Acquire(t.Context()))
		must.Tell(t, g.Acquire(t.Context()))
		order := make(chan int, 3)
		for i := range 3 {
			go func() {
				must.Tell(t, g.Acquire(t.Context()))
				order <- i
			}()
			synctest.Wait()
		}
		for want := range 3 {
			if len(order) != 0 {
				t.Fatal("more calls than the width")
			}
			g.Release(0, nil)
			if got := <-order; got != want {
				t.Errorf("caller %d came before %d", got, want)
			}
			synctest.Wait()
		}
	})
}

func TestAcquireEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{})
		must.Tell(t, g.Acquire(t.Context()))
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error)
		go func() { ended <- g.Acquire(ctx) }()
		synctest.Wait()
		cancel(why)
		if err := <-ended; !errors.Is(err, why) {
			t.Errorf("acquire: %v", err)
		}
		g.Release(0, nil)
		must.Tell(t, g.Acquire(t.Context())) // the turn that nobody took
	})
}

// While somebody else decides how many calls there are, a gate holds nobody back and
// learns nothing of how much is good, only that an endpoint has enough.
func TestGivenCallsTeachNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Start: 8, Min: 1, Max: 64})
		given := func(callers int, long time.Duration, call func() error) {
			ctx, cancel := context.WithTimeout(t.Context(), long)
			defer cancel()
			var wg sync.WaitGroup
			for range callers {
				wg.Go(func() {
					for ctx.Err() == nil && g.AcquireGiven(ctx) == nil {
						g.ReleaseGiven(call())
					}
				})
			}
			wg.Wait()
		}
		given(20, time.Minute, func() error { time.Sleep(100 * time.Millisecond); return nil })
		if w := g.Width(); w != 8 {
			t.Errorf("width %d after calls that were given, want 8", w)
		}
		given(20, time.Minute, func() error { time.Sleep(100 * time.Millisecond); return mover.ErrTransient })
		if w := g.Width(); w != 1 {
			t.Errorf("width %d at an endpoint that has enough", w)
		}
	})
}

// A pinned gate holds also those back that were given: somebody said how many.
func TestPinnedHoldsGivenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGate(GateOptions{Min: 2, Max: 2})
		if !g.Pinned() || NewGate(GateOptions{Min: 1, Max: 2}).Pinned() {
			t.Error("who is pinned?")
		}
		var passed int
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if g.AcquireGiven(ctx) == nil {
					passed++ // one at a time: the others sleep
				}
			})
			synctest.Wait()
		}
		if passed != 2 {
			t.Errorf("%d have passed a gate for 2", passed)
		}
		g.ReleaseGiven(nil)
		synctest.Wait()
		if passed != 3 {
			t.Errorf("%d have passed when one has left, want 3", passed)
		}
		cancel()
		wg.Wait()
	})
}
