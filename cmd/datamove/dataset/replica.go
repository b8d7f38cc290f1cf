package dataset

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaReplica = "datamove.replica/v1"

func replicasCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	req := &pb.ListReplicasRequest{}
	cmd := &cobra.Command{
		Use:               "replicas [flags] [NAME[@DIGEST]]",
		Short:             "List where datasets are",
		Example:           "  datamove dataset replicas --tier scratch --node n17",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteDatasets(""),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			l, err := datasetArg(args[0])
			if err != nil {
				return err
			}
			req.Dataset, req.Digest = l.Name, l.Digest
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error { return cli.List(a, f, replicasListing, c.Replicas(ctx, req)) })
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Node, "node", "", "only on this `NODE`")
	return cmd
}

// replicasListing is how replicas are listed.
var replicasListing = cli.Listing[*pb.Replica]{
	What: "replicas",
	Columns: []cli.Column[*pb.Replica]{
		{Head: "DATASET", Width: 24, Text: func(r *pb.Replica) string { return cli.OrDash(r.GetDataset()) }},
		{Head: "DIGEST", Width: 12, Text: func(r *pb.Replica) string { return cli.OrDash(short(r.GetDigest())) }},
		{Head: "TIER", Width: 10, Text: func(r *pb.Replica) string { return cli.OrDash(r.GetTier()) }},
		{Head: "NODE", Width: 8, Text: func(r *pb.Replica) string { return cli.OrDash(r.GetNode()) }},
		{Head: "STATE", Width: 8, Text: func(r *pb.Replica) string { return replicaWord(r.GetState()) }},
		{Head: "CHECKED", Width: 8, Text: checkedWord},
		{Head: "SIZE", Width: -8, Text: func(r *pb.Replica) string { return units.Bytes(r.GetBytes()) }},
		{Head: "LEASES", Width: -6, Text: func(r *pb.Replica) string { return units.Count(int64(r.GetLeases())) }},
		{Head: "PINNED UNTIL", Width: 19, Text: func(r *pb.Replica) string { return cli.Moment(r.GetPinnedUntil()) }},
		{Head: "LOCATION", Width: 0, Text: func(r *pb.Replica) string { return mover.Printable(r.GetLocation()) }},
	},
	View: viewReplica,
	Name: (*pb.Replica).GetLocation,
}

// checkedWord is how a replica was checked. Of one that is whole, and that nothing relies on
// any more, it is a warning.
func checkedWord(r *pb.Replica) string {
	if r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE && r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		return "doubted"
	}
	return cli.OrDash(cli.LevelWord(r.GetLevel()))
}

// viewReplica is a replica as JSON.
var viewReplica = cli.View[*pb.Replica]("schema:"+schemaReplica+
	" dataset digest tier? node? location state level? bytes leases pinned_until? created=create_time? used=use_time? task? unguarded?", nil)

func showCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "show [flags] NAME",
		Short:             "Print the versions of a dataset, its replicas, leases and pins",
		Example:           "  datamove dataset show imagenet",
		Args:              cli.Exactly(1, "the NAME of a dataset"),
		ValidArgsFunction: a.CompleteDatasets(""),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := datasetArg(args[0])
		if err != nil {
			return err
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error {
			d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: l.Name})
			if err != nil {
				return err
			}
			s := &datasetShown{dataset: d}
			if err := s.fetch(ctx, c); err != nil {
				return err
			}
			if f != cli.FormatTable {
				return cli.WriteOne(a.Out, f, s.view())
			}
			return s.table(a)
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

// datasetShown is a dataset with what there is of it.
type datasetShown struct {
	dataset  *pb.Dataset
	replicas []*pb.Replica
	leases   []*pb.Lease
	pins     []*pb.PinInfo
}

func (s *datasetShown) fetch(ctx context.Context, c *api.Client) error {
	name := s.dataset.GetName()
	if err := cli.ForEach(c.Replicas(ctx, &pb.ListReplicasRequest{Dataset: name}), func(r *pb.Replica) error { s.replicas = append(s.replicas, r); return nil }); err != nil {
		return err
	}
	if err := cli.ForEach(c.Leases(ctx, &pb.ListLeasesRequest{Dataset: name}), func(l *pb.Lease) error { s.leases = append(s.leases, l); return nil }); err != nil {
		return err
	}
	return cli.ForEach(c.Pins(ctx, &pb.ListPinsRequest{Dataset: name}), func(p *pb.PinInfo) error { s.pins = append(s.pins, p); return nil })
}

func (s *datasetShown) view() any {
	return cli.View(datasetKeys+" replicas? leases? pins?", map[string]func(*pb.Dataset) any{
		"replicas": func(*pb.Dataset) any { return cli.Views(viewReplica, s.replicas) },
		"leases":   func(*pb.Dataset) any { return cli.Views(viewLease, s.leases) },
		"pins":     func(*pb.Dataset) any { return cli.Views(viewPin, s.pins) },
	})(s.dataset)
}

func (s *datasetShown) table(a *cli.App) error {
	d := s.dataset
	fmt.Fprintf(a.Out, "dataset:%s of %s, project %s\n", cli.Shown(d.GetName()), cli.Shown(cli.OrDash(d.GetOwner().GetName())), cli.Shown(cli.OrDash(d.GetProject())))
	for _, v := range d.GetVersions() {
		fmt.Fprintf(a.Out, "  %s  %s, %s, made %s of %s\n", cli.Shown(v.GetDigest()), units.Plural(v.GetEntries(), "entry", "entries"), units.Bytes(v.GetBytes()),
			cli.Moment(v.GetCreateTime()), cli.Shown(mover.Printable(v.GetSource())))
	}
	fmt.Fprintln(a.Out)
	if err := cli.List(a, cli.FormatTable, replicasListing, cli.Every(s.replicas)); err != nil {
		return err
	}
	if len(s.leases) > 0 {
		fmt.Fprintln(a.Out)
		if err := cli.List(a, cli.FormatTable, leasesListing, cli.Every(s.leases)); err != nil {
			return err
		}
	}
	if len(s.pins) > 0 {
		fmt.Fprintln(a.Out)
		return cli.List(a, cli.FormatTable, pinsListing, cli.Every(s.pins))
	}
	return nil
}

func replicaWord(s pb.ReplicaState) string { return cli.Word(s, "REPLICA_STATE_") }
