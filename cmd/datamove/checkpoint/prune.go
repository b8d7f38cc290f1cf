package checkpoint

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/checkpoint"
	"datamove.dev/tiering/checkpoint/replicate"
)

const schemaRetention = "datamove.retention/v1"

// pruning is one prune.
type pruning struct {
	checkpoints
	keep       keepFlags
	format     cli.Format
	yes, dry   bool
	undo       bool
	quarantine time.Duration
}

func pruneCommand(a *cli.App) *cobra.Command {
	p := &pruning{checkpoints: checkpoints{App: a}}
	cmd := &cobra.Command{
		Use:   "prune [flags] LOCATION...",
		Short: "Remove checkpoints that retention does not keep",
		Long: `The locations have the same runs. In each the newest --keep-last of a run (names without
their numbers) that are verified there stay, those with a step that is a multiple of
--keep-every, those with a tag, and what a tracker names. The newest is the one that was
saved last. What is not verified stays, too: it may be on its way. Two of a run that are
verified stay always, and where there is a second location, the newest that both have;
before there is one, all do.

What stays for others to go is read first, as many as stay: what is damaged by now does not
count, nor does what was not read when it came. Directories are read from storage, past the
cache; a store is asked for its own checksums.
With --trust 24h what was verified, or read, within a day is not read again; with --dry-run
nothing is, and more may be listed than goes.

What goes from a directory is kept aside in it for --quarantine, until the first prune after
that, and --undo brings back what the last prune has taken. From a store it goes at once.`,
		Example: `  datamove checkpoint prune --keep-last 3 --keep-every 1000 /lustre/project/run1 s3://archive/run1
  datamove checkpoint prune --undo /lustre/project/run1`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(p.run)
	flags := cmd.Flags()
	p.profiled(flags)
	p.keep.flags(flags)
	trustVar(flags, &p.Trust, 0)
	flags.BoolVarP(&p.yes, "yes", "y", false, "do not ask")
	flags.BoolVarP(&p.dry, "dry-run", "n", false, "say what would be removed, and do nothing")
	flags.BoolVar(&p.undo, "undo", false, "bring back what the last prune has taken from the directories")
	flags.DurationVar(&p.quarantine, "quarantine", replicate.Quarantine, "keep what goes from a directory for `TIME`; 0 removes it at once")
	cli.FormatVar(flags, &p.format, cli.ListFormats...)
	return cmd
}

func (p *pruning) run(ctx context.Context, args []string) error {
	switch {
	case p.undo && (p.keep.Last != 0 || p.keep.Every != 0 || p.dry):
		return mover.Misusef("--undo excludes --keep-last, --keep-every and --dry-run")
	case !p.undo && p.keep.Last < 1:
		return mover.Misusef("--keep-last is missing: how many are to stay?")
	}
	if err := p.ready(); err != nil {
		return err
	}
	var folders []*replicate.Folder
	for _, arg := range args {
		one, err := p.folder(ctx, arg, false)
		if err != nil {
			return err // what the others have can not be judged without it
		}
		defer one.Close()
		folders = append(folders, one)
	}
	if p.undo {
		return p.unprune(folders)
	}
	tiers, err := replicate.Judge(ctx, folders, p.keep.Keep)
	if err != nil {
		return err
	}
	if err := p.assure(ctx, tiers); err != nil {
		return err
	}
	goes := going(tiers)
	var all []judged
	for _, t := range tiers {
		for _, v := range t.Verdicts {
			all = append(all, judged{t, v})
		}
	}
	if err := cli.List(p.App, p.format, judgedListing, cli.Every(all)); err != nil || p.dry || goes == 0 {
		return err
	}
	if err := p.Confirm("Remove "+units.Plural(int64(goes), "checkpoint", "checkpoints"), strings.Join(args, ", "), p.yes); err != nil {
		return err
	}
	return p.remove(ctx, folders, all)
}

// assure has others go for nothing that is damaged. A dry run says that it does not know.
func (p *pruning) assure(ctx context.Context, tiers []replicate.Tier) error {
	switch {
	case going(tiers) == 0:
		return nil
	case p.dry:
		p.Note("a dry run reads nothing: fewer go where something that stays is damaged")
		return nil
	case p.Trust == 0:
		p.Note("what stays is read before others go; with --trust 24h what was verified or read within a day is not")
	}
	return p.Assure(ctx, tiers, p.keep.Keep)
}

// going is how many go.
func going(tiers []replicate.Tier) (n int) {
	for _, t := range tiers {
		for _, v := range t.Verdicts {
			if !v.Keep {
				n++
			}
		}
	}
	return n
}

// remove has what is not kept go, and what has been aside for long enough.
func (p *pruning) remove(ctx context.Context, folders []*replicate.Folder, all []judged) error {
	now, errs := time.Now(), []error{}
	for _, f := range folders {
		errs = append(errs, f.EndQuarantine(now.Add(-p.quarantine)))
	}
	for _, j := range all {
		switch {
		case j.Keep:
		case p.quarantine > 0:
			errs = append(errs, p.Aside(ctx, j.Tier, j.Name, now))
		default:
			errs = append(errs, p.Remove(ctx, j.Tier, j.Name))
		}
	}
	return errors.Join(errs...)
}

// unprune brings back what the last prune has taken.
func (p *pruning) unprune(folders []*replicate.Folder) error {
	var errs []error
	for _, f := range folders {
		names, err := f.Unprune()
		for _, name := range names {
			p.Note("%s is back in %s", mover.Printable(name), mover.Printable(f.String()))
		}
		if err == nil && len(names) == 0 {
			p.Note("nothing is kept aside in %s", mover.Printable(f.String()))
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// keepFlags are the flags of retention.
type keepFlags struct{ checkpoint.Keep }

func (k *keepFlags) flags(flags *pflag.FlagSet) {
	flags.IntVar(&k.Last, "keep-last", 0, "keep the newest `N`")
	flags.Int64Var(&k.Every, "keep-every", 0, "keep those with a step that is a multiple of `N`, too")
}

// trustVar adds the flag of what is not read again before others go for it.
func trustVar(flags *pflag.FlagSet, trust *time.Duration, usual time.Duration) {
	flags.DurationVar(trust, "trust", usual, "others go without reading again what was verified, or read, within `TIME`; 0 reads all that stay")
}

// judged is what retention says of a checkpoint.
type judged struct {
	replicate.Tier
	checkpoint.Verdict
}

var judgedListing = cli.Listing[judged]{
	What: "checkpoints",
	Columns: []cli.Column[judged]{
		{Head: "NAME", Width: 16, Text: func(j judged) string { return mover.Printable(j.Name) }},
		{Head: "WHAT", Width: 6, Text: func(j judged) string { return map[bool]string{true: "stays", false: "goes"}[j.Keep] }},
		{Head: "WHY", Width: 40, Text: func(j judged) string { return j.Why }},
		{Head: "IN", Width: 0, Text: func(j judged) string { return mover.Printable(j.Folder.String()) }},
	},
	View: func(j judged) any {
		return judgedView{schemaRetention, cli.ViewName(j.Name), j.Folder.String(), j.Keep, j.Why}
	},
	Name:   func(j judged) string { return mover.Printable(j.Location.Child(j.Name).String()) },
	Colour: func(j judged) string { return map[bool]string{false: cli.Yellow}[j.Keep] },
}

// judgedView is what retention says of a checkpoint as JSON.
type judgedView struct {
	Schema string `json:"schema"`
	cli.NameView
	In   string `json:"in"`
	Keep bool   `json:"keep"`
	Why  string `json:"why"`
}
