package queue

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"

	"datamove.dev/test/must"
	"datamove.dev/test/seed"
)

// Many take from a few flows at once, while more is offered and given back. Everything
// is done, and no id has two takers at a time.
func TestCrowd(t *testing.T) {
	const takers, ids = 8, 600
	l := newLedger("")
	for _, f := range []string{"a", "b", "c"} {
		l.add(f, numbers(ids/2)...)
	}
	q := New(Options{Window: 32, Flows: 3, Refill: l.refill})
	var mu sync.Mutex
	done, held := map[string]int{}, map[string]bool{}
	work := func(n int) error {
		ctx := context.Background()
		for {
			f := string("abc"[n%3])
			n++
			c, ok, err := q.Take(ctx, f)
			if err != nil {
				return err
			}
			if !ok {
				mu.Lock()
				all := len(done) == 3*ids
				mu.Unlock()
				if all {
					return nil
				}
				runtime.Gosched()
				continue
			}
			mu.Lock()
			if held[f+c.ID()] {
				t.Errorf("%s is in two hands", f+c.ID())
			}
			held[f+c.ID()] = true
			mu.Unlock()
			found := n%7 != 0 && l.done(f, c.ID())
			mu.Lock()
			delete(held, f+c.ID())
			if found {
				done[f+c.ID()]++
			}
			mu.Unlock()
			if n%7 == 0 {
				err = c.Back(0)
			} else {
				err = c.Done()
			}
			if err != nil {
				return err
			}
		}
	}
	var all sync.WaitGroup
	for n := range takers {
		all.Go(func() {
			must.Tell(t, work(n))
		})
	}
	for _, id := range numbers(ids)[ids/2:] {
		for _, f := range []string{"a", "b", "c"} {
			l.add(f, id)
			must.Tell(t, q.Offer(t.Context(), f, id))
		}
	}
	all.Wait()
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", id, n)
		}
	}
}

// source is a ledger with any number of ids.
func source(n int) func(context.Context, string, string, int) ([]string, error) {
	return func(_ context.Context, _, after string, most int) (ids []string, err error) {
		first := 0
		if after != "" {
			if _, err := fmt.Sscanf(after, "%d", &first); err != nil {
				return nil, err
			}
			first++
		}
		for i := first; i < min(first+most, n); i++ {
			ids = append(ids, fmt.Sprintf("%07d", i))
		}
		return ids, nil
	}
}

// A million ids wait in the ledger, and a window of them here.
//
//safety:8 with mover/coordinator/state TestMemory
func TestMillion(t *testing.T) {
	const million, most = 1_000_000, 8 << 20
	takes := 100_000
	if seed.Soak() {
		takes = million
	}
	before := inUse()
	b := bench{t, New(Options{Refill: source(million)})}
	for n := range takes {
		b.check(b.take("f", fmt.Sprintf("%07d", n)).Done())
	}
	if n := b.waiting("f"); n > 1024 {
		t.Errorf("%d wait", n)
	}
	if after := inUse(); after > before+most {
		t.Errorf("%d MiB more", (after-before)>>20)
	}
	runtime.KeepAlive(b.Queue)
}

// inUse returns what is in use when nothing is garbage.
func inUse() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func BenchmarkTakeDone(b *testing.B) {
	q := New(Options{Refill: source(1 << 30)})
	for b.Loop() {
		c, _, err := q.Take(b.Context(), "f")
		must.Do(b, err)
		must.Do(b, c.Done())
	}
}
