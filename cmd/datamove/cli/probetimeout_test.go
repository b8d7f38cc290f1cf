package cli

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"datamove.dev/mover"
)

// TestAnswered: an answer counts when it comes in time, and nothing is waited for longer.
func TestAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ask := func(ctx context.Context, takes time.Duration, hears bool) (int, time.Duration, error) {
			begun := time.Now()
			n, err := Probe(ctx, ProbeTime, "/lustre", func(ctx context.Context) (int, error) {
				if !hears {
					time.Sleep(takes)
					return 42, nil
				}
				select {
				case <-ctx.Done():
					return 0, ctx.Err()
				case <-time.After(takes):
					return 42, nil
				}
			})
			return n, time.Since(begun), err
		}
		for _, hears := range []bool{false, true} {
			if n, took, err := ask(t.Context(), 9*time.Second, hears); n != 42 || err != nil || took != 9*time.Second {
				t.Errorf("in time: %d, %v after %v", n, err, took)
			}
			n, took, err := ask(t.Context(), time.Hour, hears)
			if n != 0 || !errors.Is(err, mover.ErrTimeout) || took != ProbeTime || err.Error() != "/lustre: no answer in 10 s" {
				t.Errorf("never: %d, %v after %v", n, err, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, took, err := ask(ctx, time.Hour, hears); !errors.Is(err, context.DeadlineExceeded) || took != time.Second {
				t.Errorf("who asks has less time: %v after %v", err, took)
			}
			cancel()
			ctx, cancel = context.WithCancel(t.Context())
			time.AfterFunc(time.Second, cancel)
			if _, took, err := ask(ctx, time.Hour, hears); !errors.Is(err, context.Canceled) || took != time.Second {
				t.Errorf("^C: %v after %v", err, took)
			}
		}
		time.Sleep(2 * time.Hour) // what was left behind ends, and troubles nobody
	})
	// A limit of a question's own is no silence.
	_, err := Probe(t.Context(), time.Hour, "", func(context.Context) (int, error) { return 0, context.DeadlineExceeded })
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, mover.ErrTimeout) {
		t.Error(err)
	}
}
