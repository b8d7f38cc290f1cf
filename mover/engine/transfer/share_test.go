package transfer

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
	"datamove.dev/test/seed"
)

// When others take units too, everything is still taken once and everybody goes home; and
// once all units are known, a lead with many workers leaves the others their share.
func TestQueueShares(t *testing.T) {
	first := seed.Of(t)
	for nth := range uint64(50) {
		synctest.Test(t, func(t *testing.T) {
			const workers, units = 64, 64
			rng := rand.New(rand.NewPCG(first+nth, 0))
			others := 1 + rng.IntN(7)
			q := newQueue(2*workers, func(bool) int { return workers })
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
			wg.Go(func() {
				for { // always waiting for the next one: else nobody else takes any, for a moment
					if _, ok := q.nextAway(others); !ok {
						return
					}
					wg.Go(func() {
						time.Sleep(10 * time.Millisecond)
						mu.Lock()
						away++
						mu.Unlock()
						q.back()
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
				t.Errorf("case %d: %d and %d of %d units were taken", nth, own, away, units)
			}
			if share := max(units/2/(others+1), fewAtLeast); most > share {
				t.Errorf("case %d: of %d units the lead had %d at a time, beside %d others", nth, units, most, others)
			}
		})
	}
}

// As long as units come, too, a lead has no more of them at a time than each of the others.
func TestQueueIsEven(t *testing.T) {
	const workers, others = 64, 3
	q := newQueue(2*workers, func(bool) int { return workers })
	for range 2 * workers {
		q.put(unit{part: -1})
	}
	for each, row := range []struct{ given, most int }{{0, fewAtLeast}, {others * fewAtLeast, fewAtLeast}, {others * 10, 10}} {
		for q.given < row.given {
			if _, ok := q.nextAway(others); !ok {
				t.Fatal("there is no unit to give")
			}
		}
		q.others, q.takers = others, 1 // who would take one more
		for q.free() {
			if _, ok := q.next(); !ok {
				t.Fatal("there is no unit to take")
			}
		}
		if q.busy != row.most {
			t.Errorf("row %d: the lead has %d, and each of the others %d", each, q.busy, row.given/others)
		}
	}
	q.takers, q.given = 0, 0
	if !q.free() {
		t.Error("nobody else takes any, and the lead waits")
	}
}

// One part of what comes from afar is small, and two are not.
func TestSmall(t *testing.T) {
	const mib = 1 << 20
	disk := mover.Capabilities{SmallBytes: mib, BatchBytes: 16 * mib, PartBytes: 8 * mib}
	store := mover.Capabilities{SmallBytes: mib, BatchBytes: 4 * mib, PartBytes: 16 * mib, Remote: true}
	for _, row := range []struct {
		name     string
		from, to mover.Capabilities
		want     int64
	}{
		{"between disks", disk, disk, mib},
		{"to a store", disk, store, mib},
		{"between stores", store, store, mib},
		{"from a store", store, disk, 16 * mib},
	} {
		if got := small(row.from, row.to); got != row.want {
			t.Errorf("%s: %d MiB are small, and not %d", row.name, got/mib, row.want/mib)
		}
	}
}
