package worker

import (
	"log/slog"
	"testing"
	"time"

	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
)

// counters are those of a task. It is a engine.Live.
type counters struct{ now engine.Snapshot }

func (c *counters) Snapshot() engine.Snapshot { return c.now }

// TestStatusReadsRates: a worker tells how fast its task goes and what is left, of what has
// passed in this run, and tells it again when nothing moves any more.
func TestStatusReadsRates(t *testing.T) {
	c := &counters{engine.Snapshot{Planned: plan.Totals{Files: 1, Bytes: 100 << 20}, PlanComplete: true, BytesDone: 20 << 20, Known: 20 << 20}}
	s := newState(slog.New(slog.DiscardHandler), &counts{}, nil)
	s.progress(c)
	now := time.Unix(1e9, 0)
	if st, changed := s.status(now); !changed || st.GetProgress().GetBytesPerSecond() != 0 || st.GetProgress().GetRemaining() != nil {
		t.Errorf("at first: %v", st)
	}
	for range 10 {
		now = now.Add(time.Second)
		c.now.BytesDone += 1 << 20
		st, _ := s.status(now)
		left := time.Duration(100<<20-c.now.BytesDone) / (1 << 20) * time.Second
		if p := st.GetProgress(); int64(p.GetBytesPerSecond()+0.5) != 1<<20 || p.GetRemaining().AsDuration().Round(time.Second) != left {
			t.Errorf("%v left of %v", p, left)
		}
	}
	told := 0
	for ; told < 600; told++ { // nothing moves
		now = now.Add(time.Second)
		st, changed := s.status(now)
		if !changed {
			break
		}
		c.now.InFlight = 0
		if told > 60 {
			t.Fatalf("after a minute: %v", st)
		}
	}
	if told < 10 {
		t.Errorf("told %d times", told)
	}
}
