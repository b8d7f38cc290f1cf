package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

func (a *app) releaseCommand() *cobra.Command {
	t := &task{app: a, command: "release"}
	cmd := &cobra.Command{
		Use:   "release [flags] dataset:NAME[@DIGEST] --from TIER",
		Short: "Give back fast space: remove a replica of which there is another",
		Long: `Release removes the replica of a dataset on a tier. It is refused while somebody
holds it by a lease or a pin, and when no other replica was verified by the store or
by reading: the only copy is never released. That copy is looked at before anything
goes; when it is not there any more, or is something else, everything stays (exit 9).`,
		Example:           "  datamove release dataset:imagenet --from scratch --node n17",
		Args:              exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.completeDatasets("dataset:"),
	}
	from := ""
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		switch {
		case err != nil:
			return err
		case from == "":
			return advise(mover.Misusef("release from where? --from is not given"), "--from TIER; datamove dataset replicas "+l.Name+" lists them")
		}
		t.target = args[0]
		return a.ask(ctx, listDatasets, func(c *api.Client) error {
			err := t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				begun, err := api.Once(ctx, c, c.Release, &pb.ReleaseRequest{Source: l.String(), Tier: from, Node: t.order.node, IdempotencyKey: key})
				if errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrHeld) {
					err = advise(err, "datamove dataset show "+l.Name+", which names replicas, leases and pins")
				}
				return begun, err
			})
			if errors.Is(err, mover.ErrCorrupt) {
				err = advise(err, "datamove dataset replicas "+l.Name+", and datamove stage "+args[0]+" --to TIER, which mends the other copy")
			}
			return err
		})
	})
	t.removalFlags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `TIER` that the replica is on")
	return cmd
}

// removalFlags are those of release and purge.
func (t *task) removalFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	formatVar(flags, &t.format, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	flags.StringVar(&t.order.node, "node", "", "the `NODE` of a node-local tier (default this one)")
	flags.BoolVar(&t.order.detach, "detach", false, "print the id of the task, and return")
}

func (a *app) purgeCommand() *cobra.Command {
	t := &task{app: a, command: "purge"}
	var yes, root bool
	cmd := &cobra.Command{
		Use:   "purge [flags] TIER:PATH",
		Short: "Remove scratch, of which no other copy is promised",
		Long: `Purge removes what is below a path of a tier that the configuration marks as
ephemeral, and on no other. It asks, or wants --yes; a whole tier goes only with
--root as well. What is leased, pinned or worked on stops it.`,
		Example: "  datamove purge --yes scratch:job-4711",
		Args:    exactly(1, "TIER:PATH"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		l, err := location.Parse(args[0])
		if err != nil {
			return err
		}
		if err := mayPurge(l, root); err != nil {
			return err
		}
		question := "Purge everything below " + l.String()
		if t.order.node != "" {
			question += " of " + mover.Printable(t.order.node)
		}
		if err := a.confirm(question, args[0], yes); err != nil {
			return err
		}
		t.target = args[0]
		return a.ask(ctx, listTiers, func(c *api.Client) error {
			return t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				return api.Once(ctx, c, c.Purge, &pb.PurgeRequest{Location: l.String(), Node: t.order.node, IdempotencyKey: key})
			})
		})
	})
	t.removalFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&root, "root", false, "allow a whole tier")
	return cmd
}

// mayPurge keeps a slip of the hand from being the end of everything. What a tier
// allows the service knows.
func mayPurge(l location.Location, root bool) error {
	switch {
	case !l.InTier():
		return advise(mover.Misusef("%s is in no tier, and purge works on tiers that are marked ephemeral", l), "TIER:PATH, as datamove tier list names them; or datamove rm -r")
	case l.Path == "" && !root:
		err := &mover.Error{Op: "purge", Place: l.String(), Err: fmt.Errorf("%w: it is a whole tier", mover.ErrRefused)}
		return advise(err, "--root, if all of it is meant")
	}
	return nil
}
