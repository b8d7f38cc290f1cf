package tier

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/catalog"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

const schemaScan = "datamove.scan/v1"

func scanCommand(a *cli.App) *cobra.Command {
	var node string
	var detach bool
	cmd := &cobra.Command{
		Use:   "scan [flags] TIER",
		Short: "Have a tier walked, and the catalog brought up to date",
		Long: `Scan has an agent walk the whole tier as root, for find, usage and policies. It waits in
line behind all other work. A scan that runs already is waited for. It is for roles with
the action catalog.scan. Of a node-local tier each node has its own catalog.`,
		Example: `  datamove tier scan project
  datamove tier scan --node n17 scratch`,
		Args:              cli.Exactly(1, "one tier"),
		ValidArgsFunction: a.CompleteTiers(),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return a.AskService(ctx, cli.TierList, func(c *api.Client) error {
			tasks, err := catalog.Scan(ctx, a, c, "tier scan", args[0], node, detach)
			if err != nil || a.Quiet {
				return err
			}
			for _, t := range tasks {
				for _, note := range t.GetReport().GetNotes() {
					if _, err := fmt.Fprintf(a.Out, "%s: %s\n", cli.Shown(scannedName(t.GetSpec())), cli.Shown(note)); err != nil {
						return err
					}
				}
			}
			return nil
		})
	})
	flags := cmd.Flags()
	flags.StringVar(&node, "node", "", "the `NODE` of a node-local tier (default all that have it)")
	flags.BoolVar(&detach, "detach", false, "print the ids of the tasks, and return")
	return cmd
}

// scannedName is what a task scans, for people.
func scannedName(spec *pb.TaskSpec) string {
	name := strings.TrimSuffix(spec.GetSource(), ":")
	if spec.GetNode() != "" {
		name += " on " + spec.GetNode()
	}
	return name
}

func scansCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "scans [flags] [TIER]",
		Short:             "See how old the catalog of each tier is",
		Example:           `  datamove tier scans project`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteTiers(),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		req := &pb.ListScansRequest{}
		if len(args) == 1 {
			req.Tier = args[0]
		}
		return a.AskService(ctx, cli.TierList, func(c *api.Client) error {
			answer, err := c.ListScans(ctx, req)
			if err != nil {
				return err
			}
			return cli.List(a, f, scansListing, cli.Every(answer.GetScans()))
		})
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// scansListing is how scans are listed.
var scansListing = cli.Listing[*pb.Scan]{
	What: "scans",
	None: "nothing was scanned yet: datamove tier scan TIER does it",
	Columns: []cli.Column[*pb.Scan]{
		{Head: "TIER", Width: 12, Text: (*pb.Scan).GetTier},
		{Head: "NODE", Width: 8, Text: func(s *pb.Scan) string { return cli.OrDash(s.GetNode()) }},
		{Head: "SCANNED", Width: -9, Text: func(s *pb.Scan) string { return cli.Ago(s.GetTime()) }},
		{Head: "VERIFIED", Width: -9, Text: func(s *pb.Scan) string { return cli.Ago(s.GetVerified()) }},
		{Head: "TOOK", Width: -7, Text: func(s *pb.Scan) string {
			if s.GetTook() == nil {
				return "-"
			}
			return units.Duration(s.GetTook().AsDuration())
		}},
		{Head: "FILES", Width: -13, Text: func(s *pb.Scan) string { return units.Count(s.GetFiles()) }},
		{Head: "FOLDERS", Width: -11, Text: func(s *pb.Scan) string { return units.Count(s.GetDirs()) }},
		{Head: "BYTES", Width: -9, Text: func(s *pb.Scan) string { return units.Bytes(s.GetBytes()) }},
		{Head: "UNREAD", Width: -7, Text: func(s *pb.Scan) string { return units.Count(s.GetUnread()) }},
		{Head: "NOW", Width: 0, Text: scanNow},
	},
	View: viewScan,
	Name: (*pb.Scan).GetTier,
}

// scanNow is what happens to the catalog of a tree at this moment.
func scanNow(s *pb.Scan) string {
	var now []string
	if s.GetBegan() != nil {
		now = append(now, "a scan began "+cli.Ago(s.GetBegan())+" ago, and has not come to its end")
	}
	if f := s.GetFollowing(); f != nil {
		what := f.GetFeed() + " tells of changes"
		if f.GetTime() != nil {
			what += ", as of " + cli.Ago(f.GetTime()) + " ago"
		}
		now = append(now, what)
	}
	return cli.OrDash(strings.Join(now, "; "))
}

// viewScan is what is known of a tree as a whole, as JSON. A tier without a feed follows none.
var viewScan = cli.View("schema:"+schemaScan+" tier node? scanned=time? verified? took_seconds=took? began? files dirs others bytes stored_bytes unread unread_names?"+
	" following? { feed time? lag_seconds=lag events scans left }", map[string]func(*pb.Scan) any{
	"unread_names": func(s *pb.Scan) any {
		if len(s.GetUnreadNames()) == 0 {
			return nil
		}
		var names []string
		for _, name := range s.GetUnreadNames() {
			names = append(names, mover.Printable(string(name)))
		}
		return names
	},
})
