package datasetserver

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/dataset"
)

// ListLeases implements pb.DatasetServiceServer.
func (s *Server) ListLeases(ctx context.Context, r *pb.ListLeasesRequest) (*pb.ListLeasesResponse, error) {
	now := s.clock.Now()
	wanted := func(l *pb.Lease) bool {
		return !dataset.Expired(l, now) && (r.GetTier() == "" || l.GetTier() == r.GetTier()) &&
			(r.GetNode() == "" || l.GetNode() == r.GetNode()) && (r.GetHolder() == "" || l.GetHolder() == r.GetHolder()) &&
			state.HasLabels(l.GetLabels(), r.GetLabels())
	}
	out := &pb.ListLeasesResponse{}
	return out, s.ledger.View(func(tx *state.Tx) (err error) {
		of, token := state.Range{After: r.GetPageToken()}, state.Leases.Token
		rows := state.Leases.All(tx, of)
		if r.GetDataset() != "" {
			of.Prefix, token = []string{r.GetDataset()}, state.LeasesByReplica.Token
			rows = state.LeasesByReplica.All(tx, of)
		}
		out.Leases, out.NextPageToken, err = state.Page(ctx, rows, wanted, state.PageSize(r.GetPageSize()), token)
		return err
	})
}

const endSteps = 500 // leases that end in one change

// EndLeases ends all expired leases.
func (s *Server) EndLeases(ctx context.Context) error {
	for {
		var due []*pb.Lease
		err := s.ledger.View(func(tx *state.Tx) (err error) {
			due, err = endingBefore(tx, s.clock.Now().Add(time.Nanosecond))
			return err
		})
		if err != nil || len(due) == 0 {
			return err
		}
		if err := s.endSome(ctx); err != nil {
			return err
		}
	}
}

// endSome ends at most endSteps expired leases. It reads them in the change itself, so
// a lease that was renewed meanwhile stays.
func (s *Server) endSome(ctx context.Context) error {
	return s.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		now, err := s.records.moment(tx)
		if err != nil {
			return err
		}
		due, err := endingBefore(tx, now.Add(time.Nanosecond))
		if err != nil {
			return err
		}
		due = due[:min(len(due), endSteps)]
		for _, l := range due {
			if err := s.records.endLease(tx, l, l.GetExpireTime().AsTime()); err != nil {
				return err
			}
		}
		s.log.Info("leases have ended", "leases", len(due))
		return nil
	})
}

// OrphanLeases ends leases of tasks that are over, which a crash may have left.
func (s *Server) OrphanLeases(ctx context.Context) error {
	return s.ledger.Update(ctx, state.Soon, func(tx *state.Tx) error {
		held, err := state.Collect(state.LeasesByExpiry.All(tx, state.Range{Prefix: []string{state.Time(nil)}}))
		if err != nil {
			return err
		}
		over := slices.DeleteFunc(held, func(l *pb.Lease) bool {
			id, ours := strings.CutPrefix(l.GetHolder(), state.TaskHolder)
			return !ours || live(tx, id)
		})
		for _, l := range over[:min(len(over), endSteps)] {
			if err := s.records.endLease(tx, l, s.clock.Now()); err != nil {
				return err
			}
		}
		return nil
	})
}

// live says whether a task is there that has not ended. In doubt it is.
func live(tx *state.Tx, id string) bool {
	if id == "" {
		return false
	}
	t, err := state.Tasks.Get(tx, id)
	return err == nil && !task.Ended(t.GetState()) || err != nil && !errors.Is(err, mover.ErrNotExist)
}
