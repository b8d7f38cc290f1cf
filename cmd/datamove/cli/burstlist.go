package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
)

// listed is a burst as it is told.
type listed struct {
	*burst.Record
	burst *burst.Burst
}

func listedOf(r *burst.Record) (l listed, err error) {
	l.Record = r
	l.burst, err = r.Burst()
	return l, err
}

// burstView is a burst as JSON.
type burstView struct {
	Schema string `json:"schema"`
	Name   string `json:"name"`
	Team   string `json:"team"`
	Region string `json:"region"`
	*burst.Record
	Declaration string `json:"declaration,omitempty"` // in place of that of the record, which is long
	Mount       string `json:"mount,omitempty"`
}

// mount is how the file system of a burst is mounted; "" is none.
func (l listed) mount() string {
	f := l.FileSystem
	if f == nil || f.DNS == "" || f.Gone {
		return ""
	}
	return fmt.Sprintf("mount -t lustre -o relatime,flock %s@tcp:/%s /fsx", f.DNS, f.Mount)
}

// burstsListing is how bursts are listed.
var burstsListing = listing[listed]{
	what: "bursts",
	columns: []column[listed]{
		{"NAME", 16, func(l listed) string { return string(l.burst.Metadata.Name) }},
		{"TEAM", 10, func(l listed) string { return string(l.burst.Spec.Team) }},
		{"STATE", 9, func(l listed) string { return string(l.State) }},
		{"REGION", 12, func(l listed) string { return l.burst.Spec.Cloud.Region }},
		{"STAGED", -10, func(l listed) string { return units.Bytes(l.Held()) }},
		{"SPENT", -10, func(l listed) string { return l.Spent.String() }},
		{"RESERVED", -10, func(l listed) string { return l.Reserved.String() }},
		{"AGE", -6, func(l listed) string { return age(l.Made.UnixNano()) }},
		{"FILE SYSTEM", 0, func(l listed) string { return cmp.Or(mover.Printable(l.Trouble), l.mount(), "-") }},
	},
	view: func(l listed) any {
		return burstView{Schema: schemaBurst, Name: string(l.burst.Metadata.Name), Team: string(l.burst.Spec.Team), Region: l.burst.Spec.Cloud.Region, Record: l.Record, Mount: l.mount()}
	},
	name: func(l listed) string { return string(l.burst.Metadata.Name) },
	colour: func(l listed) string {
		return map[bool]string{true: yellow}[l.Trouble != ""]
	},
}

