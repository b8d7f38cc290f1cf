// Package dataset has the commands of datasets and what keeps their replicas: dataset, stage, release, purge, pin, unpin and lease.
//
// All of them ask the service, but for stage of a location in place, which asks the file system of an archive (stageinplace.go). What they begin is followed
// as a task.Request. cmd/datamove/root TestStage and its neighbours run them against a service in memory.
package dataset

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
)

const schemaDataset = "datamove.dataset/v1"

// Commands are dataset, and those that change where datasets are.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{datasetCommand(a), stageCommand(a), releaseCommand(a), purgeCommand(a), pinCommand(a), unpinCommand(a), leaseCommand(a)}
}

func datasetCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Name datasets, and see where they are",
		Long: `A dataset is what moves as one, under a name. Each version of it is one exact
content, named by the digest of its manifest: dataset:NAME is the newest,
dataset:NAME@DIGEST that one.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(addCommand(a), listCommand(a), showCommand(a), replicasCommand(a), removeCommand(a))
	return cmd
}

func addCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "dataset add"}
	cmd := &cobra.Command{
		Use:   "add [flags] NAME LOCATION",
		Short: "Make a version of a dataset of what is at a location",
		Long: `Add has the service read LOCATION and write down its manifest: every name with its
facts and checksum. That is a version of the dataset NAME, which becomes its newest.
What is at LOCATION stays there, and is a replica of it.`,
		Example: `  datamove dataset add imagenet archive:imagenet
  datamove dataset add --project vision run-7 /lustre/vision/run-7`,
		Args: cli.Exactly(2, "NAME and LOCATION"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := cli.ParseLocation(args[1])
		if err != nil {
			return err
		}
		t.Source = args[1]
		req := &pb.AddDatasetRequest{Name: args[0], Location: l.String(), Project: t.Service.Project, Node: t.Service.Node}
		return a.AskService(ctx, cli.TierList, func(c *api.Client) error {
			err := t.Begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				req.IdempotencyKey = key
				return api.Once(ctx, c, c.AddDataset, req)
			})
			if err != nil || t.Service.Detach || t.Format != cli.FormatTable || a.Quiet {
				return err
			}
			return tellVersion(ctx, a, c, args[0])
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &t.Format, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.BoolVar(&t.Service.Detach, "detach", false, "print the id of the task, and return")
	t.Service.ProjectVar(flags)
	flags.StringVar(&t.Service.Node, "node", "", "the `NODE` that has LOCATION, if it is not on all of them")
	return cmd
}

// tellVersion tells what the newest version of a dataset is.
func tellVersion(ctx context.Context, a *cli.App, c *api.Client, name string) error {
	d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: name})
	if err != nil || len(d.GetVersions()) == 0 {
		return err
	}
	v := d.GetVersions()[0]
	_, err = fmt.Fprintf(a.Out, "dataset:%s@%s has %s, %s\n", cli.Shown(d.GetName()), cli.Shown(v.GetDigest()),
		units.Plural(v.GetEntries(), "entry", "entries"), units.Bytes(v.GetBytes()))
	return err
}

func listCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	req := &pb.ListDatasetsRequest{}
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List datasets by name",
		Example: `  datamove dataset list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(ctx context.Context, _ []string) error {
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error { return cli.List(a, f, datasetsListing, c.Datasets(ctx, req)) })
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	cmd.Flags().StringVar(&req.Project, "project", "", "only datasets of this `PROJECT`")
	return cmd
}

