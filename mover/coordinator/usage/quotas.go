package usage

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/protobuf/proto"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/idempotency"
	"datamove.dev/mover/coordinator/quota"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/server/authz"
)

// holding is what is summed of an account.
type holding struct {
	account string // as state.User makes it
	what    quota.Resource
}

// holdings are what accounts hold of the ledger.
type holdings []*state.Tally[holding]

// of is what an account holds of a resource. The change that is made at this moment is not in it.
func (h holdings) of(account string, what quota.Resource) (n int64) {
	for _, sum := range h {
		n += sum.Of(holding{account, what})
	}
	return n
}

// countHoldings begins to count what accounts hold. No caller is answered before all is counted: nothing would be known to be held. A million tasks take
// some seconds.
func (s *Server) countHoldings(ctx context.Context) error {
	one := func(add func(holding, int64), owner *pb.Account, what quota.Resource) {
		add(holding{state.User(owner), what}, 1)
	}
	leases, err1 := state.Sum(ctx, s.o.Ledger, state.Leases, func(l *pb.Lease, _ int, add func(holding, int64)) {
		if !strings.HasPrefix(l.GetHolder(), state.TaskHolder) {
			one(add, l.GetOwner(), quota.Leases)
		}
	})
	wishes, err2 := state.Sum(ctx, s.o.Ledger, state.StageWaiters, func(w *ledgerv1.Wish, _ int, add func(holding, int64)) {
		one(add, w.GetLease().GetOwner(), quota.Leases)
	})
	keys, err3 := state.Sum(ctx, s.o.Ledger, state.Keys, func(k *ledgerv1.Key, _ int, add func(holding, int64)) {
		if k.GetTask() == idempotency.NoTask {
			add(holding{k.GetCaller(), quota.Requests}, 1)
		}
	})
	datasets, err4 := state.Sum(ctx, s.o.Ledger, state.Datasets, func(d *pb.Dataset, _ int, add func(holding, int64)) { one(add, d.GetOwner(), quota.Datasets) })
	tasks, err5 := state.Sum(ctx, s.o.Ledger, state.Tasks, func(t *pb.Task, bytes int, add func(holding, int64)) {
		add(holding{state.User(t.GetOwner()), quota.Specs}, int64(bytes))
		if !state.Ended(t.GetState()) {
			one(add, t.GetOwner(), quota.Tasks)
		}
	})
	s.holdings = holdings{leases, wishes, keys, datasets, tasks}
	return errors.Join(err1, err2, err3, err4, err5)
}

// limitsFor are the quotas of a caller.
func (s *Server) limitsFor(c authz.Caller) quota.Limits {
	return LimitsOf(s.o.Config(), authz.AccountOf(c), c.Groups, s.o.Rules().Roles(c))
}

// LimitsOf are the quotas of an account. Root, and the account that runs the service, have some only where they are named.
func LimitsOf(c *config.Config, a *pb.Account, groups, roles []string) quota.Limits {
	if !c.Quotas.Binds(a.GetName(), a.GetUid()) {
		return nil
	}
	q := c.Quotas.Of(a.GetName(), groups, roles)
	return quota.Limits{
		quota.Slots: int64(q.Slots), quota.Tasks: q.Tasks, quota.Specs: int64(q.Specs),
		quota.Leases: q.Leases, quota.Requests: q.Requests, quota.Datasets: q.Datasets, quota.Journals: int64(q.Journals),
	}
}

// MayHold says why a caller may not have one more of a resource.
func (s *Server) MayHold(c authz.Caller, what quota.Resource) error {
	if err := s.o.Ledger.Admits(); err != nil && what != quota.Requests { // a key may be of what frees room
		return err
	}
	account := state.User(authz.AccountOf(c))
	return quota.Check(account, what, s.holdings.of(account, what), 1, s.limitsFor(c))
}

// MayHoldTask says why a caller may not have one more task. What ended first is forgotten for it.
func (s *Server) MayHoldTask(tx *state.Tx, c authz.Caller, t *pb.Task) error {
	if err := s.MayHold(c, quota.Tasks); err != nil {
		return err
	}
	limits, account, want := s.limitsFor(c), state.User(authz.AccountOf(c)), int64(proto.Size(t))
	used := s.holdings.of(account, quota.Specs)
	if quota.Check(account, quota.Specs, used, want, limits) == nil {
		return nil
	}
	gone, err := state.ForgetOf(tx, account, used+want-limits[quota.Specs])
	if err != nil {
		return err
	}
	return quota.Check(account, quota.Specs, used-gone, want, limits)
}

// quotasOf tells a caller what it holds, and may.
func (s *Server) quotasOf(c authz.Caller) (all []*pb.Quota) {
	limits, account := s.limitsFor(c), state.User(authz.AccountOf(c))
	for _, r := range quota.All {
		used, limit := s.holdings.of(account, r), limits[r]
		switch r {
		case quota.Slots:
			used = s.o.Agents.SlotsOf(account)
		case quota.Journals: // agents know
			used, limit = s.o.Agents.JournalsOf(account, limit)
		}
		all = append(all, &pb.Quota{Resource: string(r), Used: used, Limit: limit})
	}
	return all
}
