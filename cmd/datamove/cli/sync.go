package cli

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
)

func (a *app) syncCommand() *cobra.Command {
	t := &task{app: a, command: "sync", request: engine.Request{Work: engine.Sync}}
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
		Args: exactly(2, "SRC and DST"),
	}
	cmd.ValidArgsFunction = a.completeLocations()
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		t.request.Delete = t.request.Delete || t.request.DeleteFirst
		if t.request.MaxDelete.Set && !t.request.Delete {
			return mover.Misusef("--max-delete bounds --delete, which is not given")
		}
		if err := t.choose(""); err != nil {
			return err
		}
		if err := t.ends(args[0], args[1]); err != nil {
			return err
		}
		if backup != "" {
			var err error
			if t.request.Backup, err = t.backup(ctx, backup); err != nil {
				return err
			}
		}
		return t.run(ctx)
	})
	t.writeFlags(cmd.Flags())
	r := &t.request
	cmd.Flags().BoolVar(&r.Delete, "delete", false, "remove from DST what SRC does not have")
	cmd.Flags().BoolVar(&r.DeleteFirst, "delete-before", false, "the same, and before anything is written")
	parsedVar(cmd.Flags(), &r.MaxDelete, "max-delete", parseMaxDelete, "remove nothing at all when it would be more than `N` entries, or N% of what is in DST")
	cmd.Flags().StringVar(&backup, "backup-dir", "", "keep what is replaced or removed in `DIR`: a folder on the file system of DST, or a prefix of its bucket")
	return cmd
}
