package patience

import (
	"os"
	"slices"
	"testing"
	"time"
)

// TestCount: what counts is that nothing moves on a machine that has time to give.
func TestCount(t *testing.T) {
	const s = time.Second
	begin := time.Now()
	for name, row := range map[string]struct {
		samples []sample // after a begin of zeros
		still   time.Duration
	}{
		"nothing moves":          {[]sample{{at: begin.Add(s)}, {at: begin.Add(3 * s)}}, 3 * s},
		"services that wait":     {[]sample{{at: begin.Add(s), ran: s / 20}}, s},
		"it runs":                {[]sample{{at: begin.Add(s)}, {at: begin.Add(2 * s), ran: s / 2}}, s},
		"it queues":              {[]sample{{at: begin.Add(s), queued: s * 3 / 4}}, s / 4},
		"many threads queue":     {[]sample{{at: begin.Add(s), queued: 8 * s}}, 0},
		"there is progress":      {[]sample{{at: begin.Add(9 * s)}, {at: begin.Add(10 * s), progress: "1"}, {at: begin.Add(11 * s), progress: "1"}}, s},
		"a process that was old": {[]sample{{at: begin.Add(s), ran: 5 * s, queued: 5 * s}, {at: begin.Add(2 * s)}}, s},
	} {
		p := &Patience{last: sample{at: begin}}
		for _, next := range row.samples {
			p.count(next)
		}
		if p.still != row.still {
			t.Errorf("%s: %v, want %v", name, p.still, row.still)
		}
	}
}

// TestUsage: this process is found below its parent, and what it does is seen.
func TestUsage(t *testing.T) {
	if !slices.Contains(below(os.Getppid()), os.Getpid()) {
		t.Error("this process is not below its parent")
	}
	before, _ := usage(os.Getpid())
	for after := before; after < before+10*time.Millisecond; { // go test's limit ends it
		after, _ = usage(os.Getpid())
	}
}
