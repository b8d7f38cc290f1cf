package transfer

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// When others take units too, everything is still taken once and everybody goes home; and
// once all units are known, a lead with many workers leaves the others their share.
func TestQueueShares(t *testing.T) {
	for seed := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			const workers, units = 64, 64
			rng := rand.New(rand.NewPCG(seed, 0))
			others := 1 + rng.IntN(7)
			q := newQueue(2*workers, func() int { return workers })
			var mu sync.Mutex
			own, away, busy, most := 0, 0, 0, 0
			fed := make(chan struct{})
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					<-fed
					for _, ok := q.next(); ok; _, ok = q.next() {
						mu.Lock()
						own++
						busy++
						most = max(most, busy)
						mu.Unlock()
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						busy--
						mu.Unlock()
						q.done()
					}
				})
			}
			slots := make(chan struct{}, 16*others)
			wg.Go(func() {
				for {
					slots <- struct{}{}
					if _, ok := q.nextAway(others); !ok {
						return
					}
					wg.Go(func() {
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						away++
						mu.Unlock()
						q.back()
						<-slots
					})
				}
			})
			wg.Go(func() {
				for range units {
					if !q.put(unit{part: -1}) {
						t.Error("stopped")
					}
				}
				q.close()
				synctest.Wait() // the taker has begun
				close(fed)
			})
			wg.Wait()
			if own+away != units {
				t.Errorf("seed %d: %d and %d of %d units were taken", seed, own, away, units)
			}
			if share := max(units/2/(others+1), fewAtLeast); most > share {
				t.Errorf("seed %d: of %d units the lead had %d at a time, beside %d others", seed, units, most, others)
			}
		})
	}
}
