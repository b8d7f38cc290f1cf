package checkpoint

import (
	"testing"
	"time"

	"datamove.dev/tiering/checkpoint"
)

// TestSettleOf: a time that is given is not the usual one.
func TestSettleOf(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{0: -1, time.Millisecond: time.Millisecond, checkpoint.Quiet: checkpoint.Quiet} {
		if got := settleOf(given); got != want {
			t.Errorf("%v: %v, want %v", given, got, want)
		}
	}
}
