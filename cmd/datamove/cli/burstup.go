package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/lifecycle"
)

// moving adds the flags of what moves bytes.
func (u *bursts) moving(flags *pflag.FlagSet) {
	parsedVar(flags, &u.jobs, "jobs", parseJobs, "keep `N` calls in flight; default 0 finds a good number")
	u.ordering(flags)
	parsedVar(flags, &u.limit, "bwlimit", units.ParseRate, "move at most `RATE`, like 100MiB/s, 1GB or 10Gbit; 0 is no limit")
}

// estimateView is an estimate as JSON.
type estimateView struct {
	Schema   string         `json:"schema"`
	Name     string         `json:"name"`
	Team     string         `json:"team"`
	Admitted burst.Admitted `json:"admitted"`
	burst.Estimate
}

func (a *app) burstEstimateCommand() *cobra.Command {
	u := &bursts{app: a}
	var f format
	cmd := &cobra.Command{
		Use:   "estimate [flags] FILE",
		Short: "Say what a burst would send, take and cost, and whether it is admitted",
		Long: `Estimate looks at what there is to send, and says how long it takes over the link that the
file declares, what is paid for, and on what each figure rests. Nothing is changed, and
nothing is paid for. It ends with 7 where no rule admits the burst.`,
		Example: `  datamove burst estimate llama-ft.yaml
  datamove burst estimate -o json llama-ft.yaml`,
		Args: exactly(1, "one FILE of kind Burst, or - for standard input"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		b, e, by, err := u.estimate(ctx, args[0])
		if err != nil {
			return err
		}
		if f == formatTable {
			err = tellEstimate(a.out, b, &e, by)
		} else {
			err = writeOne(a.out, f, estimateView{schemaEstimate, string(b.Metadata.Name), string(b.Spec.Team), by, e})
		}
		return errors.Join(err, by.Err())
	})
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatJSONL, formatYAML)
	return cmd
}

// estimate estimates the burst in a file, here or by a service.
func (u *bursts) estimate(ctx context.Context, file string) (b *burst.Burst, e burst.Estimate, by burst.Admitted, err error) {
	at, err := u.there()
	if err != nil {
		return nil, e, by, err
	}
	if at == "" {
		if err := u.ready(ctx); err != nil {
			return nil, e, by, err
		}
	}
	if b, err = u.read(file); err != nil {
		return nil, e, by, err
	}
	if at != "" {
		err = u.asking(ctx, at, func(c *api.Client) (err error) { e, by, err = u.estimateThere(ctx, c, b); return err })
		return b, e, by, err
	}
	l, err := u.leg(ctx, b, nil)
	if err == nil {
		e, by, err = l.Estimate(ctx, b)
	}
	return b, e, by, err
}

// tellEstimate tells an estimate to people.
func tellEstimate(w io.Writer, b *burst.Burst, e *burst.Estimate, by burst.Admitted) error {
	s := &b.Spec
	out := newLines(w)
	say := func(what, format string, args ...any) {
		out.Raw(fmt.Sprintf("  %-12s %s\n", what, shown(fmt.Sprintf(format, args...))))
	}
	verdict := "admitted by rule " + string(by.By)
	if by.By == "" {
		verdict = "NOT admitted: " + strings.Join(by.Why, "; ")
	}
	out.Raw(fmt.Sprintf("burst %s of team %s: %s\n", b.Metadata.Name, s.Team, shown(verdict)))
	say("sends", "%s in %s: %s over %s at %s", units.Bytes(e.Bytes), units.Plural(e.Files, "file", "files"), units.Duration(e.Sends), s.Link.Kind, units.PerSecond(float64(s.Link.Rate)))
	if e.GiB > 0 {
		say("file system", "%s of %s, there about %s after that", units.Bytes(e.GiB<<30), s.Cloud.FileSystem.Type, units.Duration(e.Makes))
	}
	if e.Home > 0 {
		say("comes home", "%s, with %s; the largest takes %s", units.Bytes(e.Home), units.Plural(e.Saves, "checkpoint", "checkpoints"), units.Duration(e.Lags))
	}
	for _, late := range e.Late {
		say("too late", "%s", late)
	}
	out.Raw("\n")
	for _, line := range e.Bill.Lines {
		reckoned, _, _ := strings.Cut(line.Basis, "; ") // what follows is where the price was read, which JSON has
		out.Raw(fmt.Sprintf("  %12v  %-22s %s: %s\n", line.Cost, line.Rate, shown(mover.Printable(line.Why)), shown(mover.Printable(reckoned))))
	}
	out.Raw(fmt.Sprintf("  %12v  in all, for %s, at prices of %s of %s (-o json says where each was read)\n", e.Bill.Total, s.Lasts, e.Bill.Region, e.Bill.Date))
	for _, why := range e.Basis {
		out.Raw(fmt.Sprintf("  basis: %s\n", why))
	}
	for _, old := range e.Bill.Warnings {
		out.Raw(fmt.Sprintf("  warning: %s\n", shown(mover.Printable(old))))
	}
	return out.Flush()
}

func (a *app) burstUpCommand() *cobra.Command {
	u := &bursts{app: a}
	var f format
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
		Args:    exactly(1, "one FILE of kind Burst, or - for standard input"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		return u.up(ctx, args[0], f)
	})
	u.moving(cmd.Flags())
	formatVar(cmd.Flags(), &f, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	return cmd
}

func (u *bursts) up(ctx context.Context, file string, f format) (err error) {
	if at, err := u.there(); err != nil || at != "" {
		if err != nil {
			return err
		}
		return u.upThere(ctx, at, file, f)
	}
	if err := u.ready(ctx); err != nil {
		return err
	}
	b, err := u.read(file)
	if err != nil {
		return err
	}
	held, err := u.shelf.Hold(b.Metadata.Name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	r, err := held.Record()
	if err != nil && !errors.Is(err, mover.ErrNotExist) {
		return err
	}
	l, err := u.leg(ctx, b, held)
	if err != nil {
		return err
	}
	if r, err = l.Up(ctx, b, r); err != nil {
		return err
	}
	return u.tell(r, f)
}

// tell prints one burst.
func (u *bursts) tell(r *burst.Record, f format) error {
	return list(u.app, f, burstsListing, func(yield func(listed, error) bool) { yield(listedOf(r)) })
}

func (a *app) burstStageCommand() *cobra.Command {
	u := &bursts{app: a}
	cmd := &cobra.Command{
		Use:     "stage [flags] NAME",
		Short:   "Send what is new of the data of a burst, and have its file system know of it",
		Example: `  datamove burst stage llama-ft`,
		Args:    exactly(1, "the NAME of a burst"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if at, err := u.there(); err != nil || at != "" {
			if err != nil {
				return err
			}
			return u.applyAt(ctx, at, "burst stage", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_STAGE, Name: args[0]})
		}
		return u.with(ctx, args[0], func(l *lifecycle.Manager, r *burst.Record, b *burst.Burst) error {
			if r.State.Ended() {
				return advise(fmt.Errorf("%w: burst %s is gone", mover.ErrNotExist, b.Metadata.Name), "datamove burst up FILE")
			}
			_, err := l.Up(ctx, b, r)
			return err
		})
	})
	u.moving(cmd.Flags())
	cmd.ValidArgsFunction = u.complete
	return cmd
}
