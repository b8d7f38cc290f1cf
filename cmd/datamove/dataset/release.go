package dataset

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/location"
)

func releaseCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "release"}
	cmd := &cobra.Command{
		Use:   "release [flags] dataset:NAME[@DIGEST] --from TIER",
		Short: "Give back fast space: remove a replica of which there is another",
		Long: `Release removes the replica of a dataset on a tier. It is refused while a lease
or a pin holds it, and when no other replica was verified by the store or
by reading: the only copy is never released. That copy is looked at before anything
goes; when it is not there any more, or is something else, everything stays (exit 9).`,
		Example:           "  datamove release dataset:imagenet --from scratch --node n17",
		Args:              cli.Exactly(1, "dataset:NAME"),
		ValidArgsFunction: a.CompleteDatasets("dataset:"),
	}
	from := ""
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := datasetLocation(args[0])
		switch {
		case err != nil:
			return err
		case from == "":
			return cli.Advise(mover.Misusef("release from where? --from is not given"), "--from TIER; datamove dataset replicas "+l.Name+" lists them")
		}
		t.Target = args[0]
		return a.AskService(ctx, cli.DatasetList, func(c *api.Client) error {
			err := t.Begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				begun, err := api.Once(ctx, c, c.Release, &pb.ReleaseRequest{Source: l.String(), Tier: from, Node: t.Service.Node, IdempotencyKey: key})
				if errors.Is(err, mover.ErrRefused) || errors.Is(err, mover.ErrHeld) {
					err = cli.Advise(err, "datamove dataset show "+l.Name+", which names replicas, leases and pins")
				}
				return begun, err
			})
			if errors.Is(err, mover.ErrCorrupt) {
				err = cli.Advise(err, "datamove dataset replicas "+l.Name+", and datamove stage "+args[0]+" --to TIER, which mends the other copy")
			}
			return err
		})
	})
	removalFlags(t, cmd)
	cmd.Flags().StringVar(&from, "from", "", "the `TIER` that the replica is on")
	return cmd
}

// removalFlags are those of release and purge.
func removalFlags(t *task.Request, cmd *cobra.Command) {
	flags := cmd.Flags()
	cli.FormatVar(flags, &t.Format, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.StringVar(&t.Service.Node, "node", "", "the `NODE` of a node-local tier (default this one)")
	flags.BoolVar(&t.Service.Detach, "detach", false, "print the id of the task, and return")
}

func purgeCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "purge"}
	var yes, root bool
	cmd := &cobra.Command{
		Use:   "purge [flags] TIER:PATH",
		Short: "Remove scratch, of which no other copy is promised",
		Long: `Purge removes what is below a path of a tier that the configuration marks as
ephemeral, and on no other. It asks, or wants --yes; a whole tier goes only with
--root as well. What is leased, pinned or worked on stops it.`,
		Example: "  datamove purge --yes scratch:job-4711",
		Args:    cli.Exactly(1, "TIER:PATH"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		l, err := location.Parse(args[0])
		if err != nil {
			return err
		}
		if err := mayPurge(l, root); err != nil {
			return err
		}
		question := "Purge everything below " + l.String()
		if t.Service.Node != "" {
			question += " of " + mover.Printable(t.Service.Node)
		}
		if err := a.Confirm(question, args[0], yes); err != nil {
			return err
		}
		t.Target = args[0]
		return a.AskService(ctx, cli.TierList, func(c *api.Client) error {
			return t.Begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
				return api.Once(ctx, c, c.Purge, &pb.PurgeRequest{Location: l.String(), Node: t.Service.Node, IdempotencyKey: key})
			})
		})
	})
	removalFlags(t, cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	cmd.Flags().BoolVar(&root, "root", false, "allow a whole tier")
	return cmd
}

// mayPurge keeps a slip of the hand from being the end of everything. What a tier
// allows the service knows.
func mayPurge(l location.Location, root bool) error {
	switch {
	case !l.InTier():
		return cli.Advise(mover.Misusef("%s is in no tier, and purge works on tiers that are marked ephemeral", l), "TIER:PATH, as datamove tier list names them; or datamove rm -r")
	case l.Path == "" && !root:
		err := &mover.Error{Op: "purge", Location: l.String(), Err: fmt.Errorf("%w: it is a whole tier", mover.ErrRefused)}
		return cli.Advise(err, "--root, if all of it is meant")
	}
	return nil
}
