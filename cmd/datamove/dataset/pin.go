package dataset

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

const schemaPin = "datamove.pin/v1"

func pinCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var until time.Time
	req := &pb.PinRequest{}
	cmd := &cobra.Command{
		Use:   "pin [flags] dataset:NAME[@DIGEST] --until DATE",
		Short: "Keep replicas of a dataset until a date",
		Long: `Pin keeps replicas of a dataset, of all its versions or of one, on all tiers or
with --tier on one, until a date: they are neither released nor evicted before.
Another pin of the same replaces it.`,
		Example: `  datamove pin dataset:imagenet --tier scratch --until 7d --reason 'ablations of June'
  datamove pin list`,
		Args:              cli.Exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.CompleteDatasets("dataset:"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		switch {
		case err != nil:
			return err
		case until.IsZero():
			return cli.Advise(mover.Misusef("pin until when? --until is not given"), "--until 2027-01-31, or --until 30d")
		}
		req.Source, req.Until = l.String(), timestamppb.New(until)
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error {
			pin, err := api.Once(ctx, c, c.Pin, req)
			if err != nil {
				return err
			}
			return cli.List(a, f, pinsListing, cli.Every([]*pb.PinInfo{pin}))
		})
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &f, cli.ListFormats...)
	cli.ParsedVar(flags, &until, "until", cli.ParseUntil, "keep them until this `DATE`, or for that long: 2027-01-31, 30d")
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Reason, "reason", "", "say `WHY`, for others")
	cmd.AddCommand(pinListCommand(a))
	return cmd
}

func pinListCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	cmd := &cobra.Command{
		Use:               "list [flags] [dataset:NAME]",
		Short:             "List pins that last",
		Example:           `  datamove pin list dataset:imagenet`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.CompleteDatasets("dataset:"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		req := &pb.ListPinsRequest{}
		if len(args) == 1 {
			l, err := datasetArg(args[0])
			if err != nil {
				return err
			}
			req.Dataset = l.Name
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error { return cli.List(a, f, pinsListing, c.Pins(ctx, req)) })
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

func unpinCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	tier := ""
	cmd := &cobra.Command{
		Use:   "unpin [flags] dataset:NAME[@DIGEST]",
		Short: "End pins of a dataset",
		Long: `Unpin ends the pins of a dataset: all of them, or those of one version, or with
--tier those on one tier, and prints which have ended. None is no error.`,
		Example:           "  datamove unpin dataset:imagenet --tier scratch",
		Args:              cli.Exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.CompleteDatasets("dataset:"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		if err != nil {
			return err
		}
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error { return cli.List(a, f, endedPins, unpinned(ctx, c, l, tier)) })
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	cmd.Flags().StringVar(&tier, "tier", "", "only those on this `TIER`")
	return cmd
}

// unpinned ends pins, and yields them.
func unpinned(ctx context.Context, c *api.Client, l location.Location, tier string) iter.Seq2[*pb.PinInfo, error] {
	return func(yield func(*pb.PinInfo, error) bool) {
		for pin, err := range c.Pins(ctx, &pb.ListPinsRequest{Dataset: l.Name}) {
			if err == nil && (l.Digest != "" && pin.GetDigest() != l.Digest || tier != "" && pin.GetTier() != tier) {
				continue
			}
			if err == nil {
				at := location.OfDataset(pin.GetDataset(), pin.GetDigest())
				_, err = c.Unpin(ctx, &pb.UnpinRequest{Source: at.String(), Tier: pin.GetTier()})
			}
			if !yield(pin, err) || err != nil {
				return
			}
		}
	}
}

// pinsListing is how pins are listed.
var pinsListing = cli.Listing[*pb.PinInfo]{
	What: "pins",
	Columns: []cli.Column[*pb.PinInfo]{
		{Head: "DATASET", Width: 24, Text: (*pb.PinInfo).GetDataset},
		{Head: "DIGEST", Width: 12, Text: func(p *pb.PinInfo) string { return all(short(p.GetDigest())) }},
		{Head: "TIER", Width: 10, Text: func(p *pb.PinInfo) string { return all(p.GetTier()) }},
		{Head: "UNTIL", Width: 19, Text: func(p *pb.PinInfo) string { return cli.Moment(p.GetUntil()) }},
		{Head: "OWNER", Width: 8, Text: func(p *pb.PinInfo) string { return cli.OrDash(p.GetOwner().GetName()) }},
		{Head: "REASON", Width: 0, Text: (*pb.PinInfo).GetReason},
	},
	View: viewPin,
	Name: (*pb.PinInfo).GetDataset,
}

// endedPins is how pins are told that were ended.
var endedPins = cli.Listing[*pb.PinInfo]{
	What: "pins", None: "nothing of it is pinned", View: pinsListing.View, Name: pinsListing.Name,
	Columns: append([]cli.Column[*pb.PinInfo]{{Head: "ENDED", Width: 5, Text: func(*pb.PinInfo) string { return "pin" }}}, pinsListing.Columns...),
}

// all says what a filter that is empty lets through.
func all(text string) string {
	if text == "" {
		return "all"
	}
	return text
}

// viewPin is a pin as JSON: without a digest of every version, without a tier on every tier.
var viewPin = cli.View[*pb.PinInfo]("schema:"+schemaPin+" dataset digest? tier? until? reason? owner=owner.name uid=owner.uid", nil)
