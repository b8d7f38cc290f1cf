package lifecycle

import (
	"context"
	"time"

	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// adjuster is money that is held to what AWS says. *budget.Ledger is one.
type adjuster interface {
	Adjust(ctx context.Context, team string, on time.Time, billed pricing.Money, why string) (budget.Outcome, error)
}

// Charge charges what runs by the hour, up to now.
func (l *Manager) Charge(ctx context.Context, r *burst.Record) error {
	w, err := l.work(r)
	if err != nil {
		return err
	}
	return w.charge(ctx)
}

// youngest is how old a day is of which Cost Explorer has all, about: it hears of things up to a day later. What it has is an estimate until the month is billed, which a later look replaces.
const youngest = 48 * time.Hour

// Reconcile has the accounts of teams say what Cost Explorer says of each day, but of the last two. records are by ID. It returns how many days of teams were looked at.
func (l *Manager) Reconcile(ctx context.Context, records map[string]*burst.Record, money adjuster, days int) (looked int, err error) {
	today := l.now().Truncate(24 * time.Hour)
	costs, err := l.Cloud.Costs(ctx, today.AddDate(0, 0, -days), today)
	if err != nil {
		return 0, err
	}
	type day struct {
		team string
		on   time.Time
	}
	sums := map[day]pricing.Money{}
	for _, c := range costs {
		r := records[c.Burst]
		if r == nil || !c.Final && l.now().Sub(c.Day) < youngest {
			continue
		}
		b, err := r.Burst()
		if err != nil {
			return 0, err
		}
		sums[day{string(b.Spec.Team), c.Day}] += c.Money
	}
	for d, sum := range sums {
		out, err := money.Adjust(ctx, d.team, d.on, sum, "Cost Explorer, "+d.on.Format(time.DateOnly))
		if err != nil {
			return 0, err
		}
		if !out.Repeated {
			l.tell("%s of team %s: AWS says %v", d.on.Format(time.DateOnly), d.team, sum)
		}
	}
	return len(sums), nil
}
