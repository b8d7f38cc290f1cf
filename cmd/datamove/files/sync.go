package files

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

func syncCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "sync", Engine: engine.Request{Work: engine.Sync}}
	var by comparison
	backup := ""
	cmd := &cobra.Command{
		Use:   "sync [flags] SRC DST",
		Short: "Make a folder equal to another one",
		Long: `Sync brings over what is new or differs and, with --delete, removes from DST what
SRC does not have.

Removals come last. They need a complete walk of both sides: an error in a
listing, or a source that is missing or empty, never leads to one. Excluded names
are left alone on both sides. With --delete-before they come first, after such a
walk of their own: for a DST that has room only then.

With --backup-dir, what is replaced or removed is kept under its own name in
another folder of the same file system, or, when DST is in S3, below another prefix
of the same bucket: s3://BUCKET/old, TIER:old, or only old. It may lie in DST: then
this run leaves it alone. A later run replaces what an earlier one kept.

` + serviceHelp,
		Example: `  datamove sync --delete --dry-run /data/run-7 /backup/run-7
  datamove sync --delete --max-delete 5% --backup-dir /backup/.old /data /backup/data
  datamove sync --delete --backup-dir s3://archive/old /data s3://archive/data`,
		Args: cli.Exactly(2, "SRC and DST"),
	}
	cmd.ValidArgsFunction = a.CompleteLocations()
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		t.Engine.Delete = t.Engine.Delete || t.Engine.DeleteFirst
		if t.Engine.MaxDelete.Set && !t.Engine.Delete {
			return mover.Misusef("--max-delete bounds --delete, which is not given")
		}
		if err := t.ChooseProcess(""); err != nil {
			return err
		}
		if err := t.SetEnds(args[0], args[1]); err != nil {
			return err
		}
		if backup != "" {
			var err error
			if t.Engine.Backup, err = backupDir(ctx, t, backup); err != nil {
				return err
			}
		}
		if err := by.request(&t.Engine); err != nil {
			return err
		}
		return run(ctx, t)
	})
	writeFlags(t, &by, cmd.Flags())
	r := &t.Engine
	cmd.Flags().BoolVar(&r.Delete, "delete", false, "remove from DST what SRC does not have")
	cmd.Flags().BoolVar(&r.DeleteFirst, "delete-before", false, "the same, and before anything is written")
	cli.ParsedVar(cmd.Flags(), &r.MaxDelete, "max-delete", parseMaxDelete, "remove nothing at all when it would be more than `N` entries, or N% of what is in DST")
	cmd.Flags().StringVar(&backup, "backup-dir", "", "keep what is replaced or removed in `DIR`: a folder on the file system of DST, or a prefix of its bucket")
	return cmd
}
