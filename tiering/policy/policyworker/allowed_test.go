package policyworker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover/backend/throttle"
	"datamove.dev/test/must"
)

// TestAllowed: so many operations in a second, over any time, however many are asked for at once; a wait ends with its context, also where there is no rate.
func TestAllowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begun, n := &runPart{ops: throttle.NewBandwidth(1000)}, time.Now(), int64(0)
		for time.Since(begun) < 10*time.Second {
			must.Do(t, p.allowed(t.Context(), 1+n%7))
			n += 1 + n%7
		}
		if n < 10_000 || n > 10_200 {
			t.Errorf("%d operations in 10 s", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		begun = time.Now()
		if err := p.allowed(ctx, 5000); !errors.Is(err, context.Canceled) || time.Since(begun) > 0 {
			t.Errorf("%v after %v", err, time.Since(begun))
		}
		begun = time.Now()
		free := &runPart{ops: throttle.NewBandwidth(0)}
		for range 1000 {
			must.Do(t, free.allowed(t.Context(), 1000))
		}
		if time.Since(begun) > 0 {
			t.Error("without a rate it waits")
		}
		if err := free.allowed(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("without a rate: %v", err)
		}
	})
}
