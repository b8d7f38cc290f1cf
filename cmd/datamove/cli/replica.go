package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

func (a *app) datasetReplicas() *cobra.Command {
	var f format
	req := &pb.ListReplicasRequest{}
	cmd := &cobra.Command{
		Use:               "replicas [flags] [NAME[@DIGEST]]",
		Short:             "List where datasets are",
		Example:           "  datamove dataset replicas --tier scratch --node n17",
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeDatasets(""),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			l, err := datasetArg(args[0])
			if err != nil {
				return err
			}
			req.Dataset, req.Digest = l.Name, l.Digest
		}
		return a.ask(ctx, listDatasets, func(c *api.Client) error { return list(a, f, replicasListing, c.Replicas(ctx, req)) })
	})
	flags := cmd.Flags()
	formatVar(flags, &f, listFormats...)
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Node, "node", "", "only on this `NODE`")
	return cmd
}

// replicasListing is how replicas are listed.
var replicasListing = listing[*pb.Replica]{
	what: "replicas",
	columns: []column[*pb.Replica]{
		{"DATASET", 24, func(r *pb.Replica) string { return known(r.GetDataset()) }},
		{"DIGEST", 12, func(r *pb.Replica) string { return known(short(r.GetDigest())) }},
		{"TIER", 10, func(r *pb.Replica) string { return known(r.GetTier()) }},
		{"NODE", 8, func(r *pb.Replica) string { return known(r.GetNode()) }},
		{"STATE", 8, func(r *pb.Replica) string { return replicaWord(r.GetState()) }},
		{"CHECKED", 8, checkedWord},
		{"SIZE", -8, func(r *pb.Replica) string { return units.Bytes(r.GetBytes()) }},
		{"LEASES", -6, func(r *pb.Replica) string { return units.Count(int64(r.GetLeases())) }},
		{"PINNED UNTIL", 19, func(r *pb.Replica) string { return moment(r.GetPinnedUntil()) }},
		{"LOCATION", 0, func(r *pb.Replica) string { return mover.Printable(r.GetLocation()) }},
	},
	view: func(r *pb.Replica) any { return viewReplica(r) },
	name: (*pb.Replica).GetLocation,
}

// checkedWord is how a replica was checked. Of one that is whole, and that nothing relies on
// any more, it is a warning.
func checkedWord(r *pb.Replica) string {
	if r.GetState() == pb.ReplicaState_REPLICA_STATE_WHOLE && r.GetLevel() == pb.Level_LEVEL_UNSPECIFIED {
		return "doubted"
	}
	return known(levelWord(r.GetLevel()))
}

// replicaView is a replica as JSON.
type replicaView struct {
	Schema      string     `json:"schema"`
	Dataset     string     `json:"dataset"`
	Digest      string     `json:"digest"`
	Tier        string     `json:"tier,omitempty"`
	Node        string     `json:"node,omitempty"`
	Location    string     `json:"location"`
	State       string     `json:"state"`
	Level       string     `json:"level,omitempty"`
	Bytes       int64      `json:"bytes"`
	Leases      int32      `json:"leases"`
	PinnedUntil *time.Time `json:"pinned_until,omitempty"`
	Created     *time.Time `json:"created,omitempty"`
	Used        *time.Time `json:"used,omitempty"`
	Task        string     `json:"task,omitempty"`
	Unguarded   string     `json:"unguarded,omitempty"` // as in the API
}

func viewReplica(r *pb.Replica) replicaView {
	return replicaView{Schema: schemaReplica, Dataset: r.GetDataset(), Digest: r.GetDigest(), Tier: r.GetTier(), Node: r.GetNode(), Location: r.GetLocation(),
		State: replicaWord(r.GetState()), Level: levelWord(r.GetLevel()), Bytes: r.GetBytes(), Leases: r.GetLeases(), PinnedUntil: stamp(r.GetPinnedUntil()),
		Created: stamp(r.GetCreateTime()), Used: stamp(r.GetUseTime()), Task: r.GetTask(), Unguarded: r.GetUnguarded()}
}

func (a *app) datasetShow() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               "show [flags] NAME",
		Short:             "Print the versions of a dataset, its replicas, leases and pins",
		Example:           "  datamove dataset show imagenet",
		Args:              exactly(1, "the NAME of a dataset"),
		ValidArgsFunction: a.completeDatasets(""),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := datasetArg(args[0])
		if err != nil {
			return err
		}
		return a.ask(ctx, listDatasets, func(c *api.Client) error {
			d, err := c.GetDataset(ctx, &pb.GetDatasetRequest{Name: l.Name})
			if err != nil {
				return err
			}
			s := &datasetShown{dataset: d}
			if err := s.fetch(ctx, c); err != nil {
				return err
			}
			if f != formatTable {
				return writeOne(a.out, f, s.view())
			}
			return s.table(a)
		})
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatJSONL, formatYAML)
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
	if err := one(c.Replicas(ctx, &pb.ListReplicasRequest{Dataset: name}), func(r *pb.Replica) error { s.replicas = append(s.replicas, r); return nil }); err != nil {
		return err
	}
	if err := one(c.Leases(ctx, &pb.ListLeasesRequest{Dataset: name}), func(l *pb.Lease) error { s.leases = append(s.leases, l); return nil }); err != nil {
		return err
	}
	return one(c.Pins(ctx, &pb.ListPinsRequest{Dataset: name}), func(p *pb.PinInfo) error { s.pins = append(s.pins, p); return nil })
}

func (s *datasetShown) view() datasetView {
	v := viewDataset(s.dataset)
	for _, r := range s.replicas {
		v.Replicas = append(v.Replicas, viewReplica(r))
	}
	for _, l := range s.leases {
		v.Leases = append(v.Leases, viewLease(l))
	}
	for _, p := range s.pins {
		v.Pins = append(v.Pins, viewPin(p))
	}
	return v
}

func (s *datasetShown) table(a *app) error {
	d := s.dataset
	fmt.Fprintf(a.out, "dataset:%s of %s, project %s\n", shown(d.GetName()), shown(known(d.GetOwner().GetName())), shown(known(d.GetProject())))
	for _, v := range d.GetVersions() {
		fmt.Fprintf(a.out, "  %s  %s, %s, made %s of %s\n", shown(v.GetDigest()), units.Plural(v.GetEntries(), "entry", "entries"), units.Bytes(v.GetBytes()),
			moment(v.GetCreateTime()), shown(mover.Printable(v.GetSource())))
	}
	fmt.Fprintln(a.out)
	if err := list(a, formatTable, replicasListing, every(s.replicas)); err != nil {
		return err
	}
	if len(s.leases) > 0 {
		fmt.Fprintln(a.out)
		if err := list(a, formatTable, leasesListing, every(s.leases)); err != nil {
			return err
		}
	}
	if len(s.pins) > 0 {
		fmt.Fprintln(a.out)
		return list(a, formatTable, pinsListing, every(s.pins))
	}
	return nil
}

const schemaReplica = "datamove.replica/v1"
