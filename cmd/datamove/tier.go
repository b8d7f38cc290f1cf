package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/config"
	"datamove.dev/mover/location"
)

func (a *app) tierCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "tier",
		Short:   "See what tiers there are, and how full they are",
		GroupID: groupLook,
		Long: `With a service, its tiers are shown, a line for each node of a node-local one.
Without one, the tiers of the configuration are shown as this machine sees them: of
a bucket nobody knows how full it is.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.tierLook("list", "List tiers", tiersListing), a.tierLook("df", "Print how full tiers are", fullnessListing))
	return cmd
}

// tierLook makes a command that lists tiers in one way.
func (a *app) tierLook(verb, short string, l listing[*pb.Tier]) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               verb + " [flags] [TIER]",
		Short:             short,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeTiers,
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		address, err := a.service()
		if err != nil {
			return err
		}
		if address == "" {
			return list(a, f, l, a.tiersHere(name))
		}
		return a.ask(ctx, listTiers, func(c *api.Client) error {
			answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{Name: name})
			if err != nil {
				return err
			}
			return list(a, f, l, every(answer.GetTiers()))
		})
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// tiersHere yields the tiers of the configuration as this machine sees them.
func (a *app) tiersHere(name string) iter.Seq2[*pb.Tier, error] {
	return func(yield func(*pb.Tier, error) bool) {
		conf, err := a.config()
		if err == nil && name != "" && conf.Tiers[name].Level == "" {
			err = unknownTier(conf, location.Location{Scheme: location.InTier, Tier: name})
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, one := range slices.Sorted(maps.Keys(conf.Tiers)) {
			if (name == "" || name == one) && !yield(tierHere(one, conf.Tiers[one]), nil) {
				return
			}
		}
	}
}

// tierHere is one tier as this machine sees it. A folder that can not be looked at has
// no size.
func tierHere(name string, t config.Tier) *pb.Tier {
	row := &pb.Tier{Name: name, Level: t.Level, Location: t.Path, Ephemeral: t.Ephemeral}
	if t.S3 != nil {
		row.Location = location.Location{Scheme: location.S3, Bucket: t.S3.Bucket, Prefix: t.S3.Prefix}.String()
		return row
	}
	var fs unix.Statfs_t
	if unix.Statfs(t.Path, &fs) == nil {
		row.TotalBytes, row.FreeBytes = int64(fs.Blocks)*fs.Frsize, int64(fs.Bavail)*fs.Frsize
	}
	return row
}

// tiersListing is what tiers there are.
var tiersListing = listing[*pb.Tier]{
	what: "tiers",
	columns: []column[*pb.Tier]{
		{"NAME", 12, (*pb.Tier).GetName},
		{"LEVEL", 5, (*pb.Tier).GetLevel},
		{"NODE", 8, func(t *pb.Tier) string { return known(t.GetNode()) }},
		{"EPHEMERAL", 9, func(t *pb.Tier) string { return map[bool]string{true: "yes", false: "no"}[t.GetEphemeral()] }},
		{"AGENTS", -6, func(t *pb.Tier) string { return fmt.Sprint(len(t.GetAgents())) }},
		{"LOCATION", 0, func(t *pb.Tier) string { return mover.Printable(t.GetLocation()) }},
	},
	view: func(t *pb.Tier) any { return viewTier(t) },
	name: (*pb.Tier).GetName,
}

// fullnessListing is how full tiers are.
var fullnessListing = listing[*pb.Tier]{
	what: "tiers",
	columns: []column[*pb.Tier]{
		{"NAME", 12, (*pb.Tier).GetName},
		{"NODE", 8, func(t *pb.Tier) string { return known(t.GetNode()) }},
		{"SIZE", -9, func(t *pb.Tier) string { return bytesKnown(t.GetTotalBytes()) }},
		{"FREE", -9, func(t *pb.Tier) string {
			if t.GetTotalBytes() == 0 {
				return "-"
			}
			return bytesKnown(t.GetFreeBytes())
		}},
		{"USED", -5, usedPercent},
		{"REPLICAS", -9, func(t *pb.Tier) string { return bytesKnown(t.GetReplicaBytes()) }},
		{"LEASED", -9, func(t *pb.Tier) string { return bytesKnown(t.GetLeasedBytes()) }},
		{"LOCATION", 0, func(t *pb.Tier) string { return mover.Printable(t.GetLocation()) }},
	},
	view: tiersListing.view,
	name: tiersListing.name,
	colour: func(t *pb.Tier) string {
		switch used := used(t); {
		case used >= 0.95:
			return red
		case used >= 0.85:
			return yellow
		}
		return ""
	},
}

// used is how full a tier is, from 0 to 1.
func used(t *pb.Tier) float64 {
	if t.GetTotalBytes() <= 0 {
		return 0
	}
	return 1 - float64(min(max(t.GetFreeBytes(), 0), t.GetTotalBytes()))/float64(t.GetTotalBytes())
}

func usedPercent(t *pb.Tier) string {
	if t.GetTotalBytes() <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", used(t)*100)
}

// tierView is a tier as JSON.
type tierView struct {
	Schema       string   `json:"schema"`
	Name         string   `json:"name"`
	Level        string   `json:"level"`
	Location     string   `json:"location"`
	Node         string   `json:"node,omitempty"`
	Ephemeral    bool     `json:"ephemeral"`
	TotalBytes   *int64   `json:"total_bytes,omitempty"` // absent: not known
	FreeBytes    *int64   `json:"free_bytes,omitempty"`
	ReplicaBytes int64    `json:"replica_bytes"`
	LeasedBytes  int64    `json:"leased_bytes"`
	Agents       []string `json:"agents,omitempty"`
}

func viewTier(t *pb.Tier) tierView {
	v := tierView{Schema: schemaTier, Name: t.GetName(), Level: t.GetLevel(), Location: t.GetLocation(), Node: t.GetNode(), Ephemeral: t.GetEphemeral(),
		ReplicaBytes: t.GetReplicaBytes(), LeasedBytes: t.GetLeasedBytes(), Agents: t.GetAgents()}
	if t.GetTotalBytes() > 0 {
		v.TotalBytes, v.FreeBytes = &t.TotalBytes, &t.FreeBytes
	}
	return v
}
