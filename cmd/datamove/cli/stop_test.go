package cli

import (
	"testing"
	"time"
)

// TestDecideStop: the first signal ends a command; a process lives on until a service has heard that its task is to end.
func TestDecideStop(t *testing.T) {
	for _, row := range []struct {
		n                 int
		since             time.Duration
		interrupt, asking bool
		want              stopping
	}{
		{1, 0, true, false, stops1st},
		{1, 0, false, true, stops1st},
		{2, 0, true, false, stopsAtOnce},
		{2, 0, true, true, stopsWait},
		{2, 0, false, false, stopsWait}, // of timeout(1), which tells the process and its group
		{2, twice, false, false, stopsAtOnce},
		{2, time.Hour, false, true, stopsWait},
		{3, 0, false, false, stopsWait},
		{3, twice, false, false, stopsAtOnce},
		{3, 0, true, true, stopsWait},
	} {
		if got := decideStop(row.n, row.since, row.interrupt, row.asking); got != row.want {
			t.Errorf("signal %d, %v: %v, want %v", row.n, row, got, row.want)
		}
	}
}
