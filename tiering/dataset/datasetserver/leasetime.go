package datasetserver

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/coordinator/clock"
	"datamove.dev/mover/coordinator/state"
)

// moment is the time of one change, which is stored with it.
func (s *records) moment(tx *state.Tx) (time.Time, error) {
	now := s.clock.Now()
	return now, state.SetLastTime(tx, now)
}

// watchClock says so when the clock of the machine jumps. said is what was told last.
func (s *Server) watchClock(said time.Duration) time.Duration {
	ahead := s.clock.Ahead()
	if (ahead - said).Abs() < clock.JumpLeast {
		return said
	}
	if ahead == 0 {
		s.log.Info("the clock of this machine is where it should be again")
		return ahead
	}
	ending := 0
	_ = s.ledger.View(func(tx *state.Tx) error { // a number for people
		due, err := endingBefore(tx, s.clock.Now().Add(ahead))
		ending = len(due)
		return err
	})
	s.log.Warn("the clock of this machine has jumped; leases and pins go by the time that passes until the service begins anew",
		"ahead", ahead, "leases that would have ended", ending)
	return ahead
}

// GraceMost is the most that a lease lasts from a start on because it could not be renewed before.
const GraceMost = 15 * time.Minute

const (
	graceSteps = 500     // leases in one change
	endingMost = 100_000 // that are looked at at a time
)

// endingBefore returns leases that end, or have ended, before a time, the first ones first.
func endingBefore(tx *state.Tx, end time.Time) (due []*pb.Lease, err error) {
	first := state.LeasesByExpiry.Token(&pb.Lease{ExpireTime: &timestamppb.Timestamp{Nanos: 1}}) // behind those that end with their task
	for l, err := range state.LeasesByExpiry.All(tx, state.Range{After: first}) {
		if err != nil || !l.GetExpireTime().AsTime().Before(end) || len(due) == endingMost {
			return due, err
		}
		due = append(due, l)
	}
	return due, nil
}

// resume begins the time of this run. Leases that lasted when the last one ended, and
// would be over now or soon, last a little longer: their holders could not renew them.
func (s *Server) resume(ctx context.Context) error {
	var stored time.Time
	var due []*pb.Lease
	wall := s.clock.Wall().Round(0)
	err := s.ledger.View(func(tx *state.Tx) (err error) {
		if stored, err = state.LastTime(tx); err == nil {
			due, err = endingBefore(tx, wall.Add(GraceMost))
		}
		return err
	})
	if err != nil {
		return err
	}
	given := 0
	for len(due) > 0 {
		some := due[:min(len(due), graceSteps)]
		due = due[len(some):]
		n, err := s.grace(ctx, some, stored, wall)
		if err != nil {
			return err
		}
		given += n
	}
	if given > 0 {
		s.log.Warn("leases could not be renewed while the service was away; they are given time for it", "leases", given, "away", wall.Sub(stored), "at most", GraceMost)
	}
	return nil
}

// grace gives leases what was left of them at a time, from now on.
func (s *Server) grace(ctx context.Context, leases []*pb.Lease, then, now time.Time) (given int, err error) {
	err = s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		for _, l := range leases {
			end := now.Add(min(l.GetExpireTime().AsTime().Sub(then), GraceMost))
			if !l.GetExpireTime().AsTime().After(then) || !end.After(l.GetExpireTime().AsTime()) {
				continue
			}
			l.ExpireTime = timestamppb.New(end)
			if err := s.records.putLease(tx, l); err != nil {
				return err
			}
			given++
		}
		return nil
	})
	return given, err
}
