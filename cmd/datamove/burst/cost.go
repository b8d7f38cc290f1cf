package burst

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

const schemaAccount = "datamove.account/v1"

// accountView is the account of a team as JSON.
type accountView struct {
	Schema string `json:"schema"`
	budget.Balance
	Bursts []budget.OpenBurst `json:"bursts,omitempty"`
}

func costCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var f cli.Format
	var days int
	cmd := &cobra.Command{
		Use:   "cost [flags] [TEAM...]",
		Short: "Say what teams have spent and reserved, and what of their caps is left",
		Long: `Cost says how the accounts of the configuration of the service stand; what runs by the hour is
charged every ten minutes. With --reconcile they are held to what AWS Cost Explorer says of the
last days, of this month and the one before: a task asks it as you, with the credentials of the
tiers of the bursts, and you have to be allowed to adjust accounts (burst.adjust). A call of it
costs $0.01, and it knows of a day after about a day, where the tag ` + burst.TagBurst + `
is activated for cost allocation.`,
		Example: `  datamove burst cost
  datamove burst cost --reconcile 3 vision`,
	}
	cmd.RunE = a.Do(func(ctx context.Context, teams []string) error {
		return u.cost(ctx, f, teams, days)
	})
	cmd.Flags().IntVar(&days, "reconcile", 0, "hold the accounts to what Cost Explorer says of the last `DAYS`")
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// cost lists the accounts of a service.
func (u *bursts) cost(ctx context.Context, f cli.Format, teams []string, days int) error {
	return u.asking(ctx, func(c *api.Client) error {
		if days > 0 {
			if err := u.reconcile(ctx, c, days); err != nil {
				return err
			}
		}
		answer, err := c.GetAccounts(ctx, &pb.GetAccountsRequest{Teams: teams})
		if err != nil {
			return err
		}
		var all []accountView
		for _, a := range answer.GetAccounts() {
			all = append(all, accountOf(a))
		}
		return cli.List(u.App, f, accountsListing, cli.Every(all))
	})
}

// reconcile has tasks of a service ask AWS what the last days have cost, and has the accounts say so.
func (u *bursts) reconcile(ctx context.Context, c *api.Client, days int) error {
	records, byTier := map[string]*burst.Record{}, map[string]burst.Name{}
	for r, err := range recordsOf(ctx, c, true) {
		if err != nil {
			return err
		}
		b, err := r.Burst()
		if err != nil {
			return err
		}
		records[r.ID], byTier[b.Spec.Cloud.Tier] = r, b.Metadata.Name
	}
	type day struct {
		burst string
		on    time.Time
	}
	var costs []burst.Cost
	known := map[day]bool{} // two tiers may be of one account
	for _, tier := range slices.Sorted(maps.Keys(byTier)) {
		req := &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_COSTS, Name: string(byTier[tier]), Days: int32(days)}
		err := u.apply(ctx, c, "burst cost", cli.FormatTable, req, func(t *pb.Task) error {
			f, err := foundBy(t)
			for _, cost := range f.Costs {
				if d := (day{cost.Burst, cost.Day}); !known[d] {
					known[d], costs = true, append(costs, cost)
				}
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	billed, err := burst.Bill(costs, records, time.Now())
	if err != nil {
		return err
	}
	for _, b := range billed {
		if _, err := c.AdjustAccount(ctx, &pb.AdjustAccountRequest{Team: string(b.Team), Day: b.Day.UTC().Format(time.DateOnly), Micros: int64(b.Money), Why: "Cost Explorer, " + b.Day.UTC().Format(time.DateOnly)}); err != nil {
			return err
		}
		u.Note("%s of team %s: AWS says %v", b.Day.UTC().Format(time.DateOnly), b.Team, b.Money)
	}
	return nil
}

// accountsListing is how accounts are listed.
var accountsListing = cli.Listing[accountView]{
	What: "accounts: burst.accounts of the configuration has none",
	Columns: []cli.Column[accountView]{
		{Head: "TEAM", Width: 12, Text: func(v accountView) string { return mover.Printable(v.Team) }},
		{Head: "PERIOD", Width: 8, Text: func(v accountView) string { return v.Period }},
		{Head: "CAP", Width: -12, Text: func(v accountView) string { return v.Cap.String() }},
		{Head: "SPENT", Width: -12, Text: func(v accountView) string { return v.Spent.String() }},
		{Head: "RESERVED", Width: -12, Text: func(v accountView) string { return v.Reserved.String() }},
		{Head: "FREE", Width: -12, Text: func(v accountView) string { return max(0, v.Free).String() }},
		{Head: "OPEN BURSTS", Width: 0, Text: func(v accountView) string {
			if len(v.Bursts) == 0 {
				return "-"
			}
			return units.Plural(int64(len(v.Bursts)), "burst", "bursts")
		}},
	},
	View: func(v accountView) any { return v },
	Name: func(v accountView) string { return v.Team },
}

func accountOf(a *pb.BurstAccount) accountView {
	v := accountView{Schema: schemaAccount, Balance: budget.Balance{Team: a.GetTeam(), Period: a.GetPeriod(), Cap: pricing.Money(a.GetCapMicros()), Spent: pricing.Money(a.GetSpentMicros()),
		Reserved: pricing.Money(a.GetReservedMicros()), Free: pricing.Money(a.GetFreeMicros())}}
	for _, o := range a.GetBursts() {
		v.Bursts = append(v.Bursts, budget.OpenBurst{Team: a.GetTeam(), Burst: o.GetId(), Since: o.GetSince().AsTime(), Reserved: pricing.Money(o.GetReservedMicros()), Spent: pricing.Money(o.GetSpentMicros()), Left: pricing.Money(o.GetLeftMicros())})
	}
	return v
}
