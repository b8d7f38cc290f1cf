package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
	"datamove.dev/tiering/checkpoint/replicate"
)

func latestCommand(a *cli.App) *cobra.Command {
	c := &checkpoints{App: a}
	var w replicate.Want
	var f cli.Format
	var to string
	cmd := &cobra.Command{
		Use:   "latest [flags] LOCATION...",
		Short: "Print where the newest complete checkpoint is, or bring it here",
		Long: `Latest prints one location, and ends with 3 when there is no such checkpoint. Where
several locations have it, it is that of the first; file systems come before stores.
With --fetch-to it is brought to DIR, if it is not there already, and what is printed is
where it is then. What has its name in DIR is kept aside, as "restore" says.`,
		Example: `  datamove checkpoint latest --verified /lustre/project/run1 s3://archive/run1
  torchrun train.py --resume "$(datamove checkpoint latest --verified --fetch-to /local_nvme/run1 s3://archive/run1)"`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		folders, done, err := c.folders(ctx, args)
		defer done()
		if err != nil {
			return err
		}
		if to == "" {
			for found := range replicate.Candidates(ctx, folders, w, c.passed) {
				c.chosen(found)
				return cli.List(a, f, latestListing, cli.Every([]replicate.Candidate{found}))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			return missing(folders, replicate.None(folders, w))
		}
		r, target, err := c.restore(ctx, folders, w, to)
		if err != nil {
			return err
		}
		defer target.Close()
		return cli.List(a, f, latestListing, cli.Every([]replicate.Candidate{{Folder: target, Found: r.Found}}))
	})
	flags := cmd.Flags()
	c.profiled(flags)
	c.moving(flags)
	wantFlags(flags, &w)
	flags.StringVar(&to, "fetch-to", "", "bring it to the directory `DIR`")
	cli.FormatVar(flags, &f, cli.FormatName, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML)
	return cmd
}

// latestListing is one location.
var latestListing = cli.Listing[replicate.Candidate]{View: listing.View, Name: listing.Name}

// restore brings what is wanted to a directory, which is open then.
func (c *checkpoints) restore(ctx context.Context, folders []*replicate.Folder, w replicate.Want, to string) (replicate.Restored, *replicate.Folder, error) {
	l, err := c.Locate(to)
	if err != nil {
		return replicate.Restored{}, nil, err
	}
	profile := c.profile
	if profile == "" {
		profile = folders[0].Profile
	}
	target, err := c.Folder(ctx, l, profile, true)
	if err != nil {
		return replicate.Restored{}, nil, err
	}
	r, err := c.Restore(ctx, folders, w, target, c.passed)
	if err != nil {
		_ = target.Close() // err is what counts
		return r, nil, missing(folders, err)
	}
	c.chosen(r.Candidate)
	c.arrived(r, target)
	return r, target, nil
}

// arrived tells of a restore what its one line does not: what was kept aside for it, and that nothing says what it should have in it.
func (c *checkpoints) arrived(r replicate.Restored, target *replicate.Folder) {
	if r.Aside != "" {
		c.Note("what was called %s is kept aside for %d days: %s; it comes back with datamove checkpoint prune --undo %s, when nothing has its name",
			mover.Printable(r.Name), replicate.Quarantine/(24*time.Hour), mover.Printable(r.Aside), mover.Printable(target.String()))
	}
	if unchecked(r) {
		c.Note("the content of %s was not verified: no record of a copy says what it should be", mover.Printable(r.Name))
	}
}

// unchecked says whether nothing held the content of what was restored to a record.
func unchecked(r replicate.Restored) bool {
	if r.Already {
		return r.Level == mover.Unchecked
	}
	return r.Commit == nil || !r.Commit.Summed()
}

func restoreCommand(a *cli.App) *cobra.Command {
	c := &checkpoints{App: a}
	var w replicate.Want
	var to string
	cmd := &cobra.Command{
		Use:   "restore [flags] LOCATION... --to DIR",
		Short: "Bring a checkpoint back from the nearest location that has it",
		Long: `Restore brings the newest complete checkpoint, or the one that is named, to DIR/NAME,
from the first location that has it; file systems come before stores. Every byte is held
to the checksums that were written down when it was copied there. Where that fails the next
location is asked, and then the next older checkpoint; each is told. In DIR the checkpoint
is there whole, or not at all, and the tracker of a framework that needs one names it.

What has its name in DIR, and is not the same save, verified, stays as it is where its bytes
are those of that save. Else it is kept aside in DIR for a week, which is told: when nothing
has its name, "datamove checkpoint prune --undo DIR" brings it back. Where nothing can be
moved aside, as in a bucket, restore ends with 5, and changes nothing there.`,
		Example: `  datamove checkpoint restore /lustre/project/run1 s3://archive/run1 --to /local_nvme/run1
  datamove checkpoint restore --step 90000 s3://archive/run1 --to /lustre/project/run1`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		switch {
		case to == "":
			return mover.Misusef("--to is missing: where is it to be brought?")
		case w.Name != "" && w.Step != 0:
			return mover.Misusef("--name and --step exclude each other")
		}
		folders, done, err := c.folders(ctx, args)
		defer done()
		if err != nil {
			return err
		}
		r, target, err := c.restore(ctx, folders, w, to)
		if err != nil {
			return err
		}
		defer target.Close()
		if !a.Quiet {
			fmt.Fprintf(a.Out, "restored %s from %s: %s\n", mover.Printable(target.Location.Child(r.Name).String()), mover.Printable(r.Folder.String()), carried(r.Result))
		}
		return nil
	})
	flags := cmd.Flags()
	c.profiled(flags)
	c.moving(flags)
	wantFlags(flags, &w)
	flags.StringVar(&w.Name, "name", "", "the one that is called `NAME`")
	flags.StringVar(&to, "to", "", "bring it to the directory `DIR`")
	return cmd
}

// missing says of a checkpoint that is not there where to look for it.
func missing(folders []*replicate.Folder, err error) error {
	if errors.Is(err, mover.ErrNotExist) {
		return cli.Advise(err, "datamove checkpoint list "+mover.Printable(folders[0].String()))
	}
	return err
}

// carried is what a copy of a checkpoint has come to, for people.
func carried(r replicate.Result) string {
	if r.Already {
		return units.Bytes(r.Bytes) + ", already there"
	}
	text := fmt.Sprintf("%s in %s", units.Bytes(r.Bytes), units.Duration(r.Took))
	if here := r.Bytes - r.Sent; here > 0 {
		text += fmt.Sprintf(", of which %s were there", units.Bytes(here))
	}
	return text
}
