package worker

import (
	"log/slog"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/rate"
	"datamove.dev/mover/task/convert"
)

// state is what the agent is told of a job. It is a engine.Observer.
type state struct {
	log    *slog.Logger
	urgent chan struct{} // something that should be told at once
	counts *counts
	limit  *throttle.Bandwidth

	mu    sync.Mutex
	live  engine.Live // nil until there is something to see; guarded by mu, as all below
	phase engine.Phase
	why   string
	first time.Time // when the first byte was seen to have passed
	told  engine.Snapshot
	meter rate.Meter
	dirty bool
}

func newState(log *slog.Logger, c *counts, b *throttle.Bandwidth) *state {
	return &state{log: log, urgent: make(chan struct{}, 1), counts: c, limit: b, dirty: true}
}

// Item implements engine.Observer. Failures come with the report.
func (s *state) Item(it engine.Item) { s.counts.item(&it) }

// State implements engine.Observer.
func (s *state) State(phase engine.Phase, why string) {
	if phase == engine.Paused {
		s.counts.paused()
	}
	s.mu.Lock()
	news := phase == engine.Waiting && why != s.why
	s.phase, s.why, s.dirty = phase, why, true
	s.mu.Unlock()
	s.hurry()
	if news {
		s.log.Warn("the job waits", "why", why)
	}
}

func (s *state) hurry() {
	select {
	case s.urgent <- struct{}{}:
	default:
	}
}

// progress is told where the counters are.
func (s *state) progress(l engine.Live) {
	s.mu.Lock()
	s.live, s.dirty = l, true
	s.mu.Unlock()
	s.hurry()
}

// passed is told that bytes are about to pass: a unit has its turn.
func (s *state) passed(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first.IsZero() {
		s.first, s.dirty = now, true
		s.hurry()
	}
}

// firstPassed is when the first byte has passed; the zero time if none has.
func (s *state) firstPassed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.first
}

// status is the state on the wire, and whether it has changed since it was asked last.
func (s *state) status(now time.Time) (*agentv1.WorkerStatus, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var snap engine.Snapshot
	if s.live != nil {
		snap = s.live.Snapshot()
	}
	same := snap
	same.SlowestSince = s.told.SlowestSince // grows by itself
	moved := !s.meter.Still()
	if s.live != nil {
		s.measure(now, &snap)
	}
	if same == s.told && !s.dirty && snap.InFlight == 0 && !moved {
		return nil, false
	}
	s.told, s.dirty = same, false
	return &agentv1.WorkerStatus{
		Progress: convert.Progress(snap, now), Phase: string(s.phase), Why: s.why, FirstByteTime: firstByte(s.first), Counts: s.counts.wire(),
		LimitedBytes: s.limit.Passed(),
	}, true
}

// measure has the meter read how fast it goes. state.mu is held.
func (s *state) measure(now time.Time, snap *engine.Snapshot) {
	s.meter.Add(now, snap.Work())
	reading := s.meter.Read()
	snap.Rates = &reading
}