func (a *app) burstListCommand() *cobra.Command {
	u := &bursts{app: a}
	var f format
	var all bool
	cmd := &cobra.Command{
		Use:   "list [flags]",
		Short: "List bursts: what they are doing, what they cost, and how their file systems are mounted",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if at, err := u.there(); err != nil || at != "" {
			if err != nil {
				return err
			}
			return u.listThere(ctx, at, f, all)
		}
		if err := u.ready(ctx); err != nil {
			return err
		}
		records, err := u.shelf.All()
		if err != nil {
			return err
		}
		return list(a, f, burstsListing, func(yield func(listed, error) bool) {
			for _, r := range records {
				if r.State == burst.Gone && !all {
					continue
				}
				l, err := listedOf(r)
				if !yield(l, err) || err != nil {
					return
				}
			}
		})
	})
	cmd.Flags().BoolVar(&all, "all", false, "those that are gone, too")
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// complete completes the names of bursts.
func (u *bursts) complete(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	at, err := u.there()
	if err == nil && at != "" {
		_ = u.asking(cmd.Context(), at, func(c *api.Client) error { // who completes hears of nothing that went wrong
			for b, err := range c.Bursts(cmd.Context(), &pb.ListBurstsRequest{}) {
				if err != nil {
					return err
				}
				names = append(names, b.GetName())
			}
			return nil
		})
		return names, cobra.ShellCompDirectiveNoFileComp
	}
	if err != nil || u.ready(cmd.Context()) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	records, err := u.shelf.All()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, r := range records {
		if l, err := listedOf(r); err == nil && r.State != burst.Gone {
			names = append(names, string(l.burst.Metadata.Name))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// accountView is the account of a team as JSON.
type accountView struct {
	Schema string `json:"schema"`
	budget.Balance
	Bursts []budget.OpenBurst `json:"bursts,omitempty"`
}

func (a *app) burstCostCommand() *cobra.Command {
	u := &bursts{app: a}
	var f format
	var days int
	cmd := &cobra.Command{
		Use:   "cost [flags] [TEAM...]",
		Short: "Say what teams have spent and reserved, and what of their caps is left",
		Long: `Cost charges what runs by the hour up to now, and says how the accounts of the configuration
stand; a service charges every ten minutes by itself. With --reconcile they are held to what AWS Cost Explorer says of the last days; a call of
it costs $0.01, and it knows of a day after about a day, where the tag ` + burst.TagBurst + `
is activated for cost allocation. AWS is asked from here, with the credentials of the tiers of the
bursts; a service takes the figures of who may adjust its accounts.`,
		Example: `  datamove burst cost
  datamove burst cost --reconcile 3 vision`,
	}
	cmd.RunE = a.do(func(ctx context.Context, teams []string) error {
		if at, err := u.there(); err != nil || at != "" {
			if err != nil {
				return err
			}
			return u.costThere(ctx, at, f, teams, days)
		}
		if err := u.ready(ctx); err != nil {
			return err
		}
		if err := u.charge(ctx, days); err != nil {
			return err
		}
		open, err := u.money.Bursts(ctx)
		if err != nil {
			return err
		}
		return list(a, f, accountsListing, func(yield func(accountView, error) bool) {
			for _, team := range u.teams(teams, open) {
				b, err := u.money.Balance(ctx, team)
				mine := slices.DeleteFunc(slices.Clone(open), func(o budget.OpenBurst) bool { return o.Team != team })
				if !yield(accountView{schemaAccount, b, mine}, err) || err != nil {
					return
				}
			}
		})
	})
	cmd.Flags().IntVar(&days, "reconcile", 0, "hold the accounts to what Cost Explorer says of the last `DAYS`")
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// teams are those that are asked for, or all that there are.
func (u *bursts) teams(named []string, open []budget.OpenBurst) []string {
	if len(named) > 0 {
		return named
	}
	var all []string
	for team := range u.conf.Burst.Accounts {
		all = append(all, team)
	}
	for _, o := range open {
		all = append(all, o.Team)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// accountsListing is how accounts are listed.
var accountsListing = listing[accountView]{
	what: "accounts: burst.accounts of the configuration has none",
	columns: []column[accountView]{
		{"TEAM", 12, func(v accountView) string { return mover.Printable(v.Team) }},
		{"PERIOD", 8, func(v accountView) string { return v.Period }},
		{"CAP", -12, func(v accountView) string { return v.Cap.String() }},
		{"SPENT", -12, func(v accountView) string { return v.Spent.String() }},
		{"RESERVED", -12, func(v accountView) string { return v.Reserved.String() }},
		{"FREE", -12, func(v accountView) string { return max(0, v.Free).String() }},
		{"OPEN BURSTS", 0, func(v accountView) string {
			if len(v.Bursts) == 0 {
				return "-"
			}
			return units.Plural(int64(len(v.Bursts)), "burst", "bursts")
		}},
	},
	view: func(v accountView) any { return v },
	name: func(v accountView) string { return v.Team },
}

// charge charges what runs by the hour of all bursts that nobody works on now, and with days holds the accounts to what AWS says.
func (u *bursts) charge(ctx context.Context, days int) error {
	records, err := u.shelf.All()
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, r := range records {
		b, err := r.Burst()
		if err != nil {
			return err
		}
		if err := u.chargeOne(ctx, r, b); err != nil {
			u.note("warning: burst %s is not charged up to now: %v", b.Metadata.Name, err) // what was is told all the same
		}
		if days == 0 || seen[b.Spec.Cloud.Region] {
			continue
		}
		seen[b.Spec.Cloud.Region] = true
		if err := u.reconcile(ctx, b, byID(records), days); err != nil {
			return err
		}
	}
	return nil
}

func byID(records []*burst.Record) map[string]*burst.Record {
	all := map[string]*burst.Record{}
	for _, r := range records {
		all[r.ID] = r
	}
	return all
}
