package fairshare

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"datamove.dev/mover"
	"datamove.dev/test/must"
	_ "datamove.dev/test/seed/property" // of rapid
)

// passed is a piece that passed a bucket.
type passed struct {
	at     time.Duration
	amount int64
}

// drain lets workers take pieces from a bucket as fast as it gives them.
func drain(t *testing.T, b *Bucket, workers int, long time.Duration, piece func() Cost) (all []passed) {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	began := time.Now()
	var mu sync.Mutex // guards all
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for {
				mu.Lock()
				c := piece()
				mu.Unlock()
				if _, err := b.Wait(ctx, c); err != nil {
					return
				}
				mu.Lock()
				all = append(all, passed{time.Since(began), c.Bytes + c.Ops})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return all
}

// In no span of time does more pass than the rate, a tenth of a second's worth, and one
// piece; and when there is always somebody who wants more, not less than the rate either.
func TestBucketHoldsItsRate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		rate := rapid.Int64Range(1, 1<<40).Draw(rt, "rate")
		pieces := rapid.SliceOfN(rapid.Int64Range(rate/50+1, 3*rate+1), 1, 20).Draw(rt, "pieces")
		workers := rapid.IntRange(1, 5).Draw(rt, "workers")
		ops := rapid.Bool().Draw(rt, "ops")
		const long = 20 * time.Second
		var all []passed
		synctest.Test(t, func(t *testing.T) {
			var b Bucket
			next := 0
			piece := func() Cost {
				next++
				amount := pieces[next%len(pieces)]
				if ops {
					return Cost{Ops: amount}
				}
				return Cost{Bytes: amount}
			}
			b.SetRate(Rate{Bytes: rate, Ops: rate})
			time.Sleep(time.Minute) // for which it saves up no more than it may
			all = drain(t, &b, workers, long, piece)
		})
		if err := holds(all, rate, slices.Max(pieces), long); err != nil {
			rt.Error(err)
		}
	})
}

func holds(all []passed, rate, largest int64, long time.Duration) error {
	total := int64(0)
	for i, first := range all {
		sum := int64(0)
		for _, p := range all[i:] {
			sum += p.amount
			if most := float64(rate)*(p.at-first.at+burst).Seconds() + float64(largest) + 1; float64(sum) > most*(1+1e-6) {
				return fmt.Errorf("%d passed from %v to %v, want %.0f at most", sum, first.at, p.at, most)
			}
		}
		total += first.amount
	}
	if least := float64(rate)*long.Seconds() - float64(largest); float64(total) < least*(1-1e-6) {
		return fmt.Errorf("%d passed in %v, want %.0f at least", total, long, least)
	}
	return nil
}

// after waits for the bucket and says how long it took.
func after(t *testing.T, b *Bucket, c Cost) time.Duration {
	t.Helper()
	began := time.Now()
	waited, err := b.Wait(t.Context(), c)
	must.Tell(t, err)
	if took := time.Since(began); took != waited {
		t.Errorf("it took %v, and waited for %v", took, waited)
	}
	return waited.Round(time.Microsecond)
}

func TestBucketWaits(t *testing.T) {
	const s, ms = time.Second, time.Millisecond
	for _, row := range []struct {
		name  string
		rate  Rate
		costs []Cost
		want  []time.Duration // one after the other
	}{
		{"unlimited", Rate{}, []Cost{{Bytes: 1 << 40, Ops: 1 << 40}, {Bytes: 1}}, []time.Duration{0, 0}},
		{"a large piece passes, the next pays", Rate{Bytes: 1000}, []Cost{{Bytes: 5000}, {Bytes: 1}, {Bytes: 1000}}, []time.Duration{0, 5 * s, ms}},
		{"operations too", Rate{Ops: 10}, []Cost{{Ops: 10}, {Ops: 1}}, []time.Duration{0, s}},
		{"the slower of both", Rate{Bytes: 1000, Ops: 10}, []Cost{{Bytes: 1000, Ops: 50}, {Bytes: 1, Ops: 1}}, []time.Duration{0, 5 * s}},
		{"bytes do not wait for operations", Rate{Bytes: 1000, Ops: 10}, []Cost{{Ops: 50}, {Bytes: 1}}, []time.Duration{0, 0}},
		{"nothing waits for nothing", Rate{Bytes: 1}, []Cost{{Bytes: 1000}, {}}, []time.Duration{0, 0}},
		{"what is absurd ends", Rate{Bytes: 1}, []Cost{{Bytes: 1<<63 - 1}, {Bytes: 1}}, []time.Duration{0, farAhead}},
		{"less than nothing is nothing", Rate{Bytes: -1, Ops: 1}, []Cost{{Bytes: 1 << 40}, {Bytes: -9, Ops: -9}, {Ops: 1}}, []time.Duration{0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b Bucket
			b.SetRate(row.rate)
			for i, c := range row.costs {
				if got := after(t, &b, c); got != row.want[i] {
					t.Errorf("%s: piece %d waited %v, want %v", row.name, i, got, row.want[i])
				}
			}
		})
	}
}

func TestBucketIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bucket
		b.SetRate(Rate{Bytes: 1000})
		after(t, &b, Cost{Bytes: 1000})
		var order []int
		var mu sync.Mutex // guards order
		var wg sync.WaitGroup
		for i := range 10 {
			wg.Go(func() {
				after(t, &b, Cost{Bytes: int64(2000 - 190*i)}) // the later, the smaller
				mu.Lock()
				defer mu.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		wg.Wait()
		if !slices.IsSorted(order) || len(order) != 10 {
			t.Errorf("passed as %v", order)
		}
	})
}

// A new rate holds at once, also for who waits; what is owed is owed still.
func TestSetRate(t *testing.T) {
	for _, row := range []struct {
		name string
		rate int64
		want time.Duration // from the beginning
	}{
		{"faster", 9000, 2 * time.Second},
		{"slower", 500, 19 * time.Second},
		{"the same", 1000, 10 * time.Second},
		{"unlimited", 0, time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			var b Bucket
			b.SetRate(Rate{Bytes: 1000})
			after(t, &b, Cost{Bytes: 10_000})
			got := make(chan time.Duration)
			go func() { got <- after(t, &b, Cost{Bytes: 1}) }()
			time.Sleep(time.Second)
			b.SetRate(Rate{Bytes: row.rate})
			if d := <-got; d != row.want {
				t.Errorf("%s: waited %v, want %v", row.name, d, row.want)
			}
		})
	}
}

func TestSetRateAgainAndAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bucket
		stop := make(chan struct{})
		var wg sync.WaitGroup
		b.SetRate(Rate{Bytes: 1 << 20})
		wg.Go(func() {
			for i := int64(0); ; i++ { // as a coordinator does, once a second
				select {
				case <-time.After(time.Second):
					b.SetRate(Rate{Bytes: 1<<20 + i%2})
				case <-stop:
					return
				}
			}
		})
		all := drain(t, &b, 3, time.Minute, func() Cost { return Cost{Bytes: 300_000} })
		close(stop)
		wg.Wait()
		must.Tell(t, holds(all, 1<<20, 300_000, time.Minute))
	})
}

// Who gives up has taken nothing, and lets the next one pass.
func TestWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bucket
		b.SetRate(Rate{Bytes: 1000, Ops: 1})
		after(t, &b, Cost{Bytes: 5000})
		why := errors.New("stopped by the test")
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := make(chan error)
		go func() {
			waited, err := b.Wait(ctx, Cost{Bytes: 1000, Ops: 60}) // the operations pass at once
			if waited != 2*time.Second {
				t.Errorf("waited %v", waited)
			}
			gone <- err
		}()
		synctest.Wait()
		next := make(chan time.Duration)
		go func() { next <- after(t, &b, Cost{Bytes: 1, Ops: 1}) }()
		time.Sleep(2 * time.Second)
		cancel(why)
		if err := <-gone; !errors.Is(err, why) {
			t.Errorf("wait: %v", err)
		}
		if d := <-next; d != 5*time.Second {
			t.Errorf("the next waited %v, want 5s", d)
		}
		if _, err := b.Wait(ctx, Cost{Bytes: 1}); !errors.Is(err, why) {
			t.Errorf("wait with a context that has ended: %v", err)
		}
	})
}

