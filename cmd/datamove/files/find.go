package files

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/catalog"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/catalog/query"
)

func findCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var q catalog.Filter
	var c catalog.Freshness
	var null bool
	var limit int32
	var order query.Order
	cmd := &cobra.Command{
		Use:   "find [flags] LOCATION",
		Short: "Find files by size, age, owner and more, without walking",
		Long: `Find answers from the catalog: what it prints was so when the tier was scanned last, or
when something was last seen to happen there. All flags have to hold of a file. They are
the clauses of policies, so that what a rule would find can be looked at before.

With a service the location is in one of its tiers, and you see what is yours; with the
action catalog.read.any you see everything. Without one this process keeps a catalog of
its own, and scans the location first when it does not have it, or when what it has is
older than --max-age.

Of times the latest counts: a file is idle since it was read, written, changed, first
seen, staged, or last held by a lease.`,
		Example: `  datamove find project: --size '>100GiB' --idle '>90d' --order size --limit 20
  datamove find --owner ada --name '*.pt' --null project:runs | xargs -0 ls -l
  datamove find /data --where 'owner == "ada" && size > 1000000 || name.endsWith(".tmp")'`,
		Args: cli.Exactly(1, "one location"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		asked, err := q.Question(args[0])
		if err != nil {
			return err
		}
		if null {
			f = cli.FormatName
		}
		return catalog.Ask(ctx, a, cmd.Name(), asked, c, func(ctx context.Context, from catalog.Reader) error {
			files := from.Find(ctx, &pb.FindFilesRequest{Question: asked, Order: string(order), Limit: limit})
			if null {
				return printNames(a, files)
			}
			return cli.List(a, f, filesListing, files)
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	q.Flags(flags)
	c.Flags(flags)
	flags.BoolVarP(&null, "null", "0", false, "print names only, each ended by a NUL byte")
	flags.Int32Var(&limit, "limit", 0, "print the first `N`")
	cli.ParsedVar(flags, &order, "order", query.Ordered, "in this `ORDER`: name, size (the largest first), idle (the longest first)")
	return cmd
}

// printNames prints names as they are.
func printNames(a *cli.App, files iter.Seq2[*pb.FileInfo, error]) error {
	out := cli.NewLines(a.Out)
	for file, err := range files {
		if err != nil {
			_ = out.Flush() // what was found before is shown; err is what counts
			return err
		}
		out.Raw(string(file.GetName()) + "\x00")
	}
	return out.Flush()
}

// filesListing is how files are listed.
var filesListing = cli.Listing[*pb.FileInfo]{
	What: "files",
	Columns: []cli.Column[*pb.FileInfo]{
		{Head: "KIND", Width: 7, Text: (*pb.FileInfo).GetKind},
		{Head: "SIZE", Width: -9, Text: func(f *pb.FileInfo) string { return units.Bytes(f.GetBytes()) }},
		{Head: "IDLE", Width: -8, Text: func(f *pb.FileInfo) string { return units.Duration(f.GetIdle().AsDuration().Truncate(time.Second)) }},
		{Head: "OWNER", Width: 8, Text: ownerName},
		{Head: "NAME", Width: 0, Text: func(f *pb.FileInfo) string { return mover.Printable(string(f.GetName())) }},
	},
	View: func(f *pb.FileInfo) any { return catalog.ViewFile(f) },
	Name: func(f *pb.FileInfo) string { return mover.Printable(string(f.GetName())) },
}

func ownerName(f *pb.FileInfo) string {
	switch {
	case f.GetOwner() != "":
		return f.GetOwner()
	case f.Uid != nil:
		return fmt.Sprint(f.GetUid())
	}
	return "-"
}
