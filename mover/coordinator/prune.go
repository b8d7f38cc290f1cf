package coordinator

import (
	"context"
	"time"
)

// Tasks that have ended stay readable: so long, and so many.
const (
	endedKept = 90 * 24 * time.Hour
	endedMost = 1_000_000
)

// forgetTasks forgets tasks that ended long ago, with what is theirs alone. What they have
// moved stays counted.
func (s *adminServer) forgetTasks(ctx context.Context) error {
	gone, err := s.ledger.Prune(ctx, s.clock.Now().Add(-endedKept), endedMost)
	if gone > 0 {
		s.log.Info("tasks that ended long ago are forgotten", "tasks", gone)
	}
	return err
}
