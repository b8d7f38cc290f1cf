package cli

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
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
		Use:     "list [flags]",
		Short:   "List bursts: what they are doing, what they cost, and how their file systems are mounted",
		Example: `  datamove burst list --all`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error { return u.list(ctx, f, all) })
	cmd.Flags().BoolVar(&all, "all", false, "those that are gone, too")
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// list lists the bursts of a service.
func (u *bursts) list(ctx context.Context, f format, gone bool) error {
	return u.asking(ctx, func(c *api.Client) error {
		return list(u.app, f, burstsListing, func(yield func(listed, error) bool) {
			for r, err := range recordsOf(ctx, c, gone) {
				var l listed
				if err == nil {
					l, err = listedOf(r)
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		})
	})
}

// recordsOf are the bursts that a service tells of.
func recordsOf(ctx context.Context, c *api.Client, gone bool) func(yield func(*burst.Record, error) bool) {
	return func(yield func(*burst.Record, error) bool) {
		for b, err := range c.Bursts(ctx, &pb.ListBurstsRequest{Gone: gone}) {
			var r *burst.Record
			if err == nil {
				r, err = recordOf(b)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// complete completes the names of bursts.
func (u *bursts) complete(cmd *cobra.Command, _ []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	_ = u.ask(cmd.Context(), listBursts, func(c *api.Client) error { // a completion tells no errors
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

const schemaBurst = "datamove.burst/v1"
