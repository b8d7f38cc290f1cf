package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
)

func (a *app) datasetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dataset",
		Short: "Name datasets, and see where they are",
		Long: `A dataset is what moves as one, under a name. Each version of it is one exact
content, named by the digest of its manifest: dataset:NAME is the newest,
dataset:NAME@DIGEST that one.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.datasetAdd(), a.datasetList(), a.datasetShow(), a.datasetReplicas(), a.datasetRemove())
	return cmd
}

func (a *app) datasetAdd() *cobra.Command {
	t := &task{app: a, command: "dataset add"}
	cmd := &cobra.Command{
		Use:   "add [flags] NAME LOCATION",
		Short: "Make a version of a dataset of what is at a location",
		Long: `Add has the service read LOCATION and write down its manifest: every name with its
facts and checksum. That is a version of the dataset NAME, which becomes its newest.
What is at LOCATION stays there, and is a replica of it.`,
		Example: `  datamove dataset add imagenet archive:imagenet
  datamove dataset add --project vision run-7 /lustre/vision/run-7`,
		Args: exactly(2, "NAME and LOCATION"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := absolute(args[1])
		if err != nil {
			return err
		}
		t.source = args[1]
		req := &pb.AddDatasetRequest{Name: args[0], Location: l.String(), Project: t.order.project, Node: t.order.node}
		return a.ask(ctx, listTiers, func(c *api.Client) error {
			err := t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				req.IdempotencyKey = key
				return api.Once(ctx, c, c.AddDataset, req)
			})
			if err != nil || t.order.detach || t.format != formatTable || a.quiet {
				return err
			}
			return a.tellVersion(ctx, c, args[0])
		})
	})
	flags := cmd.Flags()
	formatVar(flags, &t.format, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	flags.BoolVar(&t.order.detach, "detach", false, "print the id of the task, and return")
	t.order.projectVar(flags)
	flags.StringVar(&t.order.node, "node", "", "the `NODE` that has LOCATION, if it is not on all of them")
	return cmd
}

// tellVersion tells what the newest version of a dataset is.
func (a *app) tellVersion(ctx context.Context, c *api.Client, name string) error {
	d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: name})
	if err != nil || len(d.GetVersions()) == 0 {
		return err
	}
	v := d.GetVersions()[0]
	_, err = fmt.Fprintf(a.out, "dataset:%s@%s has %s, %s\n", shown(d.GetName()), shown(v.GetDigest()),
		units.Plural(v.GetEntries(), "entry", "entries"), units.Bytes(v.GetBytes()))
	return err
}

func (a *app) datasetList() *cobra.Command {
	var f format
	req := &pb.ListDatasetsRequest{}
	cmd := &cobra.Command{
		Use:     "list [flags]",
		Short:   "List datasets by name",
		Example: `  datamove dataset list`,
		Args:    cobra.NoArgs,
	}
	cmd.RunE = a.do(func(ctx context.Context, _ []string) error {
		return a.ask(ctx, listDatasets, func(c *api.Client) error { return list(a, f, datasetsListing, c.Datasets(ctx, req)) })
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	cmd.Flags().StringVar(&req.Project, "project", "", "only datasets of this `PROJECT`")
	return cmd
}

// datasetsListing is how datasets are listed.
var datasetsListing = listing[*pb.Dataset]{
	what: "datasets",
	columns: []column[*pb.Dataset]{
		{"NAME", 24, (*pb.Dataset).GetName},
		{"PROJECT", 8, func(d *pb.Dataset) string { return known(d.GetProject()) }},
		{"OWNER", 8, func(d *pb.Dataset) string { return known(d.GetOwner().GetName()) }},
		{"VERSIONS", -8, func(d *pb.Dataset) string { return units.Count(int64(len(d.GetVersions()))) }},
		{"ENTRIES", -11, func(d *pb.Dataset) string { return units.Count(newest(d).GetEntries()) }},
		{"SIZE", -8, func(d *pb.Dataset) string { return units.Bytes(newest(d).GetBytes()) }},
		{"NEWEST", 12, func(d *pb.Dataset) string { return short(newest(d).GetDigest()) }},
		{"AGE", -6, func(d *pb.Dataset) string { return ago(newest(d).GetCreateTime()) }},
	},
	view: func(d *pb.Dataset) any { return viewDataset(d) },
	name: (*pb.Dataset).GetName,
}

func newest(d *pb.Dataset) *pb.Version {
	if len(d.GetVersions()) == 0 {
		return nil
	}
	return d.GetVersions()[0]
}

// short is a digest as people tell them apart.
func short(digest string) string { return digest[:min(len(digest), 12)] }

// datasetView is a dataset as JSON.
type datasetView struct {
	Schema   string        `json:"schema"`
	Name     string        `json:"name"`
	Project  string        `json:"project,omitempty"`
	Owner    string        `json:"owner"`
	UID      uint32        `json:"uid"`
	Created  *time.Time    `json:"created,omitempty"`
	Versions []versionOf   `json:"versions"` // newest first
	Replicas []replicaView `json:"replicas,omitempty"`
	Leases   []leaseView   `json:"leases,omitempty"`
	Pins     []pinView     `json:"pins,omitempty"`
}

// versionOf is one version of a dataset, as JSON.
type versionOf struct {
	Digest  string     `json:"digest"`
	Entries int64      `json:"entries"`
	Bytes   int64      `json:"bytes"`
	Created *time.Time `json:"created,omitempty"`
	Source  string     `json:"source,omitempty"`
}

func viewDataset(d *pb.Dataset) datasetView {
	v := datasetView{Schema: schemaDataset, Name: d.GetName(), Project: d.GetProject(), Owner: d.GetOwner().GetName(), UID: d.GetOwner().GetUid(),
		Created: stamp(d.GetCreateTime()), Versions: []versionOf{}}
	for _, one := range d.GetVersions() {
		v.Versions = append(v.Versions, versionOf{one.GetDigest(), one.GetEntries(), one.GetBytes(), stamp(one.GetCreateTime()), one.GetSource()})
	}
	return v
}

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
		err = advise(mover.Misusef("%s is no dataset", mover.Printable(arg)), named+", as datamove dataset list names them")
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
	return advise(err, l.String()+", if the dataset is meant")
}

func (a *app) datasetRemove() *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "remove [flags] NAME[@DIGEST]",
		Short: "Forget a dataset, or one version of it",
		Long: `Remove makes the service forget the dataset with all its versions, or one version,
and its manifests. The bytes stay where they are. It is refused while somebody holds
a replica by a lease or a pin.`,
		Example:           "  datamove dataset remove imagenet@9c1d40e07ab2f6f2c3f1f29f648abd77bf9e13ec4b010dfa4e8407324162f345",
		Args:              exactly(1, "NAME or NAME@DIGEST"),
		ValidArgsFunction: a.completeDatasets(""),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := datasetArg(args[0])
		if err != nil {
			return err
		}
		what := "the dataset"
		if l.Digest != "" {
			what = "the version"
		}
		if err := a.confirm("Forget "+what+" "+strings.TrimPrefix(l.String(), "dataset:"), args[0], yes); err != nil {
			return err
		}
		return a.ask(ctx, listDatasets, func(c *api.Client) error {
			_, err := c.RemoveDataset(ctx, &pb.RemoveDatasetRequest{Name: l.Name, Digest: l.Digest})
			if errors.Is(err, mover.ErrHeld) || errors.Is(err, mover.ErrRefused) {
				return advise(err, "datamove dataset show "+l.Name+", which names leases and pins")
			}
			return err
		})
	})
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return cmd
}

const schemaDataset = "datamove.dataset/v1"
