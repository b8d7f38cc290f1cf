package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"google.golang.org/protobuf/types/known/durationpb"

	"datamove.dev/api"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/pricing"
)

// listBursts is the command that lists what bursts there are.
const listBursts = "datamove burst list --all"

// ordering adds the flags of what a service does as a task.
func (u *bursts) ordering(flags *pflag.FlagSet) {
	flags.BoolVar(&u.order.detach, "detach", false, "give the task to the service, print its id, and return")
	flags.Var(&chosen[pb.TaskClass]{dst: &u.order.class, choices: classChoices}, "class", "how urgent it is to the service, most urgent `CLASS` first: restore, checkpoint, stage, replicate, tier, scrub")
	flags.StringVar(&u.order.node, "node", "", "have the service do it on this `NODE`, whose node-local tiers are meant")
	labelVar(flags, &u.order.labels, "label", "label the task of the service `KEY=VALUE`; may be repeated")
}

// there is the service that does it; "" is this process.
func (u *bursts) there() (address string, err error) {
	if address, err = u.service(); err == nil && address == "" {
		err = u.order.forService()
	}
	return address, err
}

// asking asks the service at an address.
func (u *bursts) asking(ctx context.Context, at string, body func(*api.Client) error) error {
	c, err := u.dial(ctx, at, reachAdvice)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }() // what was asked has been answered
	return adviseAsked(body(c), listBursts)
}

// apply has a service do a step of a burst, and waits for it. What the step has told is told here, and then tell is called.
func (u *bursts) apply(ctx context.Context, c *api.Client, command string, f format, req *pb.ApplyBurstRequest, tell func(*pb.Task) error) error {
	req.Jobs, req.BytesPerSecond, req.Class, req.Node, req.Labels = int32(u.jobs), u.limit, u.order.class, u.order.node, u.order.labelled(u.app)
	t := &task{app: u.app, command: command, format: f, order: u.order}
	t.tell = func(_ context.Context, r engine.Report, err error) error {
		for _, note := range r.Notes {
			u.note("%s", note)
		}
		if err != nil || tell == nil {
			return nil
		}
		return tell(t.last)
	}
	return t.begin(ctx, c, func(ctx context.Context, key string) (*pb.Task, error) {
		req.IdempotencyKey = key
		return api.Once(ctx, c, c.ApplyBurst, req)
	})
}

// applyAt is apply at an address, for a step that tells nothing but what it does.
func (u *bursts) applyAt(ctx context.Context, at, command string, req *pb.ApplyBurstRequest) error {
	return u.asking(ctx, at, func(c *api.Client) error { return u.apply(ctx, c, command, formatTable, req, nil) })
}

