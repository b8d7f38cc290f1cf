package throttle

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	_ "datamove.dev/test/seed/property" // of rapid
)

// However often the rate is another one, in no time more passes than the rates give in it,
// a step and what was read before it was paid for; and nobody waits for longer than that.
func TestBandwidthHoldsWhileItChanges(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type spell struct {
			rate int64
			long time.Duration
		}
		spells := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) spell {
			return spell{rapid.Int64Range(1, 1<<32).Draw(t, "rate"), time.Duration(rapid.Int64Range(1, int64(10*time.Second)).Draw(t, "long"))}
		}), 1, 10).Draw(rt, "spells")
		workers := rapid.IntRange(1, 5).Draw(rt, "workers")
		synctest.Test(t, func(t *testing.T) {
			b := NewBandwidth(spells[0].rate)
			stop := make(chan struct{})
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if _, err := b.Wait(t.Context(), b.step()); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			given := 0.0
			for _, s := range spells {
				b.SetRate(s.rate)
				time.Sleep(s.long)
				given += float64(s.rate) * s.long.Seconds()
				b.mu.Lock()
				b.settle()
				paid, asked, step := b.paid, b.asked, b.stepNow()
				b.mu.Unlock()
				if most := given + stepMost; paid > most {
					rt.Errorf("%.0f bytes are paid for of %.0f that the rates gave", paid, given)
				}
				if most := given + float64(workers+1)*stepMost; float64(asked) > most {
					rt.Errorf("%d bytes have passed of %.0f that the rates gave", asked, given)
				}
				if idle := given - float64(asked); idle > float64(step)+1 {
					rt.Errorf("%d bytes have passed of %.0f that the rates gave, and %d workers wait", asked, given, workers)
				}
			}
			close(stop)
			b.SetRate(1 << 40) // wakes who waits
			wg.Wait()
		})
	})
}

func TestNoBandwidthIsUnlimited(t *testing.T) {
	b := NewBandwidth(0)
	b.SetRate(7)
	if b != nil || b.Passed() != 0 || b.Waited() != 0 {
		t.Errorf("it is %+v", b)
	}
}
