package coordinator

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
	"datamove.dev/mover/task"
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
func (s *usageServer) countHoldings(ctx context.Context) error {
	one := func(add func(holding, int64), owner *pb.Account, what quota.Resource) {
		add(holding{state.User(owner), what}, 1)
	}
	leases, err1 := state.Sum(ctx, s.ledger, state.Leases, func(l *pb.Lease, _ int, add func(holding, int64)) {
		if !strings.HasPrefix(l.GetHolder(), state.TaskHolder) {
			one(add, l.GetOwner(), quota.Leases)
		}
	})
	wishes, err2 := state.Sum(ctx, s.ledger, state.StageWaiters, func(w *ledgerv1.Wish, _ int, add func(holding, int64)) {
		one(add, w.GetLease().GetOwner(), quota.Leases)
	})
	keys, err3 := state.Sum(ctx, s.ledger, state.Keys, func(k *ledgerv1.Key, _ int, add func(holding, int64)) {
		if k.GetTask() == idempotency.NoTask {
			add(holding{k.GetCaller(), quota.Requests}, 1)
		}
	})
	datasets, err4 := state.Sum(ctx, s.ledger, state.Datasets, func(d *pb.Dataset, _ int, add func(holding, int64)) { one(add, d.GetOwner(), quota.Datasets) })
	tasks, err5 := state.Sum(ctx, s.ledger, state.Tasks, func(t *pb.Task, bytes int, add func(holding, int64)) {
		add(holding{state.User(t.GetOwner()), quota.Specs}, int64(bytes))
		if !state.Ended(t.GetState()) {
			one(add, t.GetOwner(), quota.Tasks)
		}
	})
	s.holdings = holdings{leases, wishes, keys, datasets, tasks}
	return errors.Join(err1, err2, err3, err4, err5)
}

// limitsFor are the quotas of a caller.
func (s *usageServer) limitsFor(c authz.Caller) quota.Limits {
	return limitsOf(s.conf(), authz.AccountOf(c), c.Groups, s.rules().Roles(c))
}

// limitsOf are the quotas of an account. Root, and the account that runs the service, have some only where they are named.
func limitsOf(c *config.Config, a *pb.Account, groups, roles []string) quota.Limits {
	if !c.Quotas.Binds(a.GetName(), a.GetUid()) {
		return nil
	}
	q := c.Quotas.Of(a.GetName(), groups, roles)
	return quota.Limits{
		quota.Slots: int64(q.Slots), quota.Tasks: q.Tasks, quota.Specs: int64(q.Specs),
		quota.Leases: q.Leases, quota.Requests: q.Requests, quota.Datasets: q.Datasets, quota.Journals: int64(q.Journals),
	}
}

// mayHold says why a caller may not have one more of a resource.
func (s *usageServer) mayHold(c authz.Caller, what quota.Resource) error {
	if err := s.ledger.Admits(); err != nil && what != quota.Requests { // a key may be of what frees room
		return err
	}
	account := state.User(authz.AccountOf(c))
	return quota.Check(account, what, s.holdings.of(account, what), 1, s.limitsFor(c))
}

// mayHoldTask says why a caller may not have one more task. What ended first is forgotten for it.
func (s *usageServer) mayHoldTask(tx *state.Tx, c authz.Caller, t *pb.Task) error {
	if err := s.mayHold(c, quota.Tasks); err != nil {
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

// usedSlots are the leads of each agent by account, those of standing tasks not counted.
type usedSlots map[string]map[string]int

func (u usedSlots) add(l *lead, n int) {
	if task.Of(l.task.GetSpec()).Standing {
		return
	}
	if u[l.agent] == nil {
		u[l.agent] = map[string]int{}
	}
	account := state.User(l.task.GetOwner())
	if u[l.agent][account] += n; u[l.agent][account] == 0 {
		delete(u[l.agent], account)
	}
	if len(u[l.agent]) == 0 {
		delete(u, l.agent)
	}
}

// addLead notes a lead. scheduler.mu is held, as in all below.
func (s *usageServer) addLead(l *lead) {
	s.c.scheduler.leads[l.task.GetId()] = l
	s.c.scheduler.slots.add(l, 1)
}

func (s *usageServer) dropLead(l *lead) {
	delete(s.c.scheduler.leads, l.task.GetId())
	s.c.scheduler.slots.add(l, -1)
}

// slotsFull says whether an account has as many of the slots of an agent as it may.
func (s *usageServer) slotsFull(n *node, owner *pb.Account) bool {
	used := s.c.scheduler.slots[n.name]
	return used[state.User(owner)] > 0 && used[state.User(owner)] >= limitsOf(s.conf(), owner, nil, nil).Slots(n.slots)
}

// quotasOf tells a caller what it holds, and may.
func (s *usageServer) quotasOf(c authz.Caller) (all []*pb.Quota) {
	limits, account := s.limitsFor(c), state.User(authz.AccountOf(c))
	for _, r := range quota.All {
		used, limit := s.holdings.of(account, r), limits[r]
		switch r {
		case quota.Slots:
			used = s.slotsOf(account)
		case quota.Journals: // agents know
			used, limit = s.journalsOf(account, limit)
		}
		all = append(all, &pb.Quota{Resource: string(r), Used: used, Limit: limit})
	}
	return all
}

// slotsOf is the largest part of the slots of an agent that an account has, in percent.
func (s *usageServer) slotsOf(account string) (most int64) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	for name, used := range s.c.scheduler.slots {
		if n := s.c.scheduler.agents[name]; n != nil {
			most = max(most, int64(100*used[account]/max(n.slots, 1)))
		}
	}
	return most
}

// journalsOf is the most that an account has in the journals of an agent, by what that told last, and may have there.
func (s *usageServer) journalsOf(account string, limit int64) (used, of int64) {
	s.c.scheduler.mu.Lock()
	defer s.c.scheduler.mu.Unlock()
	of = limit
	for _, n := range s.c.scheduler.agents {
		if j := n.journals[account]; j.GetBytes() > used {
			used, of = j.GetBytes(), j.GetLimit()
		}
	}
	return used, of
}
