// Package checkpoint has the commands of checkpoints: list, latest, restore, commit, prune and watch.
//
// It owns flags and output; what a checkpoint is, and what may go, is decided by tiering/checkpoint and done by tiering/checkpoint/replicate.
// test/script/checkpoint.txt is a session.
package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"strconv"
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

const schemaCheckpoint = "datamove.checkpoint/v1"

// Command is datamove checkpoint.
func Command(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "checkpoint",
		Short: "Bring complete checkpoints to other tiers, and back",
		Long: `A checkpoint is a directory that a training job has saved, beside others of its run.
It is complete when its framework has left the sign of it and nothing speaks against
that, or when "datamove checkpoint commit" has written down what is in it. It is verified
where every byte of a copy of it was checked.

A LOCATION is the directory or the prefix that has the checkpoints of a run. These
commands work in this process, also where there is a service.`,
		Args: cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(watchCommand(a), listCommand(a), latestCommand(a), restoreCommand(a),
		commitCommand(a), pruneCommand(a))
	return cmd
}

// checkpoints is what the commands of checkpoints have in common.
type checkpoints struct {
	*cli.App
	replicate.Site
	profile checkpoint.Profile
}

// profiled adds the flag with the profile of the checkpoints.
func (c *checkpoints) profiled(flags *pflag.FlagSet) {
	one := &cli.Chosen[checkpoint.Profile]{Dst: &c.profile}
	for _, p := range checkpoint.Profiles() {
		one.Choices = append(one.Choices, cli.Choice[checkpoint.Profile]{Word: string(p), Value: p})
	}
	flags.Var(one, "profile", "the `FRAMEWORK` that saves them: "+strings.Join(one.Words(), ", ")+" (default: what it looks like)")
}

// moving adds the flags of what moves bytes.
func (c *checkpoints) moving(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &c.Request.Jobs, "jobs", cli.ParseJobs, "keep `N` calls in flight for each target; default 0 finds a good number")
	cli.ParsedVar(flags, &c.Request.Bandwidth, "bwlimit", units.ParseRate, "move at most `RATE` to each target, like 100MiB/s, 1GB or 10Gbit, without a unit bytes per second; 0 is no limit")
}

// ready makes it one that works.
func (c *checkpoints) ready() (err error) {
	c.Site.Open = c.App.Open
	if c.Request.StateDir, err = c.StateDir(); err != nil {
		return err
	}
	c.Log, err = c.Logger(c.Err)
	return err
}

// folder opens a location that has checkpoints.
func (c *checkpoints) folder(ctx context.Context, arg string, makes bool) (*replicate.Folder, error) {
	l, err := c.Locate(arg)
	if err != nil {
		return nil, err
	}
	return c.Folder(ctx, l, c.profile, makes)
}

// folders opens locations that have checkpoints. One that can not be opened is told, and is an error when no other can.
func (c *checkpoints) folders(ctx context.Context, args []string) (all []*replicate.Folder, done func(), err error) {
	done = func() {
		for _, f := range all {
			_ = f.Close() // they were read
		}
	}
	if err := c.ready(); err != nil {
		return nil, done, err
	}
	var errs []error
	for _, arg := range args {
		f, err := c.folder(ctx, arg, false)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		all = append(all, f)
	}
	if len(all) == 0 {
		return nil, done, errors.Join(errs...)
	}
	for _, err := range errs {
		c.Note("passed over: %v", err)
	}
	return all, done, nil
}

// passed tells why a checkpoint is not the one.
func (c *checkpoints) passed(f *replicate.Folder, name, why string) {
	c.Note("passed over %s in %s: %s", mover.Printable(name), mover.Printable(f.String()), why)
}

// chosen tells what is not the newest although its step is the latest.
func (c *checkpoints) chosen(one replicate.Candidate) {
	if text := rolledBack(one); text != "" {
		c.Note("%s", text)
	}
}

// rolledBack names the sets of a run that was rolled back; "" is none.
func rolledBack(c replicate.Candidate) string {
	if len(c.Beyond) == 0 {
		return ""
	}
	return mover.Printable(strings.Join(c.Beyond, ", ")) + ": saved before " + mover.Printable(c.Name) + ", to which the run was rolled back"
}

// wantFlags adds the flags of which checkpoint is wanted.
func wantFlags(flags *pflag.FlagSet, w *replicate.Want) {
	flags.BoolVar(&w.Verified, "verified", false, "only what was verified when it was copied there")
	cli.ParsedVar(flags, &w.Step, "step", parseStep, "the one of step `N`")
}

func parseStep(s string) (int64, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("want a step of at least 1")
	}
	return n, nil
}

func listCommand(a *cli.App) *cobra.Command {
	c := &checkpoints{App: a}
	var f cli.Format
	cmd := &cobra.Command{
		Use:   "list [flags] LOCATION...",
		Short: "List checkpoints, the newest first, and why some are not complete",
		Example: `  datamove checkpoint list /lustre/project/run1
  datamove checkpoint list /lustre/project/run1 s3://archive/run1 -o json`,
		Args: cobra.MinimumNArgs(1),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		folders, done, err := c.folders(ctx, args)
		defer done()
		if err != nil {
			return err
		}
		return cli.List(a, f, listing, func(yield func(replicate.Candidate, error) bool) {
			for _, folder := range folders {
				for found, err := range checkpoint.Each(ctx, folder, folder.Profile) {
					if !yield(replicate.Candidate{Folder: folder, Found: found}, err) || err != nil {
						return
					}
				}
			}
		})
	})
	c.profiled(cmd.Flags())
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	return cmd
}

