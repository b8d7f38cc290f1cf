package burst

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/tiering/burst"
)

func upCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "up [flags] FILE",
		Short: "Bring a burst up, or go on with it: reserve, stage, create, associate",
		Long: `Up admits the burst, reserves its estimate, sends its data to the bucket, makes the file
system that it declares, has it be the bucket, and says how it is mounted. What is done is
not done again: after a crash, a cap or a lost link the same command goes on; with a file that
declares more data, that is staged, too.

Data goes first, because the link takes longest and a file system costs by the hour. Rates of
the configuration (limits) hold at the bucket, in their windows.`,
		Example: `  datamove burst up llama-ft.yaml`,
		Args:    cli.Exactly(1, "one FILE of kind Burst, or - for standard input"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return u.up(ctx, args[0], f)
	})
	u.moving(cmd.Flags())
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	return cmd
}

func (u *bursts) up(ctx context.Context, file string, f cli.Format) error {
	b, err := u.read(file)
	if err != nil {
		return err
	}
	return u.asking(ctx, func(c *api.Client) error {
		return u.begin(ctx, c, "burst up", f, b, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: b.Text})
	})
}

// begin has a service do a step by which there is a burst, and tells of that.
func (u *bursts) begin(ctx context.Context, c *api.Client, command string, f cli.Format, b *burst.Burst, req *pb.ApplyBurstRequest) error {
	return u.apply(ctx, c, command, f, req, func(*pb.Task) error {
		known, err := c.GetBurst(ctx, &pb.GetBurstRequest{Name: string(b.Metadata.Name)})
		if err != nil {
			return err
		}
		r, err := recordOf(known)
		if err != nil {
			return err
		}
		return u.tell(r, f)
	})
}

// tell prints one burst.
func (u *bursts) tell(r *burst.Record, f cli.Format) error {
	return cli.List(u.App, f, listing, func(yield func(listed, error) bool) { yield(listedOf(r)) })
}

func stageCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	cmd := &cobra.Command{
		Use:     "stage [flags] NAME",
		Short:   "Send what is new of the data of a burst, and have its file system know of it",
		Example: `  datamove burst stage llama-ft`,
		Args:    cli.Exactly(1, "the NAME of a burst"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		return u.applied(ctx, "burst stage", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_STAGE, Name: args[0]})
	})
	u.moving(cmd.Flags())
	cmd.ValidArgsFunction = u.complete
	return cmd
}
