package coordinator

import (
	"context"
	"time"

	"datamove.dev/mover/coordinator/idempotency"
)

// How often what is looked after.
const (
	tendingEvery = time.Second
	pruneEvery   = time.Hour
)

// tend does chores until ctx ends.
func (s *Service) tend(ctx context.Context) {
	tick := time.NewTicker(tendingEvery)
	defer tick.Stop()
	chores := s.chores()
	for {
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
func (s *Service) chores() []*chore {
	return append([]*chore{
		{every: rateEvery, what: "remember rates", do: s.metrics.rememberRate},
		{every: pruneEvery, what: "forget tasks that ended long ago", do: s.admin.forgetTasks},
		{every: pruneEvery, what: "forget keys of requests that are over", do: func(ctx context.Context) error { return idempotency.Forget(ctx, s.ledger, s.now) }},
		{every: pruneEvery, what: "let go of nodes that were forgotten", do: s.enroll.EndForgotten},
	}, s.added...)
}

// chore is something that is done now and then.
type chore struct {
	every time.Duration
	what  string
	do    func(context.Context) error
	last  time.Time
}