// listing is how checkpoints are listed.
var listing = cli.Listing[replicate.Candidate]{
	What: "checkpoints",
	Columns: []cli.Column[replicate.Candidate]{
		{Head: "NAME", Width: 16, Text: func(c replicate.Candidate) string { return mover.Printable(c.Name) }},
		{Head: "STEP", Width: -9, Text: stepText},
		{Head: "STATE", Width: 10, Text: func(c replicate.Candidate) string { return string(stateOf(c)) }},
		{Head: "SIZE", Width: -9, Text: func(c replicate.Candidate) string { return units.Bytes(c.Bytes) }},
		{Head: "FILES", Width: -6, Text: func(c replicate.Candidate) string { return units.Count(c.Files) }},
		{Head: "AGE", Width: -6, Text: func(c replicate.Candidate) string { return cli.Age(c.Found.Saved) }},
		{Head: "IN", Width: 0, Text: func(c replicate.Candidate) string { return mover.Printable(c.Folder.String()) + remark(c) }},
	},
	View: func(c replicate.Candidate) any { return viewOf(c) },
	Name: func(c replicate.Candidate) string { return mover.Printable(c.At().String()) },
	Colour: func(c replicate.Candidate) string {
		return map[checkpoint.State]string{checkpoint.Verified: cli.Green, checkpoint.Seen: cli.Yellow}[stateOf(c)]
	},
}

// stateOf is the state that can be seen of a checkpoint from outside.
func stateOf(c replicate.Candidate) checkpoint.State {
	switch {
	case !c.Complete:
		return checkpoint.Seen
	case c.Commit != nil && c.Commit.Verified():
		return checkpoint.Verified
	}
	return checkpoint.Complete
}

// remark is what is to be said of a checkpoint beside.
func remark(c replicate.Candidate) string {
	switch {
	case !c.Complete:
		return " (" + mover.Printable(c.Why) + ")"
	case c.Commit != nil && len(c.Commit.Tags) > 0:
		return " [" + strings.Join(c.Commit.Tags, ", ") + "]"
	case len(c.Beyond) > 0:
		return " (" + rolledBack(c) + ")"
	}
	return ""
}

func stepText(c replicate.Candidate) string {
	if c.Step < 0 {
		return "-"
	}
	return units.Count(c.Step)
}

// view is a checkpoint as JSON.
type view struct {
	Schema string `json:"schema"`
	cli.NameView
	Location string           `json:"location"`
	Profile  string           `json:"profile"`
	State    checkpoint.State `json:"state"`
	Why      string           `json:"why,omitempty"` // it is not complete
	Step     *int64           `json:"step,omitempty"`
	Bytes    int64            `json:"bytes"`
	Files    int64            `json:"files"`
	Made     *time.Time       `json:"made,omitempty"`
	Save     string           `json:"save,omitempty"` // which save of its name it is
	Level    string           `json:"level,omitempty"`
	From     string           `json:"from,omitempty"`
	Tags     []string         `json:"tags,omitempty"`
}

func viewOf(c replicate.Candidate) view {
	v := view{Schema: schemaCheckpoint, NameView: cli.ViewName(c.Name), Location: c.At().String(), Profile: string(c.Found.Profile), State: stateOf(c), Why: c.Why, Bytes: c.Bytes, Files: c.Files}
	if c.Step >= 0 {
		v.Step = &c.Step
	}
	if made := c.Found.Saved; made != 0 {
		at := time.Unix(0, made).UTC()
		v.Made = &at
	}
	if c.Complete {
		v.Save = replicate.SaveOf(c.Found)
	}
	if c.Commit != nil {
		v.Tags, v.From = c.Commit.Tags, c.Commit.From
		if c.Commit.Level != mover.Unchecked {
			v.Level = c.Commit.Level.String()
		}
	}
	return v
}

func commitCommand(a *cli.App) *cobra.Command {
	c := &checkpoints{App: a}
	var tags []string
	cmd := &cobra.Command{
		Use:   "commit [flags] CHECKPOINT",
		Short: "Say that a checkpoint is complete",
		Long: `Commit puts everything in the directory on stable storage, reads it, and writes ` + checkpoint.Committed + `
into it last: the names, sizes, times and checksums of all files. From then on the
checkpoint is complete, whatever its framework says, until one of them is another one.
A training script calls it when its ranks have written, and none before (a barrier).

With --tag, retention keeps it. What is committed already gets the tag and is not read
again.`,
		Example: `  datamove checkpoint commit /local_nvme/run1/step_1000
  datamove checkpoint commit --tag paper s3://archive/run1/step_90000`,
		Args: cli.Exactly(1, "one checkpoint"),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		for _, tag := range tags {
			if !checkpoint.ValidTag(tag) {
				return mover.Misusef("the tag %q is none: want up to 64 letters, digits, dots, dashes and underscores", tag)
			}
		}
		if err := c.ready(); err != nil {
			return err
		}
		l, err := a.Locate(args[0])
		if err != nil {
			return err
		}
		dir, name, ok := l.Parent()
		if !ok {
			return mover.Misusef("%s is no checkpoint in a directory of them", mover.Printable(args[0]))
		}
		if c.profile == "" {
			c.profile = checkpoint.Plain // all that a directory has to be
		}
		f, err := c.Folder(ctx, dir, c.profile, !dir.IsPath())
		if err != nil {
			return err
		}
		defer f.Close()
		done, err := c.Commit(ctx, f, name, tags)
		if err != nil {
			return err
		}
		if !a.Quiet {
			fmt.Fprintf(a.Out, "committed %s: %s\n", mover.Printable(l.String()), units.Plural(int64(len(done.Files)), "file", "files"))
		}
		return nil
	})
	cmd.Flags().StringArrayVar(&tags, "tag", nil, "keep it for `WORD`; may be repeated")
	return cmd
}
