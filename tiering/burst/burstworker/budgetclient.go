package burstworker

import (
	"context"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// budgetClient is the money of the burst of a task. The coordinator keeps the account.
type budgetClient struct{ job *worker.Job }

// Reserve sets money aside.
func (p budgetClient) Reserve(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	return p.ask(ctx, agentv1.SpendKind_SPEND_KIND_RESERVE, r)
}

// Charge notes what was spent.
func (p budgetClient) Charge(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	return p.ask(ctx, agentv1.SpendKind_SPEND_KIND_CHARGE, r)
}

// Settle frees what is left.
func (p budgetClient) Settle(ctx context.Context, r budget.Request) (budget.Outcome, error) {
	return p.ask(ctx, agentv1.SpendKind_SPEND_KIND_SETTLE, r)
}

// Allow asks whether so much may be spent now.
func (p budgetClient) Allow(ctx context.Context, _, burst string, amount pricing.Money) error {
	_, err := p.ask(ctx, agentv1.SpendKind_SPEND_KIND_ALLOW, budget.Request{Burst: burst, Amount: amount})
	return err
}

func (p budgetClient) ask(ctx context.Context, kind agentv1.SpendKind, r budget.Request) (budget.Outcome, error) {
	answer, err := p.job.Agent().Spend(ctx, &agentv1.SpendRequest{Kind: kind, Burst: r.Burst, Micros: int64(r.Amount), Why: r.Why, Key: r.Key})
	if err != nil {
		return budget.Outcome{}, worker.FromAgent(ctx, err)
	}
	out := budget.Outcome{Repeated: answer.GetRepeated(), Freed: pricing.Money(answer.GetFreedMicros()), Balance: balanceOf(answer.GetAccount())}
	if answer.GetWarns() {
		out.Warning = &budget.Warning{Balance: out.Balance}
	}
	if answer.GetError() != "" {
		return out, &noMoney{answer.GetError(), mover.KindNamed(answer.GetErrorKind())}
	}
	return out, nil
}

func balanceOf(a *pb.BurstAccount) budget.Balance {
	return budget.Balance{Team: a.GetTeam(), Period: a.GetPeriod(), Cap: pricing.Money(a.GetCapMicros()), Spent: pricing.Money(a.GetSpentMicros()), Reserved: pricing.Money(a.GetReservedMicros()), Free: pricing.Money(a.GetFreeMicros())}
}

// noMoney is what the coordinator says where there is none, in its words.
type noMoney struct {
	text string
	kind error
}

func (e *noMoney) Error() string { return e.text }
func (e *noMoney) Unwrap() error { return e.kind }