// datasetsListing is how datasets are listed.
var datasetsListing = cli.Listing[*pb.Dataset]{
	What: "datasets",
	Columns: []cli.Column[*pb.Dataset]{
		{Head: "NAME", Width: 24, Text: (*pb.Dataset).GetName},
		{Head: "PROJECT", Width: 8, Text: func(d *pb.Dataset) string { return cli.OrDash(d.GetProject()) }},
		{Head: "OWNER", Width: 8, Text: func(d *pb.Dataset) string { return cli.OrDash(d.GetOwner().GetName()) }},
		{Head: "VERSIONS", Width: -8, Text: func(d *pb.Dataset) string { return units.Count(int64(len(d.GetVersions()))) }},
		{Head: "ENTRIES", Width: -11, Text: func(d *pb.Dataset) string { return units.Count(newest(d).GetEntries()) }},
		{Head: "SIZE", Width: -8, Text: func(d *pb.Dataset) string { return units.Bytes(newest(d).GetBytes()) }},
		{Head: "NEWEST", Width: 12, Text: func(d *pb.Dataset) string { return short(newest(d).GetDigest()) }},
		{Head: "AGE", Width: -6, Text: func(d *pb.Dataset) string { return cli.Ago(newest(d).GetCreateTime()) }},
	},
	View: viewDataset,
	Name: (*pb.Dataset).GetName,
}

func newest(d *pb.Dataset) *pb.Version {
	if len(d.GetVersions()) == 0 {
		return nil
	}
	return d.GetVersions()[0]
}

// short is a digest as people tell them apart.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// datasetKeys are the keys of a dataset as JSON, with its versions, the newest first.
const datasetKeys = "schema:" + schemaDataset + " name project? owner=owner.name uid=owner.uid created=create_time? versions[] { digest entries bytes created=create_time? source? }"

var viewDataset = cli.View[*pb.Dataset](datasetKeys, nil)

// datasetArg reads NAME, or dataset:NAME, with or without @DIGEST.
func datasetArg(arg string) (location.Location, error) {
	if !strings.HasPrefix(arg, "dataset:") {
		arg = "dataset:" + arg
	}
	return location.Parse(arg)
}

// datasetLocation reads what can only be a dataset:NAME[@DIGEST].
func datasetLocation(arg string) (location.Location, error) {
	l, err := location.Parse(arg)
	if err == nil && !l.IsDataset() {
		named := "dataset:NAME"
		if meant, bad := location.Parse("dataset:" + arg); bad == nil {
			named = meant.String()
		}
		err = cli.Advise(mover.Misusef("%s is no dataset", mover.Printable(arg)), named+", as datamove dataset list names them")
	}
	return l, err
}

// orDataset is err about a location, with what to try where there is a dataset of that name.
func orDataset(ctx context.Context, c *api.Client, arg string, err error) error {
	l, bad := location.Parse("dataset:" + arg)
	if err == nil || bad != nil {
		return err
	}
	if _, unknown := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: l.Name}); unknown != nil {
		return err
	}
	return cli.Advise(err, l.String()+", if the dataset is meant")
}

func removeCommand(a *cli.App) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove [flags] NAME[@DIGEST]",
		Short: "Forget a dataset, or one version of it",
		Long: `Remove makes the service forget the dataset with all its versions, or one version,
and its manifests. The bytes stay where they are. It is refused while a lease or
a pin holds a replica.`,
		Example:           "  datamove dataset remove imagenet@9c1d40e07ab2f6f2c3f1f29f648abd77bf9e13ec4b010dfa4e8407324162f345",
		Args:              cli.Exactly(1, "NAME or NAME@DIGEST"),
		ValidArgsFunction: a.CompleteDatasets(""),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := datasetArg(args[0])
		if err != nil {
			return err
		}
		what := "the dataset"
		if l.Digest != "" {
			what = "the version"
		}
		if err := a.Confirm("Forget "+what+" "+strings.TrimPrefix(l.String(), "dataset:"), args[0], yes); err != nil {
			return err
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error {
			_, err := c.RemoveDataset(ctx, &pb.RemoveDatasetRequest{Name: l.Name, Digest: l.Digest})
			if errors.Is(err, mover.ErrHeld) || errors.Is(err, mover.ErrRefused) {
				return cli.Advise(err, "datamove dataset show "+l.Name+", which names leases and pins")
			}
			return err
		})
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}
