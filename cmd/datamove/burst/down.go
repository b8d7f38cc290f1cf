package burst

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
)

const schemaVerdict = "datamove.burst-verdict/v1"

func syncBackCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var follow, release bool
	cmd := &cobra.Command{
		Use:   "sync-back [flags] NAME",
		Short: "Bring home what jobs have saved, checkpoints first, and verify it",
		Long: `Sync-back has the file system export what was saved, reads the report of that, and brings
every complete checkpoint home, the newest first, and results; each byte is read again here.
What is there already does not come again. An export of which a file failed is an error, and
names it.

With --follow the service does so by itself from now on, as often as the file says that
checkpoints are saved, until the burst is taken down or --follow=false is given.`,
		Example: `  datamove burst sync-back llama-ft
  datamove burst sync-back --follow llama-ft`,
		Args: cli.Exactly(1, "the NAME of a burst"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if cmd.Flags().Changed("follow") {
			return u.follow(ctx, args[0], follow)
		}
		return u.applied(ctx, "burst sync-back", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: args[0], Release: release})
	})
	cmd.Flags().BoolVar(&follow, "follow", false, "again and again, as often as checkpoints are saved")
	cmd.Flags().BoolVar(&release, "release", false, "then give back the space on the file system of what is home: it is read from the bucket when it is read again")
	u.moving(cmd.Flags())
	cmd.ValidArgsFunction = u.complete
	return cmd
}

// follow has a service bring home by itself what jobs save, or no more.
func (u *bursts) follow(ctx context.Context, name string, on bool) error {
	return u.asking(ctx, func(c *api.Client) error {
		known, err := c.FollowBurst(ctx, &pb.FollowBurstRequest{Name: name, Off: !on})
		if err != nil {
			return err
		}
		if !on {
			u.Note("what jobs of burst %s save does not come home by itself any more", name)
			return nil
		}
		r, err := recordOf(known)
		if err != nil {
			return err
		}
		b, err := r.Burst()
		if err == nil {
			u.Note("what jobs of burst %s save comes home every %s, until it is taken down, or: datamove burst sync-back --follow=false %s", name, burst.Span(b.Rhythm()), name)
		}
		return err
	})
}

func downCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var abandon []string
	var idle, yes bool
	var settle time.Duration
	cmd := &cobra.Command{
		Use:   "down [flags] NAME | down --idle [flags]",
		Short: "Take a burst down, when all that has to come home is there and verified",
		Long: `Down refuses, with 5, while something that has to come home is not there, whole and verified,
and names it. Then it has the file system export a last time, compares, waits until AWS has
told that clients wrote nothing since, and takes away the file system, what is in the bucket
below the prefix of the burst, and the rest of its reservation. --abandon gives something up by
its name: a directory of the file, or what is in one.

With --idle it looks at all file systems and instances of the regions of our bursts, and says of
each whether it may go: what has our tag and a record of the service, for as long as its burst says
without I/O of a client, without a lease or a task, and with everything home. With --yes, too,
what may go is taken down, and idle instances are stopped.`,
		Example: `  datamove burst down llama-ft
  datamove burst down llama-ft --abandon checkpoints/run7/step-900
  datamove burst down --idle --yes`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		switch {
		case idle && len(args) > 0:
			return mover.Misusef("--idle looks at all bursts; name none")
		case idle && len(abandon) > 0:
			return mover.Misusef("--idle gives nothing up")
		case idle && u.order.Detach:
			return mover.Misusef("--idle waits for what it finds: --detach is of one burst")
		case idle:
			return u.reap(ctx, yes, settle)
		case len(args) != 1:
			return mover.Misusef("want the NAME of a burst, or --idle")
		}
		var paths []burst.Path
		for _, text := range abandon {
			var p burst.Path
			if err := p.UnmarshalText([]byte(text)); err != nil {
				return mover.Misusef("--abandon: %w", err)
			}
			paths = append(paths, p)
		}
		if len(paths) > 0 {
			if err := a.Confirm(fmt.Sprintf("give up %v of burst %s for good", paths, args[0]), "burst "+args[0], yes); err != nil {
				return err
			}
		}
		return u.applied(ctx, "burst down", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_DOWN, Name: args[0], Abandon: abandon, Settle: durationpb.New(settle)})
	})
	flags := cmd.Flags()
	flags.StringArrayVar(&abandon, "abandon", nil, "give up `PATH`; may be repeated")
	flags.BoolVar(&idle, "idle", false, "look at everything that is idle, and say what may go")
	flags.BoolVar(&yes, "yes", false, "with --idle take it down; with --abandon do not ask")
	flags.DurationVar(&settle, "settle", burst.DefaultSettle, "after the last export wait for `TIME` until AWS has told what clients did; 0 believes that none runs any more")
	u.moving(flags)
	cmd.ValidArgsFunction = u.complete
	return cmd
}