// What passed without a limit is not taken back from one that came later.
func TestWaitTakesBackWhatItPaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Bucket
		b.SetRate(Rate{Ops: 1})
		after(t, &b, Cost{Ops: 60})
		ctx, cancel := context.WithCancel(t.Context())
		gone := make(chan error)
		go func() {
			_, err := b.Wait(ctx, Cost{Bytes: 5000, Ops: 1}) // the bytes pass at once
			gone <- err
		}()
		synctest.Wait()
		b.SetRate(Rate{Bytes: 1000, Ops: 1})
		after(t, &b, Cost{Bytes: 3000})
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
		if d := after(t, &b, Cost{Bytes: 1}); d != 3*time.Second {
			t.Errorf("the next waited %v, want 3s", d)
		}
	})
}

func TestBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Buckets
		wait := func(charges ...Charge) time.Duration {
			waited, err := b.Wait(t.Context(), charges)
			must.Tell(t, err)
			return waited.Round(time.Microsecond)
		}
		set := func(rates map[Direction]Rate) {
			must.Tell(t, b.Set(rates))
		}
		read, write := Charge{Endpoint: "warm", Bytes: 3000}, Charge{Endpoint: "cold", Write: true, Bytes: 3000, Ops: 1}
		if d := wait(read, write); d != 0 {
			t.Errorf("without limits: %v", d)
		}
		limits := map[Direction]Rate{{"warm", false}: {Bytes: 1000}, {"cold", true}: {Bytes: 500}}
		set(limits)
		for i, row := range []struct {
			charges []Charge
			want    time.Duration
		}{
			{[]Charge{read, write}, 0},
			{[]Charge{{Endpoint: "warm", Write: true, Bytes: 1}, {Endpoint: "cold", Bytes: 1}}, 0}, // other directions
			{[]Charge{read}, 3 * time.Second},
			{[]Charge{read, write}, 3 * time.Second}, // both side by side, not one after the other
			{[]Charge{write, write}, 12 * time.Second},
		} {
			if d := wait(row.charges...); d != row.want {
				t.Errorf("charges %d waited %v, want %v", i, d, row.want)
			}
		}
		set(limits) // the same again forgets nothing
		got := make(chan time.Duration)
		go func() { got <- wait(write) }()
		time.Sleep(time.Second)
		delete(limits, Direction{"cold", true})
		set(limits)
		if d := <-got; d != time.Second {
			t.Errorf("who waited when the limit went waited %v", d)
		}
		many := map[Direction]Rate{}
		for i := range maxBuckets + 1 {
			many[Direction{Endpoint: fmt.Sprint(i)}] = Rate{Bytes: 1}
		}
		if err := b.Set(many); !errors.Is(err, mover.ErrRefused) {
			t.Errorf("too many: %v", err)
		}
	})
}

// Many that charge the same buckets in different order all pass, and a slow bucket does
// not hold back those who do not need it.
func TestBucketsDoNotLockUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Buckets
		must.Do(t, b.Set(map[Direction]Rate{{"a", false}: {Bytes: 100}, {"b", true}: {Bytes: 10_000, Ops: 1000}}))
		slow, fast := Charge{Endpoint: "a", Bytes: 10}, Charge{Endpoint: "b", Write: true, Bytes: 10, Ops: 1}
		began := time.Now()
		var took [3]time.Duration
		var mu sync.Mutex // guards took
		var wg sync.WaitGroup
		for i := range 300 {
			charges := [][]Charge{{slow, fast}, {fast, slow}, {fast}}[i%3]
			wg.Go(func() {
				if _, err := b.Wait(t.Context(), charges); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				took[i%3] = time.Since(began)
			})
		}
		wg.Wait()
		if longest := max(took[0], took[1]); longest < 19*time.Second || longest > 20*time.Second {
			t.Errorf("200 pieces through the slow bucket took %v", longest)
		}
		if took[2] > time.Second {
			t.Errorf("those who need only the fast bucket took %v", took[2])
		}
	})
}

func BenchmarkBuckets(b *testing.B) {
	var buckets Buckets
	rate := Rate{Bytes: 1 << 60, Ops: 1 << 60}
	must.Do(b, buckets.Set(map[Direction]Rate{{"a", false}: rate, {"b", true}: rate}))
	charges := []Charge{{"a", false, 1, 1}, {"b", true, 1, 1}}
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := buckets.Wait(b.Context(), charges); err != nil {
				b.Error(err)
				return
			}
		}
	})
}
