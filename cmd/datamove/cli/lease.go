package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
)

func (a *app) leaseCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "lease",
		Short: "List and delete leases",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.leaseList(), a.leaseDrop())
	return cmd
}

func (a *app) leaseList() *cobra.Command {
	var f format
	var slurmJob string
	req := &pb.ListLeasesRequest{}
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List leases that last",
		Example: `  datamove lease list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		if slurmJob != "" {
			req.Labels = a.ofSlurmJob(req.Labels, slurmJob)
		}
		return a.ask(ctx, listLeases, func(c *api.Client) error { return list(a, f, leasesListing, c.Leases(ctx, req)) })
	})
	flags := cmd.Flags()
	formatVar(flags, &f, listFormats...)
	flags.StringVar(&req.Dataset, "dataset", "", "only of the dataset `NAME`")
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Node, "node", "", "only on this `NODE`")
	flags.StringVar(&req.Holder, "holder", "", "only of this `HOLDER`, like slurm:1234")
	labelVar(flags, &req.Labels, "label", "only with this label, `KEY=VALUE`; may be repeated")
	flags.StringVar(&slurmJob, "slurm-job", "", "only those that were taken in the Slurm job `ID`")
	return cmd
}

func (a *app) leaseDrop() *cobra.Command {
	cmd := &cobra.Command{
		Use:               "drop ID...",
		Short:             "End leases; one that has ended is no error",
		Example:           "  datamove lease list --holder slurm:4711 -o name | xargs datamove lease drop",
		Args:              some("the id of a lease, or several; datamove lease list has them"),
		ValidArgsFunction: a.completeLeases(),
	}
	cmd.RunE = a.do(func(ctx context.Context, ids []string) error {
		return a.ask(ctx, listLeases, func(c *api.Client) error {
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
var leasesListing = listing[*pb.Lease]{
	what: "leases",
	columns: []column[*pb.Lease]{
		{"ID", 20, (*pb.Lease).GetId},
		{"DATASET", 24, func(l *pb.Lease) string { return known(l.GetDataset()) }},
		{"DIGEST", 12, func(l *pb.Lease) string { return known(short(l.GetDigest())) }},
		{"TIER", 10, func(l *pb.Lease) string { return known(l.GetTier()) }},
		{"NODE", 8, func(l *pb.Lease) string { return known(l.GetNode()) }},
		{"OWNER", 8, func(l *pb.Lease) string { return accountText(l.GetOwner()) }},
		{"HOLDER", 12, (*pb.Lease).GetHolder},
		{"UNTIL", 19, func(l *pb.Lease) string { return moment(l.GetExpireTime()) }},
		{"LOCATION", 0, func(l *pb.Lease) string { return mover.Printable(l.GetLocation()) }},
	},
	view: func(l *pb.Lease) any { return viewLease(l) },
	name: (*pb.Lease).GetId,
}

// accountText is the name of an account, or its uid where it has none. What a user chose, as a holder, may look like either.
func accountText(o *pb.Account) string {
	if o != nil && o.GetName() == "" {
		return fmt.Sprintf("uid %d", o.GetUid())
	}
	return known(o.GetName())
}

// leaseView is a lease as JSON.
type leaseView struct {
	Schema   string            `json:"schema"`
	ID       string            `json:"id"`
	Dataset  string            `json:"dataset"`
	Digest   string            `json:"digest"`
	Tier     string            `json:"tier,omitempty"`
	Node     string            `json:"node,omitempty"`
	Location string            `json:"location"`
	Holder   string            `json:"holder"`
	Owner    string            `json:"owner"`
	UID      uint32            `json:"uid"`
	Created  *time.Time        `json:"created,omitempty"`
	Until    *time.Time        `json:"until,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
}

func viewLease(l *pb.Lease) leaseView {
	return leaseView{schemaLease, l.GetId(), l.GetDataset(), l.GetDigest(), l.GetTier(), l.GetNode(), l.GetLocation(), l.GetHolder(),
		l.GetOwner().GetName(), l.GetOwner().GetUid(), stamp(l.GetCreateTime()), stamp(l.GetExpireTime()), l.GetLabels()}
}

const schemaLease = "datamove.lease/v1"

func (a *app) completeLeases() cobra.CompletionFunc {
	return completeWith(a, func(ctx context.Context, c *api.Client) iter.Seq2[*pb.Lease, error] {
		return c.Leases(ctx, &pb.ListLeasesRequest{})
	}, func(l *pb.Lease) (string, string) { return l.GetId(), l.GetHolder() + ", " + l.GetDataset() })
}
