// Package files has the commands that work on files and trees: copy, sync, verify and rm, which are tasks of the engine, and ls, du and find, which look.
//
// It owns their flags and how they print; what a task is, here or at a service, is task.Request. A flag of a copy is added in flags.go, or in the file of
// the one command that has it. Removals ask first, and never take a root (rm.go). test/script has a session of each command.
package files

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/units"
)

// Commands are those that work on files and trees.
func Commands(a *cli.App) []*cobra.Command {
	return []*cobra.Command{copyCommand(a), syncCommand(a), verifyCommand(a), lsCommand(a), findCommand(a), duCommand(a), rmCommand(a)}
}

func copyCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "copy", Engine: engine.Request{Work: engine.Copy}}
	var by comparison
	into := ""
	cmd := &cobra.Command{
		Use:   "copy [flags] SRC DST | copy [flags] --into DIR SRC...",
		Short: "Copy a file or the contents of a folder",
		Long: `Copy brings over what is new or differs, and removes nothing.

The contents of a folder become the contents of DST, whether DST exists or not,
so that every run means the same. A file becomes DST, or lands in it when DST
ends in / or is a folder. With --into each source goes below DIR under its own
name. A device, FIFO or socket as DST, like /dev/null and /dev/stdout, is refused.
A link that is named as SRC is followed; links in a folder stay links.

A file is visible at the target only when it is whole. After an interruption the
same command goes on where it stopped.

` + serviceHelp,
		Example: `  datamove copy /data/run-7 /scratch/run-7
  datamove copy model.bin s3://archive/models/
  datamove copy --into /scratch /data/run-7 /data/run-8
  datamove copy --exclude '*.tmp' --bwlimit 200MiB/s /data project:data
  datamove copy --detach --project vision dataset:imagenet archive:imagenet`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case into == "" && len(args) != 2:
				return mover.Misusef("want SRC and DST, or --into DIR and sources; found %s", units.Plural(int64(len(args)), "argument", "arguments"))
			case into != "" && len(args) == 0:
				return mover.Misusef("--into %s: want sources to copy there", into)
			}
			return nil
		},
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if err := t.ChooseProcess(""); err != nil {
			return err
		}
		place := func() error { return t.SetSources(into, args) }
		if into == "" {
			place = func() error { return t.SetEnds(args[0], args[1]) }
		}
		if err := place(); err != nil {
			return err
		}
		if err := by.request(&t.Engine); err != nil {
			return err
		}
		return run(ctx, t)
	})
	writeFlags(t, &by, cmd.Flags())
	cmd.Flags().StringVar(&into, "into", "", "copy each source below `DIR` under its own name")
	return cmd
}
