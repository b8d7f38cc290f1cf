package worker

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/test/must"
)

// TestPace: so many operations in a second, over any time, whoever asks for how many at once; and none is waited for that nobody wants any more.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, begun, n := newPace(1000), time.Now(), int64(0)
		for time.Since(begun) < 10*time.Second {
			must.Do(t, p.wait(t.Context(), 1+n%7))
			n += 1 + n%7
		}
		if n < 10_000 || n > 10_200 {
			t.Errorf("%d operations in 10 s", n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_ = p.wait(t.Context(), 5000)
		if err := p.wait(ctx, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		begun = time.Now()
		for range 1000 {
			_ = newPace(0).wait(t.Context(), 1000)
		}
		if time.Since(begun) > 0 {
			t.Error("without a rate it waits")
		}
	})
}
