package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

// TestResend: what the coordinator has no room for is sent again after longer and longer pauses, what did not reach it after a short one, and what it refuses never.
func TestResend(t *testing.T) {
	full, away, refused := fmt.Errorf("%w: 3 MB are missing", mover.ErrFull), mover.ErrUnreachable, mover.ErrUsage
	for _, row := range []struct {
		what   string
		errs   []error // of the sends, one after the other
		want   error
		pauses []time.Duration
		why    string // the task waits at the end
	}{
		{"it is taken", []error{nil}, nil, nil, ""},
		{"it is refused", []error{refused}, refused, nil, ""},
		{"it is away twice", []error{away, mover.ErrTransient, nil}, nil, []time.Duration{resendPause, resendPause}, ""},
		{"it is full for long", slices.Concat(slices.Repeat([]error{full}, 9), []error{nil}), nil,
			[]time.Duration{400e6, 800e6, 1600e6, 3200e6, 6400e6, 12800e6, 25600e6, resendPauseMost, resendPauseMost}, "the coordinator has no room for the catalog: " + full.Error()},
		{"it is full, and away after that", []error{full, full, away, refused}, refused, []time.Duration{400e6, 800e6, resendPause}, "the coordinator has no room for the catalog: " + full.Error()},
	} {
		synctest.Test(t, func(t *testing.T) {
			j := NewJob(&agentv1.Job{}, nil, Options{})
			var pauses []time.Duration
			last, sent := time.Now(), 0
			err := j.Resend(t.Context(), "catalog", func(context.Context) error {
				if sent > 0 {
					pauses = append(pauses, time.Since(last))
				}
				last = time.Now()
				sent++
				return row.errs[sent-1]
			})
			if !errors.Is(err, row.want) || sent != len(row.errs) || !slices.Equal(pauses, row.pauses) {
				t.Errorf("%s: %v after %d sends and %v", row.what, err, sent, pauses)
			}
			s, _ := j.state.status(time.Now())
			if s.GetWhy() != row.why || (row.why != "") != (s.GetPhase() == string(engine.Waiting)) {
				t.Errorf("%s: %s: %s", row.what, s.GetPhase(), s.GetWhy())
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		err := NewJob(&agentv1.Job{}, nil, Options{}).Resend(ctx, "catalog", func(context.Context) error { cancel(mover.ErrHeld); return full })
		if !errors.Is(err, mover.ErrHeld) {
			t.Errorf("a job that ends while it waits: %v", err)
		}
	})
}
