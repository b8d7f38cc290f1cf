package burst

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
)

const schemaBurst = "datamove.burst/v1"

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

// view is a burst as JSON.
type view struct {
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

// listing is how bursts are listed.
var listing = cli.Listing[listed]{
	What: "bursts",
	Columns: []cli.Column[listed]{
		{Head: "NAME", Width: 16, Text: func(l listed) string { return string(l.burst.Metadata.Name) }},
		{Head: "TEAM", Width: 10, Text: func(l listed) string { return string(l.burst.Spec.Team) }},
		{Head: "STATE", Width: 9, Text: func(l listed) string { return string(l.State) }},
		{Head: "REGION", Width: 12, Text: func(l listed) string { return l.burst.Spec.Cloud.Region }},
		{Head: "STAGED", Width: -10, Text: func(l listed) string { return units.Bytes(l.Held()) }},
		{Head: "SPENT", Width: -10, Text: func(l listed) string { return l.Spent.String() }},
		{Head: "RESERVED", Width: -10, Text: func(l listed) string { return l.Reserved.String() }},
		{Head: "AGE", Width: -6, Text: func(l listed) string { return cli.Age(l.Made.UnixNano()) }},
		{Head: "FILE SYSTEM", Width: 0, Text: func(l listed) string { return cmp.Or(mover.Printable(l.Trouble), l.mount(), "-") }},
	},
	View: func(l listed) any {
		return view{Schema: schemaBurst, Name: string(l.burst.Metadata.Name), Team: string(l.burst.Spec.Team), Region: l.burst.Spec.Cloud.Region, Record: l.Record, Mount: l.mount()}
	},
	Name: func(l listed) string { return string(l.burst.Metadata.Name) },
	Colour: func(l listed) string {
		return map[bool]string{true: cli.Yellow}[l.Trouble != ""]
	},
}

func listCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var f cli.Format
	var all bool
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List bursts: what they are doing, what they cost, and how their file systems are mounted",
		Example: `  datamove burst list --all`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error { return u.list(ctx, f, all) })
	cmd.Flags().BoolVar(&all, "all", false, "those that are gone, too")
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// list lists the bursts of a service.
func (u *bursts) list(ctx context.Context, f cli.Format, gone bool) error {
	return u.asking(ctx, func(c *api.Client) error {
		return cli.List(u.App, f, listing, func(yield func(listed, error) bool) {
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
	_ = u.AskService(cmd.Context(), listBursts, func(c *api.Client) error { // a completion tells no errors
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
