package dataset

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
)

const schemaLease = "datamove.lease/v1"

func leaseCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "List and delete leases",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(leaseListCommand(a), leaseDropCommand(a))
	return cmd
}

func leaseListCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var slurmJob string
	req := &pb.ListLeasesRequest{}
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List leases that last",
		Example: `  datamove lease list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		if slurmJob != "" {
			req.Labels = task.WithSlurmJob(a, req.Labels, slurmJob)
		}
		return a.AskService(ctx, cli.LeaseList, func(c *api.Client) error { return cli.List(a, f, leasesListing, c.Leases(ctx, req)) })
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	flags.StringVar(&req.Dataset, "dataset", "", "only of the dataset `NAME`")
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Node, "node", "", "only on this `NODE`")
	flags.StringVar(&req.Holder, "holder", "", "only of this `HOLDER`, like slurm:1234")
	task.LabelVar(flags, &req.Labels, "label", "only with this label, `KEY=VALUE`; may be repeated")
	flags.StringVar(&slurmJob, "slurm-job", "", "only those that were taken in the Slurm job `ID`")
	return cmd
}

func leaseDropCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:               "drop ID...",
		Short:             "End leases; one that has ended is no error",
		Example:           "  datamove lease list --holder slurm:4711 -o name | xargs datamove lease drop",
		Args:              cli.AtLeastOne("the id of a lease, or several; datamove lease list has them"),
		ValidArgsFunction: completeLeases(a),
	}
	cmd.RunE = a.Do(func(ctx context.Context, ids []string) error {
		return a.AskService(ctx, cli.LeaseList, func(c *api.Client) error {
			var failed []error
			for _, id := range ids {
				_, err := c.DropLease(ctx, &pb.DropLeaseRequest{Id: id})
				failed = append(failed, err)
			}
			return errors.Join(failed...)
		})
	})
	return cmd
}

// leasesListing is how leases are listed.
var leasesListing = cli.Listing[*pb.Lease]{
	What: "leases",
	Columns: []cli.Column[*pb.Lease]{
		{Head: "ID", Width: 20, Text: (*pb.Lease).GetId},
		{Head: "DATASET", Width: 24, Text: func(l *pb.Lease) string { return cli.OrDash(l.GetDataset()) }},
		{Head: "DIGEST", Width: 12, Text: func(l *pb.Lease) string { return cli.OrDash(short(l.GetDigest())) }},
		{Head: "TIER", Width: 10, Text: func(l *pb.Lease) string { return cli.OrDash(l.GetTier()) }},
		{Head: "NODE", Width: 8, Text: func(l *pb.Lease) string { return cli.OrDash(l.GetNode()) }},
		{Head: "OWNER", Width: 8, Text: func(l *pb.Lease) string { return accountText(l.GetOwner()) }},
		{Head: "HOLDER", Width: 12, Text: (*pb.Lease).GetHolder},
		{Head: "UNTIL", Width: 19, Text: func(l *pb.Lease) string { return cli.Moment(l.GetExpireTime()) }},
		{Head: "LOCATION", Width: 0, Text: func(l *pb.Lease) string { return mover.Printable(l.GetLocation()) }},
	},
	View: viewLease,
	Name: (*pb.Lease).GetId,
}

// accountText is the name of an account, or its uid where it has none. What a user chose, as a holder, may look like either.
func accountText(o *pb.Account) string {
	if o != nil && o.GetName() == "" {
		return fmt.Sprintf("uid %d", o.GetUid())
	}
	return cli.OrDash(o.GetName())
}

// viewLease is a lease as JSON.
var viewLease = cli.View[*pb.Lease]("schema:"+schemaLease+" id dataset digest tier? node? location holder owner=owner.name uid=owner.uid created=create_time? until=expire_time? labels?", nil)

func completeLeases(a *cli.App) cobra.CompletionFunc {
	return cli.CompleteWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Lease, error] {
		return c.Leases(ctx, &pb.ListLeasesRequest{})
	}, func(l *pb.Lease) (string, string) { return l.GetId(), l.GetHolder() + ", " + l.GetDataset() })
}
