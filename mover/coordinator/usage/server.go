// Package usage counts what accounts hold of the service and have used, and refuses what is above their quotas. What accounts hold is summed from the ledger at the
// start, and follows each change of it.
package usage

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// Agents is what agents know of what accounts use.
type Agents interface {
	// SlotsOf is the largest part of the slots of an agent that an account has, in percent.
	SlotsOf(account string) int64
	// JournalsOf is the most that an account has in the journals of an agent, and may have there.
	JournalsOf(account string, limit int64) (used, of int64)
}

// Options are what a Server is made of. All are needed.
type Options struct {
	Ledger *state.Ledger
	Config func() *config.Config
	Rules  func() *authz.Rules
	Agents Agents
	Now    func() time.Time
}

// New returns a server that knows what accounts hold.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{o: o}
	return s, s.countHoldings(ctx)
}

// Server counts what accounts hold and have used, and refuses what is above their quotas.
type Server struct {
	pb.UnimplementedUsageServiceServer
	o        Options
	holdings holdings // of accounts
}

const (
	day         = 24 * time.Hour
	usageUsual  = 30     // days
	usageDays   = 400    // days at most
	usageAnswer = 50_000 // lines of one answer
)

// GetUsage implements pb.UsageServiceServer.
func (s *Server) GetUsage(ctx context.Context, r *pb.GetUsageRequest) (*pb.GetUsageResponse, error) {
	c := authz.From(ctx)
	today := s.o.Now().UTC().Truncate(day)
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
	return out, s.o.Ledger.View(func(tx *state.Tx) error {
		for at := since; !at.After(today); at = at.Add(day) {
			prefix := []string{state.Day(at)}
			if r.GetProject() != "" {
				prefix = append(prefix, r.GetProject())
			}
			for u, err := range state.Usage.All(tx, state.Range{Prefix: prefix}) {
				if err != nil || ctx.Err() != nil {
					return errors.Join(err, ctx.Err())
				}
				if !s.o.Rules().MayOn(c, read, authz.OwnerOf(u.GetOwner(), u.GetProject())).Allowed {
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

// Add counts a task that has ended.
func Add(tx *state.Tx, t *pb.Task) error {
	day := t.GetEndTime().AsTime().Truncate(24 * time.Hour)
	u, err := state.Usage.Get(tx, state.Day(day), t.GetSpec().GetProject(), state.User(t.GetOwner()))
	if errors.Is(err, mover.ErrNotExist) {
		u, err = &pb.Usage{Project: t.GetSpec().GetProject(), Owner: t.GetOwner(), Day: timestamppb.New(day)}, nil
	}
	if err != nil {
		return err
	}
	u.Tasks++
	u.Files += t.GetReport().GetFiles()
	u.Bytes += t.GetReport().GetBytes()
	u.Failed += t.GetReport().GetFailed()
	return state.Usage.Put(tx, u)
}