// upThere brings a burst up by a service.
func (u *bursts) upThere(ctx context.Context, at, file string, f format) error {
	b, err := u.read(file)
	if err != nil {
		return err
	}
	return u.asking(ctx, at, func(c *api.Client) error {
		return u.apply(ctx, c, "burst up", f, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_UP, Declaration: b.Text}, func(*pb.Task) error {
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
	})
}

// recordOf is the record of a burst that a service tells of.
func recordOf(known *pb.Burst) (*burst.Record, error) {
	r := &burst.Record{}
	if err := json.Unmarshal([]byte(known.GetRecord()), r); err != nil {
		return nil, fmt.Errorf("the service tells of burst %s what is no record: %w: %w", mover.Printable(known.GetName()), mover.ErrCorrupt, err)
	}
	return r, nil
}

// foundThere is what a step has found, as the worker of a service tells it.
type foundThere struct {
	Estimate *burst.Estimate `json:"estimate"`
	Admitted burst.Admitted  `json:"admitted"`
	Verdicts []burst.Verdict `json:"verdicts"`
}

func foundBy(t *pb.Task) (f foundThere, err error) {
	if err = json.Unmarshal([]byte(t.GetReport().GetFound()), &f); err != nil {
		err = fmt.Errorf("task %s tells what is no finding: %w: %w", t.GetId(), mover.ErrCorrupt, err)
	}
	return f, err
}

// estimateThere has a service estimate a burst: it looks at the data as whoever asks.
func (u *bursts) estimateThere(ctx context.Context, c *api.Client, b *burst.Burst) (e burst.Estimate, by burst.Admitted, err error) {
	err = u.apply(ctx, c, "burst estimate", formatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_ESTIMATE, Declaration: b.Text}, func(t *pb.Task) error {
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

// followThere has a service bring home by itself what jobs save, or no more.
func (u *bursts) followThere(ctx context.Context, at, name string, on bool) error {
	return u.asking(ctx, at, func(c *api.Client) error {
		known, err := c.FollowBurst(ctx, &pb.FollowBurstRequest{Name: name, Off: !on})
		if err != nil {
			return err
		}
		if !on {
			u.note("what jobs of burst %s save does not come home by itself any more", name)
			return nil
		}
		r, err := recordOf(known)
		if err != nil {
			return err
		}
		b, err := r.Burst()
		if err == nil {
			u.note("what jobs of burst %s save comes home every %s, until it is taken down, or: datamove burst sync-back --follow=false %s", name, burst.Span(b.Rhythm()), name)
		}
		return err
	})
}

// downThere takes a burst down by a service.
func (u *bursts) downThere(ctx context.Context, at, name string, abandon []string, settle time.Duration) error {
	return u.applyAt(ctx, at, "burst down", &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_DOWN, Name: name, Abandon: abandon, Settle: durationpb.New(settle)})
}

// reapThere says of all bursts of a service what of them may go, and with act takes that down. What fails does not hold the rest.
func (u *bursts) reapThere(ctx context.Context, at string, act bool, settle time.Duration) error {
	return u.asking(ctx, at, func(c *api.Client) error {
		var verdicts []burst.Verdict
		var failed error
		for b, err := range c.Bursts(ctx, &pb.ListBurstsRequest{}) {
			if err != nil || ctx.Err() != nil {
				failed = errors.Join(failed, err, ctx.Err())
				break
			}
			failed = errors.Join(failed, u.apply(ctx, c, "burst down", formatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_REAP, Name: b.GetName()}, func(t *pb.Task) error {
				f, err := foundBy(t)
				verdicts = append(verdicts, f.Verdicts...)
				return err
			}))
		}
		if err := list(u.app, formatTable, verdictsListing, every(verdicts)); err != nil || !act || ctx.Err() != nil {
			return errors.Join(failed, err)
		}
		return errors.Join(failed, u.takeThere(ctx, c, verdicts, settle))
	})
}

func (u *bursts) takeThere(ctx context.Context, c *api.Client, verdicts []burst.Verdict, settle time.Duration) error {
	var errs []error
	taken := map[burst.Name]bool{}
	for _, v := range verdicts {
		if !v.Take || taken[v.Burst] {
			continue
		}
		taken[v.Burst] = true
		errs = append(errs, u.apply(ctx, c, "burst down", formatTable, &pb.ApplyBurstRequest{Step: pb.BurstStep_BURST_STEP_REAP, Name: string(v.Burst), Take: true, Settle: durationpb.New(settle)}, nil))
	}
	return errors.Join(errs...)
}

// recordsThere are the bursts that a service tells of.
func recordsThere(ctx context.Context, c *api.Client, gone bool) func(yield func(*burst.Record, error) bool) {
	return func(yield func(*burst.Record, error) bool) {
		for b, err := range c.Bursts(ctx, &pb.ListBurstsRequest{Gone: gone}) {
			var r *burst.Record
			if err == nil {
				r, err = recordOf(b)
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// listThere lists the bursts of a service.
func (u *bursts) listThere(ctx context.Context, at string, f format, gone bool) error {
	return u.asking(ctx, at, func(c *api.Client) error {
		return list(u.app, f, burstsListing, func(yield func(listed, error) bool) {
			for r, err := range recordsThere(ctx, c, gone) {
				var l listed
				if err == nil {
					l, err = listedOf(r)
				}
				if !yield(l, err) || err != nil {
					return
				}
			}
		})
	})
}

// costThere lists the accounts of a service.
func (u *bursts) costThere(ctx context.Context, at string, f format, teams []string, days int) error {
	return u.asking(ctx, at, func(c *api.Client) error {
		if days > 0 {
			if err := u.reconcileThere(ctx, c, days); err != nil {
				return err
			}
		}
		answer, err := c.GetAccounts(ctx, &pb.GetAccountsRequest{Teams: teams})
		if err != nil {
			return err
		}
		var all []accountView
		for _, a := range answer.GetAccounts() {
			all = append(all, accountThere(a))
		}
		return list(u.app, f, accountsListing, every(all))
	})
}

// reconcileThere asks AWS what the last days have cost, as this process may, and has the accounts of a service say so.
func (u *bursts) reconcileThere(ctx context.Context, c *api.Client, days int) (err error) {
	if u.conf, err = u.config(); err != nil {
		return err
	}
	records, asked := map[string]*burst.Record{}, map[string]bool{}
	for r, err := range recordsThere(ctx, c, true) {
		if err != nil {
			return err
		}
		records[r.ID] = r
	}
	for _, r := range records {
		b, err := r.Burst()
		if err != nil {
			return err
		}
		if asked[b.Spec.Cloud.Tier] {
			continue
		}
		asked[b.Spec.Cloud.Tier] = true
		l, err := u.leg(ctx, b, nil)
		if err != nil {
			return err
		}
		if _, err := l.Reconcile(ctx, records, accountsThere{c}, days); err != nil {
			return err
		}
	}
	return nil
}

// accountsThere are the accounts of a service.
type accountsThere struct{ client *api.Client }

// Adjust has an account say what AWS says of a day.
func (a accountsThere) Adjust(ctx context.Context, team string, on time.Time, billed pricing.Money, why string) (budget.Outcome, error) {
	now, err := a.client.AdjustAccount(ctx, &pb.AdjustAccountRequest{Team: team, Day: on.UTC().Format(time.DateOnly), Micros: int64(billed), Why: why})
	return budget.Outcome{Balance: accountThere(now).Balance}, err
}

func accountThere(a *pb.BurstAccount) accountView {
	v := accountView{Schema: schemaAccount, Balance: budget.Balance{Team: a.GetTeam(), Period: a.GetPeriod(), Cap: pricing.Money(a.GetCapMicros()), Spent: pricing.Money(a.GetSpentMicros()),
		Reserved: pricing.Money(a.GetReservedMicros()), Free: pricing.Money(a.GetFreeMicros())}}
	for _, o := range a.GetBursts() {
		v.Bursts = append(v.Bursts, budget.OpenBurst{Team: a.GetTeam(), Burst: o.GetId(), Since: o.GetSince().AsTime(), Reserved: pricing.Money(o.GetReservedMicros()), Spent: pricing.Money(o.GetSpentMicros()), Left: pricing.Money(o.GetLeftMicros())})
	}
	return v
}
