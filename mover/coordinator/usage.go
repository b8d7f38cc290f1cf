package coordinator

import (
	"context"
	"errors"
	"fmt"
	"time"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// usageServer counts what accounts hold and have used, and refuses what is above their quotas.
type usageServer struct {
	pb.UnimplementedUsageServiceServer
	*core
	c        *Service
	holdings holdings // of accounts
}

const (
	day         = 24 * time.Hour
	usageUsual  = 30     // days
	usageDays   = 400    // days at most
	usageAnswer = 50_000 // lines of one answer
)

// GetUsage implements pb.UsageServiceServer.
func (s *usageServer) GetUsage(ctx context.Context, r *pb.GetUsageRequest) (*pb.GetUsageResponse, error) {
	c := authz.From(ctx)
	today := s.now().UTC().Truncate(day)
	since := today.Add(-(usageUsual - 1) * day)
	if r.GetSince() != nil {
		if err := r.GetSince().CheckValid(); err != nil {
			return nil, mover.Usagef("since: %v", err)
		}
		since = r.GetSince().AsTime().Truncate(day)
	}
	if today.Sub(since) > usageDays*day {
		return nil, mover.Usagef("usage of more than %d days; ask for less at a time", usageDays)
	}
	read := authz.OfMethod(pb.UsageService_GetUsage_FullMethodName)
	out := &pb.GetUsageResponse{Quotas: s.quotasOf(c)}
	return out, s.ledger.View(func(tx *state.Tx) error {
		for at := since; !at.After(today); at = at.Add(day) {
			prefix := []string{state.Day(at)}
			if r.GetProject() != "" {
				prefix = append(prefix, r.GetProject())
			}
			for u, err := range state.Usage.All(tx, state.Range{Prefix: prefix}) {
				if err != nil || ctx.Err() != nil {
					return errors.Join(err, ctx.Err())
				}
				if !s.rules().MayOn(c, read, authz.OwnerOf(u.GetOwner(), u.GetProject())).Allowed {
					continue
				}
				if out.Usage = append(out.Usage, u); len(out.Usage) > usageAnswer {
					return fmt.Errorf("%w: more than %d lines of usage; ask for one project, or for fewer days", mover.ErrRefused, usageAnswer)
				}
			}
		}
		return nil
	})
}
