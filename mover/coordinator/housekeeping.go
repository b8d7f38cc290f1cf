package coordinator

import (
	"context"
	"sync"
	"time"
)

// kept is what is remembered for datasets beside the ledger.
type kept struct {
	evictAfter time.Time // of tend alone: not again before

	freedMu sync.Mutex
	freedAt map[string]time.Time // when a replica has gone last, by tier and node; guarded by freedMu
	cameAt  map[string]time.Time // when a staging has ended last; guarded by freedMu
}

// prepare makes what is kept.
func (s *datasetServer) prepare(ctx context.Context) error {
	s.clock = &clock{wall: time.Now, steady: func() time.Duration { return time.Since(s.started) }}
	if s.o.wall != nil {
		s.now, s.clock.wall, s.clock.steady = s.o.wall, s.o.wall, s.o.steady
	}
	s.freedAt, s.cameAt = map[string]time.Time{}, map[string]time.Time{}
	if err := s.resume(ctx); err != nil {
		return err
	}
	return s.sweepTemporary()
}

// How often what is looked after.
const (
	tendEvery   = time.Second
	cacheEvery  = 5 * time.Second
	orphanEvery = 30 * time.Second
	followEvery = 5 * time.Second
	sweepEvery  = time.Hour
	retryPause  = 5 * time.Minute // after a removal that has failed
)

// tend looks after what is kept beside tasks, until ctx ends: leases and pins that end,
// tiers that are full, removals that failed, manifests without use.
func (s *datasetServer) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	said, chores := time.Duration(0), s.chores()
	for {
		said = s.watchClock(said)
		for _, c := range chores {
			if ctx.Err() != nil {
				return
			}
			if now := time.Now(); now.Sub(c.last) >= c.every {
				c.last = now
				if err := c.do(ctx); err != nil && ctx.Err() == nil {
					s.log.Warn("a chore failed; it is done again", "chore", c.what, "err", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// chores are what tend does, each with its time.
func (s *datasetServer) chores() []*chore {
	return append([]*chore{
		{every: tendEvery, what: "end leases", do: s.endLeases},
		{every: rateEvery, what: "remember rates", do: s.c.metrics.rememberRate},
		{every: cacheEvery, what: "keep caches", do: func(ctx context.Context) error { s.keepCaches(ctx); return nil }},
		{every: orphanEvery, what: "end leases of tasks that are over", do: s.orphanLeases},
		{every: orphanEvery, what: "end pins", do: s.endPins},
		{every: orphanEvery, what: "forget looks that are over", do: s.c.access.forgetLooks},
		{every: orphanEvery, what: "remove again what could not be removed", do: func(ctx context.Context) error {
			return s.retryRemovals(ctx, s.now().Add(-retryPause))
		}},
		{every: sweepEvery, what: "forget tasks that ended long ago", do: s.c.admin.forgetTasks},
		{every: sweepEvery, what: "forget keys of requests that are over", do: s.c.agents.endKeys},
		{every: sweepEvery, what: "let go of nodes that were forgotten", do: s.c.agents.endForgotten},
		{every: sweepEvery, what: "remove manifests that nobody needs", do: func(context.Context) error { return s.sweepManifests(s.now().Add(-manifestYoung)) }},
	}, s.c.added...)
}

// chore is something that is done now and then.
type chore struct {
	every time.Duration
	what  string
	do    func(context.Context) error
	last  time.Time
}
