package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/lifecycle"
)

func (a *app) burstSyncBackCommand() *cobra.Command {
	u := &bursts{app: a, comes: true}
	var follow, release bool
	cmd := &cobra.Command{
		Use:   "sync-back [flags] NAME",
		Short: "Bring home what jobs have saved, checkpoints first, and verify it",
		Long: `Sync-back has the file system export what was saved, reads the report of that, and brings
every complete checkpoint home, the newest first, and results; each byte is read again here.
What is there already does not come again. An export of which a file failed is an error, and
names it.

With --follow it does so again as often as the file says that checkpoints are saved, until it
is told to stop or the burst is taken down; when more work could be lost than the file allows,
it says so. With a service, that does so by itself from now on, until the burst is taken down or
somebody says --follow=false.`,
		Example: `  datamove burst sync-back llama-ft
  datamove burst sync-back --follow llama-ft`,
		Args: exactly(1, "the NAME of a burst"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if at, err := u.there(); err != nil || at != "" {
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("follow"):
				return u.followThere(ctx, at, args[0], follow)
			}
			return u.applyAt(ctx, at, "burst sync-back", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_SYNC_BACK, Name: args[0], Release: release})
		}
		if follow {
			return u.follow(ctx, args[0], release)
		}
		_, err := u.syncBack(ctx, args[0], release)
		return err
	})
	cmd.Flags().BoolVar(&follow, "follow", false, "again and again, as often as checkpoints are saved")
	cmd.Flags().BoolVar(&release, "release", false, "then give back the space on the file system of what is home: it is read from the bucket when it is read again")
	u.moving(cmd.Flags())
	cmd.ValidArgsFunction = u.complete
	return cmd
}

// syncBack brings home what jobs have saved, and says how often that is wanted; 0 is that the burst is gone, or goes.
func (u *bursts) syncBack(ctx context.Context, name string, release bool) (every time.Duration, err error) {
	err = u.with(ctx, name, func(l *lifecycle.Manager, r *burst.Record, b *burst.Burst) error {
		if r.State != burst.Leaving && !r.State.Ended() {
			every, l.Release = b.Rhythm(), release
		}
		return l.SyncBack(ctx, r)
	})
	return every, err
}

// follow brings home again and again, until the burst goes. What another try does not mend ends it.
func (u *bursts) follow(ctx context.Context, name string, release bool) error {
	for came := false; ; came = true {
		every, err := u.syncBack(ctx, name, release)
		switch {
		case errors.Is(err, mover.ErrConflict) && every == 0 && came:
			return nil // it was taken down
		case err != nil && every == 0, errors.Is(err, mover.ErrRefused), errors.Is(err, mover.ErrUsage), ctx.Err() != nil:
			return err
		case err != nil:
			u.note("warning: %v; trying again in %s", err, every)
		}
		if err := pause(ctx, every); err != nil {
			return err
		}
	}
}

// pause waits, or ends with ctx.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return errInterrupted
	case <-t.C:
		return nil
	}
}

