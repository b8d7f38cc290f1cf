package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"datamove.dev/deploy/prices"
	"datamove.dev/lustre/fshints"
	"datamove.dev/mover"
	"datamove.dev/mover/backend"
	"datamove.dev/mover/config"
	"datamove.dev/mover/config/yamldoc"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/fairshare"
	"datamove.dev/mover/location"
	"datamove.dev/tiering/burst"
	"datamove.dev/tiering/burst/budget"
	"datamove.dev/tiering/burst/lifecycle"
	"datamove.dev/tiering/burst/link"
	"datamove.dev/tiering/burst/pricing"
	"datamove.dev/tiering/burst/shelf"
)

func (a *app) burstCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "burst",
		Short:   "Training that overflows into AWS: its data there, its checkpoints home",
		GroupID: groupMove,
		Long: `A burst is training that has no room here: its data goes to a bucket of AWS and, where it
says so, to an FSx for Lustre before it; what it saves comes home, verified; and then all of it
goes away again. It is declared in a file of kind Burst, which can be applied again.

Only who is admitted may burst, within what the account of a team still has (burst: in the
configuration). Money is reserved before the first byte, and charged as it is used; at the
cap nothing more begins.

With a service, each step is a task of it, done as you, and the command waits; what is known
of bursts, and the money, are the service's, and who is a member of the project with the name
of the team may use its account. Without one these commands work in this process, and keep
what they know below the state directory of whoever runs them. AWS is asked with the
credentials of the tier that the burst names, or of the project.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(a.burstEstimateCommand(), a.burstUpCommand(), a.burstStageCommand(), a.burstSyncBackCommand(), a.burstDownCommand(), a.burstListCommand(), a.burstCostCommand())
	return cmd
}

// bursts is what the commands of bursts have in common.
type bursts struct {
	*app
	shelf *shelf.Shelf
	money *budget.Ledger
	conf  *config.Config
	jobs  int
	limit int64 // bytes per second
	comes bool  // bytes come home, and are not sent
	order orderFlags
}

// ready reads what is known of bursts, and of money.
func (u *bursts) ready(ctx context.Context) (err error) {
	if u.conf, err = u.config(); err != nil {
		return err
	}
	state, err := u.stateDir()
	if err != nil {
		return err
	}
	dir := filepath.Join(state, "burst")
	if u.shelf, err = shelf.Open(dir); err != nil {
		return err
	}
	log, err := budget.Open(dir)
	if err != nil {
		return err
	}
	accounts, err := accountsOf(u.conf.Burst.Accounts)
	if err != nil {
		return err
	}
	u.money, err = budget.New(ctx, log, accounts, budget.Options{})
	return err
}

func accountsOf(conf map[string]config.BurstAccount) (all []budget.Account, err error) {
	for _, team := range slices.Sorted(maps.Keys(conf)) {
		limit, err := pricing.ParseMoney(conf[team].Cap)
		if err != nil {
			return nil, err
		}
		all = append(all, budget.Account{Team: team, Cap: limit, Period: budget.Period(conf[team].Period), Ask: conf[team].Ask})
	}
	return all, nil
}

// read reads the one burst in a file; - is standard input.
func (u *bursts) read(name string) (*burst.Burst, error) {
	text, err := u.text(name)
	if err != nil {
		return nil, err
	}
	all, err := burst.Read(name, text)
	if err == nil && len(all) != 1 {
		err = mover.Misusef("%s has %d bursts; want one in the file", mover.Printable(name), len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (u *bursts) text(name string) ([]byte, error) {
	in := u.in
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, &mover.Error{Op: "read", Place: name, Err: errors.Unwrap(err)}
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, yamldoc.TextMost+1))
}

// leg is who works on a burst.
func (u *bursts) leg(ctx context.Context, b *burst.Burst, held *shelf.Held) (*lifecycle.Manager, error) {
	at, err := u.tier(b)
	if err != nil {
		return nil, err
	}
	rates, err := u.rates(at)
	if err != nil {
		return nil, err
	}
	log, err := u.logger(u.err)
	if err != nil {
		return nil, err
	}
	state, err := u.stateDir()
	if err != nil {
		return nil, err
	}
	l, err := lifecycle.Open(ctx, lifecycle.Setting{Site: backend.Resolver{Tiers: u.conf.Tiers, FileSystem: fshints.Of}, Request: engine.Request{StateDir: state, Jobs: u.jobs, Limiter: rates.Bandwidth(ctx)}, Log: log}, b)
	if err != nil {
		return nil, err
	}
	if l.Book, err = u.book(b.Spec.Cloud.Region); err != nil {
		return nil, err
	}
	if l.Rules, err = u.rules(); err != nil {
		return nil, err
	}
	l.Purse, l.Find, l.Owner, l.Tell = u.money, u.locate, u.holder(), func(format string, args ...any) { u.note(format, args...) }
	if held != nil {
		l.Keep = held.Keep
	}
	return l, nil
}

// tier is the root of the tier of a burst: a bucket.
func (u *bursts) tier(b *burst.Burst) (location.Location, error) {
	at, err := u.locate(b.Spec.Cloud.Tier + ":")
	if err == nil && at.Scheme != location.S3 {
		err = mover.Misusef("spec.cloud.tier: %s is no bucket", b.Spec.Cloud.Tier)
	}
	return at, err
}

// rates are what bytes move within: --bwlimit, and the limits of the configuration at the tier of a burst, in their windows. Calls per second only agents are held to.
func (u *bursts) rates(at location.Location) (*link.Rates, error) {
	r := &link.Rates{Own: u.limit}
	for _, l := range u.conf.Limits {
		if l.Rate == 0 || l.Endpoint != at.Tier && l.Endpoint != "s3://"+at.Bucket || l.Direction == "write" && u.comes || l.Direction == "read" && !u.comes {
			continue
		}
		w, err := fairshare.NewHeld(l.Zone, fairshare.Rate{Bytes: int64(l.Rate)}, l.Windows...)
		if err != nil {
			return nil, err
		}
		r.Windows = append(r.Windows, w)
	}
	return r, nil
}

// book has the prices of a region.
func (u *bursts) book(region string) (*pricing.Book, error) {
	name := region + ".yaml"
	if dir := u.conf.Burst.Prices; dir != "" {
		return pricing.Open(filepath.Join(dir, name))
	}
	text, err := prices.Books.ReadFile(name)
	if err != nil {
		return nil, advise(fmt.Errorf("%w: no prices of %s come with this program", mover.ErrNotExist, region), "burst: {prices: /etc/datamove/prices} in the configuration, with a file "+name)
	}
	return pricing.Read(name, text)
}

func (u *bursts) rules() (*burst.Admission, error) {
	file := u.conf.Burst.Admission
	if file == "" {
		return burst.ReadAdmission("the usual rules", []byte(burst.DefaultAdmission))
	}
	text, err := u.text(file)
	if err != nil {
		return nil, err
	}
	return burst.ReadAdmission(file, text)
}

// named holds a burst by its name, and has its newest record.
func (u *bursts) named(name string) (*shelf.Held, *burst.Record, *burst.Burst, error) {
	var n burst.Name
	if err := n.UnmarshalText([]byte(name)); err != nil {
		return nil, nil, nil, mover.Misusef("%w", err)
	}
	held, err := u.shelf.Hold(n)
	if err != nil {
		return nil, nil, nil, err
	}
	r, err := held.Record()
	if errors.Is(err, mover.ErrNotExist) {
		err = advise(err, "datamove burst list")
	}
	if err == nil {
		var b *burst.Burst
		if b, err = r.Burst(); err == nil {
			return held, r, b, nil
		}
	}
	return nil, nil, nil, errors.Join(err, held.Release())
}

// with works on a burst that there is.
func (u *bursts) with(ctx context.Context, name string, do func(l *lifecycle.Manager, r *burst.Record, b *burst.Burst) error) (err error) {
	if err := u.ready(ctx); err != nil {
		return err
	}
	held, r, b, err := u.named(name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, held.Release()) }()
	ctx, stop := context.WithCancel(ctx)
	defer stop() // its rates are looked at no more: who follows comes here again and again
	l, err := u.leg(ctx, b, held)
	if err != nil {
		return err
	}
	return do(l, r, b)
}
