package burstserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"google.golang.org/protobuf/types/known/timestamppb"

	ledgerv1 "datamove.dev/api/datamove/ledger/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/coordinator/state"
	"datamove.dev/mover/task"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// accounts is what is remembered of bursts and their money beside the ledger.
type accounts struct {
	moneyMu sync.Mutex     // guards the two below
	money   *budget.Ledger // nil until the first call
	capsOf  *config.Config // with the accounts that it has

	recordMu sync.Mutex // held while the record of a burst is read for a lead, kept for one, or charged here: a lead that begins sees what was charged
}

// budgets is the money of all teams, with the caps of the configuration of this moment.
func (s *Server) budgets(ctx context.Context) (*budget.Ledger, error) {
	s.moneyMu.Lock()
	defer s.moneyMu.Unlock()
	conf := s.o.Config()
	if s.money != nil && s.capsOf == conf {
		return s.money, nil
	}
	accounts, err := accountsOf(conf.Burst.Accounts)
	if err != nil {
		return nil, err
	}
	if s.money == nil {
		s.money, err = budget.New(ctx, spendings{s.o.Ledger}, accounts, budget.Options{Now: s.o.Now})
	} else {
		var warnings []*budget.Warning
		warnings, err = s.money.SetAccounts(ctx, accounts)
		for _, w := range warnings {
			s.o.Logger.Warn("a cap is nearly reached", "why", w.String())
		}
	}
	if err != nil {
		return nil, err
	}
	s.capsOf = conf
	return s.money, nil
}

func accountsOf(conf map[string]config.BurstAccount) (all []budget.Account, err error) {
	for _, team := range slices.Sorted(maps.Keys(conf)) {
		limit, err := pricing.ParseMoney(conf[team].Cap)
		if err != nil {
			return nil, err
		}
		all = append(all, budget.Account{Team: team, Cap: limit, Period: budget.Period(conf[team].Period), Ask: conf[team].Ask})
	}
	return all, nil
}

// spendings are the entries of accounts in the ledger. It is a budget.Log.
type spendings struct{ ledger *state.Ledger }

// Read implements budget.Log.
func (l spendings) Read(_ context.Context, n int64, each func(budget.Entry) error) error {
	r := state.Range{}
	if n > 0 {
		r.After = state.Spendings.Token(&ledgerv1.Spending{Number: uint64(n - 1)})
	}
	return l.ledger.View(func(tx *state.Tx) error {
		for row, err := range state.Spendings.All(tx, r) {
			if err == nil && row.GetNumber() != uint64(n) {
				err = fmt.Errorf("%w: entry %d of the accounts is missing", mover.ErrCorrupt, n)
			}
			if err == nil {
				err = each(entryOf(row))
			}
			if err != nil {
				return err
			}
			n++
		}
		return nil
	})
}

// Append implements budget.Log. Where ctx has a fence, the caller must still have that lead in the change itself.
func (l spendings) Append(ctx context.Context, n int64, e budget.Entry) error {
	err := l.ledger.Update(ctx, state.Durable, func(tx *state.Tx) error {
		if err := fenceOf(ctx).holds(tx); err != nil {
			return err
		}
		if err := endsAt(tx, n); err != nil {
			return err
		}
		return state.Spendings.Put(tx, &ledgerv1.Spending{Number: uint64(n), Time: timestamppb.New(e.Time), Kind: string(e.Kind), Team: e.Team, Burst: e.Burst, Day: e.Day, Micros: int64(e.Amount), Why: e.Why, Key: e.Key})
	})
	if errors.Is(err, mover.ErrFull) {
		err = fmt.Errorf("%w: %v", mover.ErrTransient, err) //nolint:errorlint // a full disk of ours is not one of the target
	}
	return err
}

// endsAt reports mover.ErrChanged where there are entries after the first n.
func endsAt(tx *state.Tx, n int64) error {
	_, err := state.Spendings.Get(tx, state.Number(uint64(n)))
	if err == nil {
		return fmt.Errorf("%w: others have appended", mover.ErrChanged)
	}
	if err := ignoreMissing(err); err != nil || n == 0 {
		return err
	}
	if _, err := state.Spendings.Get(tx, state.Number(uint64(n-1))); err != nil {
		return fmt.Errorf("the accounts have no entry %d: %w", n-1, err)
	}
	return nil
}

func entryOf(m *ledgerv1.Spending) budget.Entry {
	return budget.Entry{Time: m.GetTime().AsTime(), Kind: budget.Kind(m.GetKind()), Team: m.GetTeam(), Burst: m.GetBurst(), Day: m.GetDay(), Amount: pricing.Money(m.GetMicros()), Why: m.GetWhy(), Key: m.GetKey()}
}

// fence is a lead that has to be one still when a change is made. The zero value is none.
type fence struct {
	task  string
	epoch uint64
}

type fenceKey struct{}

func (f fence) in(ctx context.Context) context.Context { return context.WithValue(ctx, fenceKey{}, f) }

func fenceOf(ctx context.Context) fence {
	f, _ := ctx.Value(fenceKey{}).(fence)
	return f
}

// holds is mover.ErrHeld where the task has another lead by now, or none.
func (f fence) holds(tx *state.Tx) error {
	if f.task == "" {
		return nil
	}
	t, err := state.Tasks.Get(tx, f.task)
	if err != nil {
		return err
	}
	if t.GetState() != task.Running || t.GetEpoch() != f.epoch {
		return &mover.Error{Op: "lead", Location: "task " + f.task, Err: mover.ErrHeld}
	}
	return nil
}
