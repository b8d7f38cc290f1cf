package transfer

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/test/seed"
)

// Every unit and every part is taken once and everybody goes home, however the
// width changes: synctest would find a sleeper whom nobody wakes.
func TestQueueHandsOutEverything(t *testing.T) {
	first := seed.Of(t)
	for nth := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			const workers, units, parts = 9, 200, 7
			rng := rand.New(rand.NewPCG(first+nth, 0))
			var width, busy atomic.Int64
			width.Store(1)
			q := newQueue(4, func(bool) int { return int(width.Load()) })
			var mu sync.Mutex
			batches, moved, most := 0, 0, int64(0)
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for u, ok := q.next(); ok; u, ok = q.next() {
						n := busy.Add(1)
						mu.Lock()
						most = max(most, n)
						pause := time.Duration(rng.IntN(3)) * time.Millisecond
						if rng.IntN(10) == 0 {
							width.Store(1 + int64(rng.IntN(6)))
						}
						switch {
						case u.large == nil:
							batches++
						case u.part >= 0:
							moved++
						}
						mu.Unlock()
						time.Sleep(pause)
						if u.large != nil && u.part < 0 {
							u.large.entry.Size = parts
							u.large.cut(1)
							q.offer(u.large)
						}
						busy.Add(-1)
						q.done()
					}
				})
			}
			for i := range units {
				u := unit{part: -1}
				if i%10 == 0 {
					u.large = &large{}
				}
				if !q.put(u) {
					t.Fatal("stopped")
				}
			}
			q.close()
			wg.Wait()
			if batches != units*9/10 || moved != units/10*parts || most > 6 {
				t.Errorf("case %d: %d batches and %d parts were taken, by up to %d workers at a time", nth, batches, moved, most)
			}
		})
	}
}

func TestStopWakesEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(1, func(bool) int { return 1 })
		q.put(unit{part: -1})
		q.next()
		q.put(unit{part: -1})
		var wg sync.WaitGroup
		wg.Go(func() {
			if q.put(unit{part: -1}) {
				t.Error("there was room")
			}
		})
		wg.Go(func() {
			if _, ok := q.next(); ok {
				t.Error("two are busy")
			}
		})
		synctest.Wait()
		why := errors.New("enough")
		q.stop(why)
		q.stop(errors.New("another"))
		wg.Wait()
		if q.why() != why {
			t.Error(q.why())
		}
	})
}

// TestNothingAheadOfOthers: workers take more units than can be in work as long as nobody
// else takes any.
func TestNothingAheadOfOthers(t *testing.T) {
	q := newQueue(8, func(alone bool) int {
		if alone {
			return 3
		}
		return 2
	})
	for range 8 {
		q.put(unit{part: -1})
	}
	q.next()
	q.next()
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.free() {
		t.Error("alone, a third one may not be taken")
	}
	q.given = 1
	if q.free() {
		t.Error("beside others, a third one may be taken")
	}
}