// verdictView is what may, or may not, go, as JSON.
type verdictView struct {
	Schema string     `json:"schema"`
	ID     string     `json:"id"`
	Kind   string     `json:"kind"`
	State  string     `json:"state"`
	Burst  burst.Name `json:"burst,omitempty"`
	Take   bool       `json:"take"`
	Ours   bool       `json:"ours"`
	Why    string     `json:"why"`
}

// verdictsListing is how they are listed.
var verdictsListing = cli.Listing[burst.Verdict]{
	What: "file systems or instances",
	Columns: []cli.Column[burst.Verdict]{
		{Head: "ID", Width: 20, Text: func(v burst.Verdict) string { return mover.Printable(v.Sight.ID) }},
		{Head: "KIND", Width: 11, Text: func(v burst.Verdict) string { return v.Sight.Kind }},
		{Head: "STATE", Width: 10, Text: func(v burst.Verdict) string { return mover.Printable(v.Sight.State) }},
		{Head: "BURST", Width: 16, Text: func(v burst.Verdict) string {
			if v.Burst == "" {
				return "-"
			}
			return string(v.Burst)
		}},
		{Head: "MAY GO", Width: 6, Text: func(v burst.Verdict) string { return map[bool]string{true: "yes", false: "no"}[v.Take] }},
		{Head: "WHY", Width: 0, Text: func(v burst.Verdict) string { return mover.Printable(v.Why) }},
	},
	View: func(v burst.Verdict) any {
		return verdictView{schemaVerdict, v.Sight.ID, v.Sight.Kind, v.Sight.State, v.Burst, v.Take, v.Ours, v.Why}
	},
	Name: func(v burst.Verdict) string { return mover.Printable(v.Sight.ID) },
}

// reap says of all bursts of a service what of them may go, and with act takes that down. What fails does not hold the rest.
func (u *bursts) reap(ctx context.Context, act bool, settle time.Duration) error {
	return u.asking(ctx, func(c *api.Client) error {
		var verdicts []burst.Verdict
		var failed error
		for b, err := range c.Bursts(ctx, &pb.ListBurstsRequest{}) {
			if err != nil || ctx.Err() != nil {
				failed = errors.Join(failed, err, ctx.Err())
				break
			}
			failed = errors.Join(failed, u.apply(ctx, c, "burst down", cli.FormatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_REAP, Name: b.GetName()}, func(t *pb.Task) error {
				f, err := foundBy(t)
				verdicts = append(verdicts, f.Verdicts...)
				return err
			}))
		}
		if err := cli.List(u.App, cli.FormatTable, verdictsListing, cli.Every(verdicts)); err != nil || !act || ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		return errors.Join(failed, u.take(ctx, c, verdicts, settle))
	})
}

// take has a service take down what may go. What fails does not hold the rest.
func (u *bursts) take(ctx context.Context, c *api.Client, verdicts []burst.Verdict, settle time.Duration) error {
	var errs []error
	taken := map[burst.Name]bool{}
	for _, v := range verdicts {
		if !v.Take || taken[v.Burst] {
			continue
		}
		taken[v.Burst] = true
		errs = append(errs, u.apply(ctx, c, "burst down", cli.FormatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_REAP, Name: string(v.Burst), Take: true, Settle: durationpb.New(settle)}, nil))
	}
	return errors.Join(errs...)
}
