package cli

import (
	"context"
	"iter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

func (a *app) pinCommand() *cobra.Command {
	var f format
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
		Args:              exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.completeDatasets("dataset:"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		switch {
		case err != nil:
			return err
		case until.IsZero():
			return advise(mover.Misusef("pin until when? --until is not given"), "--until 2027-01-31, or --until 30d")
		}
		req.Source, req.Until = l.String(), timestamppb.New(until)
		return a.ask(ctx, listDatasets, func(c *api.Client) error {
			pin, err := api.Once(ctx, c, c.Pin, req)
			if err != nil {
				return err
			}
			return list(a, f, pinsListing, every([]*pb.PinInfo{pin}))
		})
	})
	flags := cmd.Flags()
	formatVar(flags, &f, listFormats...)
	parsedVar(flags, &until, "until", parseUntil, "keep them until this `DATE`, or for that long: 2027-01-31, 30d")
	flags.StringVar(&req.Tier, "tier", "", "only on this `TIER`")
	flags.StringVar(&req.Reason, "reason", "", "say `WHY`, for others")
	cmd.AddCommand(a.pinList())
	return cmd
}

func (a *app) pinList() *cobra.Command {
	var f format
	cmd := &cobra.Command{
		Use:               "list [flags] [dataset:NAME]",
		Short:             "List pins that last",
		Example:           `  datamove pin list dataset:imagenet`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: a.completeDatasets("dataset:"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		req := &pb.ListPinsRequest{}
		if len(args) == 1 {
			l, err := datasetArg(args[0])
			if err != nil {
				return err
			}
			req.Dataset = l.Name
		}
		return a.ask(ctx, listDatasets, func(c *api.Client) error { return list(a, f, pinsListing, c.Pins(ctx, req)) })
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	return cmd
}

func (a *app) unpinCommand() *cobra.Command {
	var f format
	tier := ""
	cmd := &cobra.Command{
		Use:   "unpin [flags] dataset:NAME[@DIGEST]",
		Short: "End pins of a dataset",
		Long: `Unpin ends the pins of a dataset: all of them, or those of one version, or with
--tier those on one tier, and prints which have ended. None is no error.`,
		Example:           "  datamove unpin dataset:imagenet --tier scratch",
		Args:              exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.completeDatasets("dataset:"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		if err != nil {
			return err
		}
		return a.ask(ctx, listDatasets, func(c *api.Client) error { return list(a, f, endedPins, unpinned(ctx, c, l, tier)) })
	})
	formatVar(cmd.Flags(), &f, listFormats...)
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
var pinsListing = listing[*pb.PinInfo]{
	what: "pins",
	columns: []column[*pb.PinInfo]{
		{"DATASET", 24, (*pb.PinInfo).GetDataset},
		{"DIGEST", 12, func(p *pb.PinInfo) string { return all(short(p.GetDigest())) }},
		{"TIER", 10, func(p *pb.PinInfo) string { return all(p.GetTier()) }},
		{"UNTIL", 19, func(p *pb.PinInfo) string { return moment(p.GetUntil()) }},
		{"OWNER", 8, func(p *pb.PinInfo) string { return known(p.GetOwner().GetName()) }},
		{"REASON", 0, (*pb.PinInfo).GetReason},
	},
	view: func(p *pb.PinInfo) any { return viewPin(p) },
	name: (*pb.PinInfo).GetDataset,
}

// endedPins is how pins are told that were ended.
var endedPins = listing[*pb.PinInfo]{
	what: "pins", none: "nothing of it is pinned", view: pinsListing.view, name: pinsListing.name,
	columns: append([]column[*pb.PinInfo]{{"ENDED", 5, func(*pb.PinInfo) string { return "pin" }}}, pinsListing.columns...),
}

// all says what a filter that is empty lets through.
func all(text string) string {
	if text == "" {
		return "all"
	}
	return text
}

// pinView is a pin as JSON.
type pinView struct {
	Schema  string     `json:"schema"`
	Dataset string     `json:"dataset"`
	Digest  string     `json:"digest,omitempty"` // absent: of every version
	Tier    string     `json:"tier,omitempty"`   // absent: on every tier
	Until   *time.Time `json:"until,omitempty"`
	Reason  string     `json:"reason,omitempty"`
	Owner   string     `json:"owner"`
	UID     uint32     `json:"uid"`
}

func viewPin(p *pb.PinInfo) pinView {
	return pinView{schemaPin, p.GetDataset(), p.GetDigest(), p.GetTier(), stamp(p.GetUntil()), p.GetReason(), p.GetOwner().GetName(), p.GetOwner().GetUid()}
}

const schemaPin = "datamove.pin/v1"
