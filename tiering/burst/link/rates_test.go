package link

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/fairshare"
	"datamove.dev/test/must"
)

// TestRates: the least of all rates that hold at a time is that of the way, also of one that has begun before.
//
//safety:aws with mover/coordinator TestLimitsOfBursts
func TestRates(t *testing.T) {
	windows := func(rate int64, when ...string) *fairshare.Windows {
		w := must.Get(fairshare.NewHeld("UTC", fairshare.Rate{Bytes: rate}, when...))(t)
		return w
	}
	r := &Rates{Own: 1000, Windows: []*fairshare.Windows{windows(100, "Mon-Fri 08:00-18:00"), windows(400, "Sat"), windows(800), windows(0, "Sun")}}
	monday := time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC)
	for at, want := range map[time.Duration]int64{7 * time.Hour: 800, 8 * time.Hour: 100, 18*time.Hour - 1: 100, 18 * time.Hour: 800, 5*24*time.Hour + 9*time.Hour: 400, 6 * 24 * time.Hour: 800} {
		if got := r.At(monday.Add(at)); got != want {
			t.Errorf("%v after monday began: %d, want %d", at, got, want)
		}
	}
	if got := (&Rates{}).At(monday); got != 0 || (&Rates{}).Bandwidth(t.Context()) != nil {
		t.Errorf("of nothing: %d", got)
	}
	if got := (&Rates{Windows: r.Windows[:1]}).At(monday); got != 0 {
		t.Errorf("at night: %d", got)
	}

	synctest.Test(t, func(t *testing.T) { // the clock begins on a Saturday, at midnight UTC
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		b := (&Rates{Windows: []*fairshare.Windows{windows(1<<20, "Sat 00:01-24:00")}}).Bandwidth(ctx)
		took := func(bytes int64) time.Duration {
			begun := time.Now()
			if _, err := b.Wait(ctx, bytes); err != nil {
				t.Error(err)
			}
			return time.Since(begun)
		}
		if d := took(1 << 30); d > time.Second {
			t.Errorf("before its window: a GiB in %v", d)
		}
		time.Sleep(2 * time.Minute)
		if d := took(60 << 20); d < 50*time.Second || d > 70*time.Second {
			t.Errorf("60 MiB at 1 MiB/s in %v", d)
		}
		time.Sleep(24 * time.Hour)
		if d := took(1 << 30); d > time.Second {
			t.Errorf("after its window: a GiB in %v", d)
		}
	})
}
