// Package tier has the commands of tiers: list, df, scan and scans.
//
// Tiers are those of the service, or of the configuration as this machine sees them. cmd/datamove/root TestTierRoom prints a tier that is full by its project.
package tier

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
)

const schemaTier = "datamove.tier/v1"

// Command is datamove tier.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "See what tiers there are, and how full they are",
		Long: `With a service, its tiers are shown, a line for each node of a node-local one.
Without one, the tiers of the configuration are shown as this machine sees them; a
bucket has no size. QUOTA LEFT is what the project of the folder may
still write; FULLEST is the server of a parallel file system that is the fullest: files
that have a stripe there can not grow when it is full, however much is free elsewhere.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(lookCommand(a, "list", "List tiers", listing, listing, nil), lookCommand(a, "df", "Print how full tiers are", fullnessListing, roomListing, func(ctx context.Context, dir string) (*room, error) { return measure(ctx, a, dir) }),
		scanCommand(a), scansCommand(a))
	return cmd
}

// row is a tier, and what its file system says beside.
type row struct {
	*pb.Tier
	here config.Tier // as this machine has it
	room *room       // nil when it is not known
	err  error       // why its folder can not be looked at
}

// lookCommand makes a command that lists tiers in one way, those of a service and those of
// this machine. look asks the file system of a tier that is a folder here; nil does not.
func lookCommand(a *cli.App, verb, short string, there, here cli.Listing[row], look func(context.Context, string) (*room, error)) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               verb + " [flags] [TIER]",
		Short:             short,
		Example:           "  datamove tier " + verb,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteTiers(),
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		address, err := a.Service()
		if err != nil {
			return err
		}
		if address == "" {
			rows, err := tiersHere(a, name)
			if err != nil {
				return err
			}
			cli.InParallel(len(rows), func(i int) { rows[i].look(ctx, look) })
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := cli.List(a, f, here, cli.Every(rows)); err != nil {
				return err
			}
			return tellRooms(a, rows)
		}
		return a.AskService(ctx, cli.TierList, func(c *api.Client) error {
			answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{Name: name})
			if err != nil {
				return err
			}
			rows := make([]row, len(answer.GetTiers()))
			for i, t := range answer.GetTiers() {
				rows[i].Tier = t
			}
			return cli.List(a, f, there, cli.Every(rows))
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// tiersHere are the tiers of the configuration, or the one of that name, without what
// file systems say.
func tiersHere(a *cli.App, name string) (rows []row, err error) {
	conf, err := a.Config()
	if err == nil && name != "" && conf.Tiers[name].Level == "" {
		err = conf.NoTier(name)
	}
	if err != nil {
		return nil, err
	}
	for _, one := range slices.Sorted(maps.Keys(conf.Tiers)) {
		if name == "" || name == one {
			rows = append(rows, row{Tier: tierHere(one, conf.Tiers[one]), here: conf.Tiers[one]})
		}
	}
	return rows, nil
}

func tierHere(name string, t config.Tier) *pb.Tier {
	row := &pb.Tier{Name: name, Level: t.Level, Location: t.Path, Ephemeral: t.Ephemeral}
	if t.S3 != nil {
		row.Location = t.At("").String()
	}
	return row
}

// look asks how full the folder of a tier is, and with more, what its file system says
// beside. One that can not be looked at has no size.
func (t *row) look(ctx context.Context, more func(context.Context, string) (*room, error)) {
	dir := t.GetLocation()
	if !filepath.IsAbs(dir) {
		return // a bucket
	}
	fs, err := cli.Probe(ctx, cli.ProbeTime, dir, func(ctx context.Context) (unix.Statfs_t, error) {
		var fs unix.Statfs_t
		err := unix.Statfs(dir, &fs)
		for err == unix.EINTR && ctx.Err() == nil {
			err = unix.Statfs(dir, &fs)
		}
		if err != nil {
			return fs, &os.PathError{Op: "statfs", Path: dir, Err: err}
		}
		return fs, nil
	})
	if err == nil {
		err = backend.Mounted(t.here)
	}
	if err != nil {
		t.err = err
		return
	}
	t.TotalBytes, t.FreeBytes = int64(fs.Blocks)*fs.Frsize, int64(fs.Bavail)*fs.Frsize
	if more != nil {
		t.room, t.err = more(ctx, dir)
	}
}

// where is the location of a tier, and what is wrong with it.
func (t row) where() string {
	where := mover.Printable(t.GetLocation())
	if t.err != nil {
		return where + " (" + t.why() + ")"
	}
	return where
}

// why is why a tier can not be looked at; "" when it can.
func (t row) why() string {
	var (
		s *cli.NoAnswer
		p *os.PathError
	)
	switch {
	case t.err == nil:
		return ""
	case errors.As(t.err, &s):
		return s.Short()
	case errors.As(t.err, &p):
		return p.Err.Error()
	}
	return t.err.Error()
}

// listing is what tiers there are.
var listing = cli.Listing[row]{
	What: "tiers",
	Columns: []cli.Column[row]{
		{Head: "NAME", Width: 12, Text: row.GetName},
		{Head: "LEVEL", Width: 5, Text: row.GetLevel},
		{Head: "NODE", Width: 8, Text: func(t row) string { return cli.OrDash(t.GetNode()) }},
		{Head: "EPHEMERAL", Width: 9, Text: func(t row) string { return map[bool]string{true: "yes", false: "no"}[t.GetEphemeral()] }},
		{Head: "AGENTS", Width: -6, Text: func(t row) string { return fmt.Sprint(len(t.GetAgents())) }},
		{Head: "LOCATION", Width: 0, Text: row.where},
	},
	View: func(t row) any { return viewOf(t) },
	Name: row.GetName,
}

// fullnessListing is how full tiers are.
var fullnessListing = cli.Listing[row]{
	What: "tiers",
	Columns: []cli.Column[row]{
		{Head: "NAME", Width: 12, Text: row.GetName},
		{Head: "NODE", Width: 8, Text: func(t row) string { return cli.OrDash(t.GetNode()) }},
		{Head: "SIZE", Width: -9, Text: totalText}, {Head: "FREE", Width: -9, Text: freeText},
		{Head: "USED", Width: -5, Text: usedPercent},
		{Head: "REPLICAS", Width: -9, Text: func(t row) string { return cli.BytesOrDash(t.GetReplicaBytes()) }},
		{Head: "LEASED", Width: -9, Text: func(t row) string { return cli.BytesOrDash(t.GetLeasedBytes()) }},
		{Head: "LOCATION", Width: 0, Text: row.where},
	},
	View: listing.View,
	Name: listing.Name,
	Colour: func(t row) string {
		switch used := max(used(t), t.room.worst()); {
		case used >= 0.95:
			return cli.Red
		case used >= 0.85:
			return cli.Yellow
		}
		return ""
	},
}

// roomListing is how full tiers are as this machine sees them.
var roomListing = cli.Listing[row]{
	What: "tiers",
	Columns: []cli.Column[row]{
		{Head: "NAME", Width: 12, Text: row.GetName},
		{Head: "SIZE", Width: -9, Text: totalText}, {Head: "FREE", Width: -9, Text: freeText}, {Head: "USED", Width: -5, Text: usedPercent},
		{Head: "QUOTA LEFT", Width: -10, Text: func(t row) string { return t.room.left() }},
		{Head: "FULLEST", Width: -7, Text: func(t row) string { return t.room.fullest() }},
		{Head: "LOCATION", Width: 0, Text: row.where},
	},
	View:   listing.View,
	Name:   listing.Name,
	Colour: fullnessListing.Colour,
}

// used is how full a tier is, from 0 to 1.
func used(t row) float64 {
	if t.GetTotalBytes() <= 0 {
		return 0
	}
	return 1 - float64(min(max(t.GetFreeBytes(), 0), t.GetTotalBytes()))/float64(t.GetTotalBytes())
}

func totalText(t row) string { return cli.BytesOrDash(t.GetTotalBytes()) }

func freeText(t row) string {
	if t.GetTotalBytes() == 0 {
		return "-"
	}
	return units.Bytes(t.GetFreeBytes())
}

func usedPercent(t row) string {
	if t.GetTotalBytes() <= 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f%%", used(t)*100)
}

// view is a tier as JSON.
type view struct {
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
	Room         *room    `json:"file_system,omitempty"` // what the file system says; absent: not known
	Error        string   `json:"error,omitempty"`       // why it can not be looked at
}

func viewOf(t row) view {
	v := view{Room: t.room, Error: t.why(), Schema: schemaTier, Name: t.GetName(), Level: t.GetLevel(), Location: t.GetLocation(), Node: t.GetNode(), Ephemeral: t.GetEphemeral(),
		ReplicaBytes: t.GetReplicaBytes(), LeasedBytes: t.GetLeasedBytes(), Agents: t.GetAgents()}
	if t.GetTotalBytes() > 0 {
		v.TotalBytes, v.FreeBytes = &t.TotalBytes, &t.FreeBytes
	}
	return v
}
