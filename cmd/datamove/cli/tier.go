package cli

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
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/units"
)

func (a *app) tierCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "See what tiers there are, and how full they are",
		Long: `With a service, its tiers are shown, a line for each node of a node-local one.
Without one, the tiers of the configuration are shown as this machine sees them: of
a bucket nobody knows how full it is. QUOTA LEFT is what the project of the folder may
still write; FULLEST is the server of a parallel file system that is the fullest: files
that have a stripe there can not grow when it is full, however much is free elsewhere.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.tierLook("list", "List tiers", tiersListing, tiersListing, nil), a.tierLook("df", "Print how full tiers are", fullnessListing, roomListing, func(ctx context.Context, dir string) (*room, error) { return a.measure(ctx, dir) }),
		a.tierScan(), a.tierScans())
	return cmd
}

// tierRow is a tier, and what its file system says beside.
type tierRow struct {
	*pb.Tier
	here config.Tier // as this machine has it
	room *room       // nil when it is not known
	err  error       // why its folder can not be looked at
}

// tierLook makes a command that lists tiers in one way, those of a service and those of
// this machine. look asks the file system of a tier that is a folder here; nil does not.
func (a *app) tierLook(verb, short string, there, here listing[tierRow], look func(context.Context, string) (*room, error)) *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               verb + " [flags] [TIER]",
		Short:             short,
		Example:           "  datamove tier " + verb,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeTiers(),
	}
	cmd.RunE = a.doApart(func(ctx context.Context, args []string) error {
		name := ""
		if len(args) == 1 {
			name = args[0]
		}
		address, err := a.service()
		if err != nil {
			return err
		}
		if address == "" {
			rows, err := a.tiersHere(name)
			if err != nil {
				return err
			}
			inParallel(len(rows), func(i int) { rows[i].look(ctx, look) })
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := list(a, f, here, every(rows)); err != nil {
				return err
			}
			return a.tellRooms(rows)
		}
		return a.ask(ctx, listTiers, func(c *api.Client) error {
			answer, err := c.ListTiers(ctx, &pb.ListTiersRequest{Name: name})
			if err != nil {
				return err
			}
			rows := make([]tierRow, len(answer.GetTiers()))
			for i, t := range answer.GetTiers() {
				rows[i].Tier = t
			}
			return list(a, f, there, every(rows))
		})
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

// tiersHere are the tiers of the configuration, or the one of that name, without what
// file systems say.
func (a *app) tiersHere(name string) (rows []tierRow, err error) {
	conf, err := a.config()
	if err == nil && name != "" && conf.Tiers[name].Level == "" {
		err = conf.NoTier(name)
	}
	if err != nil {
		return nil, err
	}
	for _, one := range slices.Sorted(maps.Keys(conf.Tiers)) {
		if name == "" || name == one {
			rows = append(rows, tierRow{Tier: tierHere(one, conf.Tiers[one]), here: conf.Tiers[one]})
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
func (t *tierRow) look(ctx context.Context, more func(context.Context, string) (*room, error)) {
	dir := t.GetLocation()
	if !filepath.IsAbs(dir) {
		return // a bucket
	}
	fs, err := answered(ctx, answerTime, dir, func(ctx context.Context) (unix.Statfs_t, error) {
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
func (t tierRow) where() string {
	where := mover.Printable(t.GetLocation())
	if t.err != nil {
		return where + " (" + t.why() + ")"
	}
	return where
}

// why is why a tier can not be looked at; "" when it can.
func (t tierRow) why() string {
	var (
		s *silence
		p *os.PathError
	)
	switch {
	case t.err == nil:
		return ""
	case errors.As(t.err, &s):
		return s.short()
	case errors.As(t.err, &p):
		return p.Err.Error()
	}
	return t.err.Error()
}

// tiersListing is what tiers there are.
var tiersListing = listing[tierRow]{
	what: "tiers",
	columns: []column[tierRow]{
		{"NAME", 12, tierRow.GetName},
		{"LEVEL", 5, tierRow.GetLevel},
		{"NODE", 8, func(t tierRow) string { return known(t.GetNode()) }},
		{"EPHEMERAL", 9, func(t tierRow) string { return map[bool]string{true: "yes", false: "no"}[t.GetEphemeral()] }},
		{"AGENTS", -6, func(t tierRow) string { return fmt.Sprint(len(t.GetAgents())) }},
		{"LOCATION", 0, tierRow.where},
	},
	view: func(t tierRow) any { return viewTier(t) },
	name: tierRow.GetName,
}

// fullnessListing is how full tiers are.
var fullnessListing = listing[tierRow]{
	what: "tiers",
	columns: []column[tierRow]{
		{"NAME", 12, tierRow.GetName},
		{"NODE", 8, func(t tierRow) string { return known(t.GetNode()) }},
		{"SIZE", -9, totalText}, {"FREE", -9, freeText},
		{"USED", -5, usedPercent},
		{"REPLICAS", -9, func(t tierRow) string { return bytesKnown(t.GetReplicaBytes()) }},
		{"LEASED", -9, func(t tierRow) string { return bytesKnown(t.GetLeasedBytes()) }},
		{"LOCATION", 0, tierRow.where},
	},
	view: tiersListing.view,
	name: tiersListing.name,
	colour: func(t tierRow) string {
		switch used := max(used(t), t.room.worst()); {
		case used >= 0.95:
			return red
		case used >= 0.85:
			return yellow
		}
		return ""
	},
}

// roomListing is how full tiers are as this machine sees them.
var roomListing = listing[tierRow]{
	what: "tiers",
	columns: []column[tierRow]{
		{"NAME", 12, tierRow.GetName},
		{"SIZE", -9, totalText}, {"FREE", -9, freeText}, {"USED", -5, usedPercent},
		{"QUOTA LEFT", -10, func(t tierRow) string { return t.room.left() }},
		{"FULLEST", -7, func(t tierRow) string { return t.room.fullest() }},
		{"LOCATION", 0, tierRow.where},
	},
	view:   tiersListing.view,
	name:   tiersListing.name,
	colour: fullnessListing.colour,
}

// used is how full a tier is, from 0 to 1.
func used(t tierRow) float64 {
	if t.GetTotalBytes() <= 0 {
		return 0
	}
	return 1 - float64(min(max(t.GetFreeBytes(), 0), t.GetTotalBytes()))/float64(t.GetTotalBytes())
}

func totalText(t tierRow) string { return bytesKnown(t.GetTotalBytes()) }

func freeText(t tierRow) string {
	if t.GetTotalBytes() == 0 {
		return "-"
	}
	return units.Bytes(t.GetFreeBytes())
}

func usedPercent(t tierRow) string {
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
	Room         *room    `json:"file_system,omitempty"` // what the file system says; absent: not known
	Error        string   `json:"error,omitempty"`       // why it can not be looked at
}

func viewTier(t tierRow) tierView {
	v := tierView{Room: t.room, Error: t.why(), Schema: schemaTier, Name: t.GetName(), Level: t.GetLevel(), Location: t.GetLocation(), Node: t.GetNode(), Ephemeral: t.GetEphemeral(),
		ReplicaBytes: t.GetReplicaBytes(), LeasedBytes: t.GetLeasedBytes(), Agents: t.GetAgents()}
	if t.GetTotalBytes() > 0 {
		v.TotalBytes, v.FreeBytes = &t.TotalBytes, &t.FreeBytes
	}
	return v
}

const schemaTier = "datamove.tier/v1"