func (a *app) burstDownCommand() *cobra.Command {
	u := &bursts{app: a, comes: true}
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
each whether it may go: what has our tag and a record here, for as long as its burst says
without I/O of a client, without a lease or a task, and with everything home. With --yes, too,
what may go is taken down, and idle instances are stopped.`,
		Example: `  datamove burst down llama-ft
  datamove burst down llama-ft --abandon checkpoints/run7/step-900
  datamove burst down --idle --yes`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		at, err := u.there()
		switch {
		case err != nil:
			return err
		case idle && len(args) > 0:
			return mover.Misusef("--idle looks at all bursts; name none")
		case idle && len(abandon) > 0:
			return mover.Misusef("--idle gives nothing up")
		case idle && u.order.detach:
			return mover.Misusef("--idle waits for what it finds: --detach is of one burst")
		case idle && at != "":
			return u.reapThere(ctx, at, yes, settle)
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
		if at != "" {
			if len(paths) > 0 {
				if err := a.confirm(fmt.Sprintf("give up %v of burst %s for good", paths, args[0]), "burst "+args[0], yes); err != nil {
					return err
				}
			}
			return u.downThere(ctx, at, args[0], abandon, settle)
		}
		return u.with(ctx, args[0], func(l *lifecycle.Manager, r *burst.Record, b *burst.Burst) error {
			if len(paths) > 0 && !r.State.Ended() {
				if err := a.confirm(fmt.Sprintf("give up %v of burst %s for good", paths, args[0]), "burst "+args[0], yes); err != nil {
					return err
				}
			}
			if l.Settle = settle; settle == 0 {
				l.Settle = -1
			}
			return l.Down(ctx, r, paths)
		})
	})
	flags := cmd.Flags()
	flags.StringArrayVar(&abandon, "abandon", nil, "give up `PATH`; may be repeated")
	flags.BoolVar(&idle, "idle", false, "look at everything that is idle, and say what may go")
	flags.BoolVar(&yes, "yes", false, "with --idle take it down; with --abandon ask nobody")
	flags.DurationVar(&settle, "settle", lifecycle.DefaultSettle, "after the last export wait for `TIME` until AWS has told what clients did; 0 believes that none runs any more")
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
var verdictsListing = listing[burst.Verdict]{
	what: "file systems or instances",
	columns: []column[burst.Verdict]{
		{"ID", 20, func(v burst.Verdict) string { return mover.Printable(v.Sight.ID) }},
		{"KIND", 11, func(v burst.Verdict) string { return v.Sight.Kind }},
		{"STATE", 10, func(v burst.Verdict) string { return mover.Printable(v.Sight.State) }},
		{"BURST", 16, func(v burst.Verdict) string {
			if v.Burst == "" {
				return "-"
			}
			return string(v.Burst)
		}},
		{"MAY GO", 6, func(v burst.Verdict) string { return map[bool]string{true: "yes", false: "no"}[v.Take] }},
		{"WHY", 0, func(v burst.Verdict) string { return mover.Printable(v.Why) }},
	},
	view: func(v burst.Verdict) any {
		return verdictView{schemaVerdict, v.Sight.ID, v.Sight.Kind, v.Sight.State, v.Burst, v.Take, v.Ours, v.Why}
	},
	name: func(v burst.Verdict) string { return mover.Printable(v.Sight.ID) },
}

// reap looks at all regions in which we have bursts, and with act takes down what is idle.
func (u *bursts) reap(ctx context.Context, act bool, settle time.Duration) error {
	if err := u.ready(ctx); err != nil {
		return err
	}
	records, err := u.shelf.All()
	if err != nil {
		return err
	}
	verdicts, err := u.look(ctx, records)
	if lerr := list(u.app, formatTable, verdictsListing, every(verdicts)); lerr != nil || !act {
		return errors.Join(err, lerr)
	}
	return errors.Join(err, u.take(ctx, verdicts, settle))
}

// look judges what is in the regions of our bursts, each thing once. A region that can not be asked does not hold the others.
func (u *bursts) look(ctx context.Context, records []*burst.Record) (verdicts []burst.Verdict, err error) {
	asked, judged := map[string]bool{}, map[string]bool{}
	for _, r := range records {
		b, berr := r.Burst()
		if berr != nil {
			return nil, berr
		}
		at := b.Spec.Cloud.Tier + " " + b.Spec.Cloud.Region
		_, known := u.conf.Tiers[b.Spec.Cloud.Tier]
		if asked[at] || !known && r.State.Ended() {
			continue
		}
		asked[at] = true
		l, lerr := u.leg(ctx, b, nil)
		if lerr != nil {
			err = errors.Join(err, lerr)
			continue
		}
		some, lerr := l.Look(ctx, byID(records))
		err = errors.Join(err, lerr)
		for _, v := range some {
			if !judged[v.Sight.ID] {
				judged[v.Sight.ID] = true
				verdicts = append(verdicts, v)
			}
		}
	}
	return verdicts, err
}

// take takes down what may go; what fails does not hold the rest.
func (u *bursts) take(ctx context.Context, verdicts []burst.Verdict, settle time.Duration) error {
	var errs []error
	for _, v := range verdicts {
		if !v.Take {
			continue
		}
		errs = append(errs, u.with(ctx, string(v.Burst), func(l *lifecycle.Manager, r *burst.Record, _ *burst.Burst) error {
			l.Settle = settle
			return l.Reap(ctx, v, r)
		}))
	}
	return errors.Join(errs...)
}

// chargeOne charges what runs by the hour of one burst, unless somebody works on it, who does that.
func (u *bursts) chargeOne(ctx context.Context, r *burst.Record, b *burst.Burst) (err error) {
	if r.State.Ended() {
		return nil
	}
	held, r, b, err := u.named(string(b.Metadata.Name))
	if errors.Is(err, mover.ErrHeld) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	l, err := u.leg(ctx, b, held)
	if err != nil {
		return err
	}
	return l.Charge(ctx, r)
}

func (u *bursts) reconcile(ctx context.Context, b *burst.Burst, records map[string]*burst.Record, days int) error {
	l, err := u.leg(ctx, b, nil)
	if err != nil {
		return err
	}
	looked, err := l.Reconcile(ctx, records, u.money, days)
	if err == nil {
		u.note("Cost Explorer has %d days of teams that are final", looked)
	}
	return err
}
