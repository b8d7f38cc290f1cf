package burst

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/deploy/prices"
	"datamove.dev/lustre/fshints"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/backend/s3"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/location"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
)

const schemaEstimate = "datamove.burst-estimate/v1"

// estimateView is an estimate as JSON.
type estimateView struct {
	Schema   string         `json:"schema"`
	Name     string         `json:"name"`
	Team     string         `json:"team"`
	Admitted burst.Admitted `json:"admitted"`
	burst.Estimate
}

func estimateCommand(a *cli.App) *cobra.Command {
	u := &bursts{App: a}
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "estimate [flags] FILE",
		Short: "Say what a burst would send, take and cost, and whether it is admitted",
		Long: `Estimate looks at what there is to send, and says how long it takes over the link that the
file declares, what is paid for, and on what each figure rests. Nothing is changed, and
nothing is paid for. It ends with 7 where no rule admits the burst.

Without a service this process looks, with the tiers and credentials of the configuration; a
role that the burst declares is for its service.`,
		Example: `  datamove burst estimate llama-ft.yaml
  datamove burst estimate -o json llama-ft.yaml`,
		Args: cli.Exactly(1, "one FILE of kind Burst, or - for standard input"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		b, e, by, err := u.estimate(ctx, args[0])
		if err != nil {
			return err
		}
		if f == cli.FormatTable {
			err = tellEstimate(a.Out, b, &e, by)
		} else {
			err = cli.WriteOne(a.Out, f, estimateView{schemaEstimate, string(b.Metadata.Name), string(b.Spec.Team), by, e})
		}
		return errors.Join(err, by.Err())
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

// estimate estimates the burst in a file: a service does where one is configured, else this process.
func (u *bursts) estimate(ctx context.Context, file string) (b *burst.Burst, e burst.Estimate, by burst.Admitted, err error) {
	at, err := u.Service()
	if err != nil {
		return nil, e, by, err
	}
	if b, err = u.read(file); err != nil {
		return nil, e, by, err
	}
	if at == "" {
		e, by, err = u.estimateHere(ctx, b)
		return b, e, by, err
	}
	c, err := u.Dial(ctx, at, task.ReachAdvice)
	if err != nil {
		return b, e, by, err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	e, by, err = u.estimateBy(ctx, c, b)
	return b, e, by, cli.AdviseAsked(err, listBursts)
}

// estimateBy has a service estimate a burst: it looks at the data as the caller.
func (u *bursts) estimateBy(ctx context.Context, c *api.Client, b *burst.Burst) (e burst.Estimate, by burst.Admitted, err error) {
	err = u.apply(ctx, c, "burst estimate", cli.FormatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_ESTIMATE, Declaration: b.Text}, func(t *pb.Task) error {
		f, err := foundBy(t)
		if err == nil && f.Estimate == nil {
			err = fmt.Errorf("task %s tells of no estimate: %w", t.GetId(), mover.ErrCorrupt)
		}
		if err != nil {
			return err
		}
		e, by = *f.Estimate, f.Admitted
		return nil
	})
	return e, by, err
}

// estimateHere estimates a burst in this process.
func (u *bursts) estimateHere(ctx context.Context, b *burst.Burst) (e burst.Estimate, by burst.Admitted, err error) {
	conf, err := u.Config()
	if err != nil {
		return e, by, err
	}
	cloud := b.Spec.Cloud
	if at, err := u.Locate(cloud.Tier + ":"); err != nil {
		return e, by, err
	} else if !at.InStore() {
		return e, by, mover.Misusef("spec.cloud.tier: %s is no bucket", cloud.Tier)
	}
	book, err := u.book(conf.Burst.Prices, cloud.Region)
	if err != nil {
		return e, by, err
	}
	rules, err := u.rules(conf.Burst.Admission)
	if err != nil {
		return e, by, err
	}
	log, err := u.Logger(u.Err)
	if err != nil {
		return e, by, err
	}
	state, err := u.StateDir()
	if err != nil {
		return e, by, err
	}
	inRegion := func(l location.Location, o *s3.Options) {
		if l.Tier == cloud.Tier {
			o.RequireRegion, o.Region = cloud.Region, cloud.Region
		}
	}
	site := backend.Resolver{Tiers: conf.Tiers, FileSystem: fshints.Of, Adapt: inRegion}
	way := &link.Link{Open: site.Open, Request: engine.Request{StateDir: state}, Log: log}
	e, err = link.Estimate(ctx, b, way.Measure, u.Locate, book, time.Now().UTC())
	return e, rules.Admit(b, e.Bytes), err
}

// book has the prices of a region, which lie in a directory; "" is those that come with the program.
func (u *bursts) book(dir, region string) (*pricing.Book, error) {
	name := region + ".yaml"
	if dir != "" {
		return pricing.Open(filepath.Join(dir, name))
	}
	text, err := prices.Books.ReadFile(name)
	if err != nil {
		return nil, cli.Advise(fmt.Errorf("%w: no prices of %s come with this program", mover.ErrNotExist, region), "burst: {prices: /etc/datamove/prices} in the configuration, with a file "+name)
	}
	return pricing.Read(name, text)
}

// rules are those of a file; "" is the usual ones.
func (u *bursts) rules(file string) (*burst.Admission, error) {
	if file == "" {
		return burst.ReadAdmission("the usual rules", []byte(burst.DefaultAdmission))
	}
	text, err := u.text(file)
	if err != nil {
		return nil, err
	}
	return burst.ReadAdmission(file, text)
}

// tellEstimate tells an estimate to people.
func tellEstimate(w io.Writer, b *burst.Burst, e *burst.Estimate, by burst.Admitted) error {
	s := &b.Spec
	out := cli.NewLines(w)
	say := func(what, format string, args ...any) {
		out.Raw(fmt.Sprintf("  %-12s %s\n", what, cli.Shown(fmt.Sprintf(format, args...))))
	}
	verdict := "admitted by rule " + string(by.By)
	if by.By == "" {
		verdict = "NOT admitted: " + strings.Join(by.Why, "; ")
	}
	out.Raw(fmt.Sprintf("burst %s of team %s: %s\n", b.Metadata.Name, s.Team, cli.Shown(verdict)))
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
		out.Raw(fmt.Sprintf("  %12v  %-22s %s: %s\n", line.Cost, line.Rate, cli.Shown(mover.Printable(line.Why)), cli.Shown(mover.Printable(reckoned))))
	}
	out.Raw(fmt.Sprintf("  %12v  in all, for %s, at prices of %s of %s (-o json says where each was read)\n", e.Bill.Total, s.Lasts, e.Bill.Region, e.Bill.Date))
	for _, why := range e.Basis {
		out.Raw(fmt.Sprintf("  basis: %s\n", why))
	}
	for _, old := range e.Bill.Warnings {
		out.Raw(fmt.Sprintf("  warning: %s\n", cli.Shown(mover.Printable(old))))
	}
	return out.Flush()
}
