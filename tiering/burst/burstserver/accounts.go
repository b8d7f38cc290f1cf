package burstserver

import (
	"context"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/server/authz"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// GetAccounts implements pb.BurstServiceServer. What runs by the hour is in them as it was charged last.
func (s *Server) GetAccounts(ctx context.Context, r *pb.GetAccountsRequest) (*pb.GetAccountsResponse, error) {
	c := authz.From(ctx)
	money, err := s.budgets(ctx)
	if err != nil {
		return nil, err
	}
	open, err := money.Bursts(ctx)
	if err != nil {
		return nil, err
	}
	teams := r.GetTeams()
	for _, team := range teams {
		if err := s.mayForTeam(c, pb.BurstService_GetAccounts_FullMethodName, team); err != nil {
			return nil, err
		}
	}
	if len(teams) == 0 {
		teams = slices.DeleteFunc(s.teams(open), func(team string) bool { return !s.seesBurst(c, team) })
	}
	out := &pb.GetAccountsResponse{}
	for _, team := range teams {
		b, err := money.Balance(ctx, team)
		if err != nil {
			return nil, err
		}
		out.Accounts = append(out.Accounts, withOpen(accountShown(b), open))
	}
	return out, nil
}

// AdjustAccount implements pb.BurstServiceServer.
func (s *Server) AdjustAccount(ctx context.Context, r *pb.AdjustAccountRequest) (*pb.BurstAccount, error) {
	day, err := time.Parse(time.DateOnly, r.GetDay())
	if err != nil {
		return nil, mover.Usagef("%s is no day, want one like 2026-11-27", mover.Printable(r.GetDay()))
	}
	if _, has := s.o.Config().Burst.Accounts[r.GetTeam()]; !has {
		return nil, &mover.Error{Op: "adjust", Location: "account of team " + mover.Printable(r.GetTeam()), Err: mover.ErrNotExist}
	}
	money, err := s.budgets(ctx)
	if err != nil {
		return nil, err
	}
	out, err := money.Adjust(ctx, r.GetTeam(), day, pricing.Money(r.GetMicros()), r.GetWhy())
	return accountShown(out.Balance), err
}

// teams are those that have an account, or bursts with reserved money.
func (s *Server) teams(open []budget.OpenBurst) []string {
	all := slices.Collect(maps.Keys(s.o.Config().Burst.Accounts))
	for _, o := range open {
		all = append(all, o.Team)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

func withOpen(a *pb.BurstAccount, open []budget.OpenBurst) *pb.BurstAccount {
	for _, o := range open {
		if o.Team == a.GetTeam() {
			a.Bursts = append(a.Bursts, &pb.OpenBurst{Id: o.Burst, Since: timestamppb.New(o.Since), ReservedMicros: int64(o.Reserved), SpentMicros: int64(o.Spent), LeftMicros: int64(o.Left)})
		}
	}
	return a
}
