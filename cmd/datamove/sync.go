package main

import (
	"context"

	"github.com/spf13/cobra"

	"datamove.dev/mover/local"
)

func (a *app) syncCommand() *cobra.Command {
	t := &task{app: a, command: "sync", request: local.Request{Work: local.Sync}}
	backup := ""
	cmd := &cobra.Command{
		Use:     "sync [flags] SRC DST",
		Short:   "Make a folder equal to another one",
		GroupID: groupMove,
		Long: `Sync brings over what is new or differs and, with --delete, removes from DST what
SRC does not have.

Removals come last. They need a complete walk of both sides: an error in a
listing, or a source that is missing or empty, never leads to one. Excluded names
are left alone on both sides.`,
		Example: `  datamove sync --delete --dry-run /data/run-7 /backup/run-7
  datamove sync --delete --max-delete 5% --backup-dir /backup/.old /data /backup/data`,
		Args: exactly(2, "SRC and DST"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if t.request.MaxDelete.Set && !t.request.Delete {
			return usage("--max-delete bounds --delete, which is not given")
		}
		if err := t.ends(args[0], args[1]); err != nil {
			return err
		}
		if backup != "" {
			var err error
			if t.request.Backup, err = a.backup(backup, t.request.Target); err != nil {
				return err
			}
		}
		return t.run(ctx)
	})
	t.writeFlags(cmd.Flags())
	r := &t.request
	cmd.Flags().BoolVar(&r.Delete, "delete", false, "remove from DST what SRC does not have")
	parsedVar(cmd.Flags(), &r.MaxDelete, "max-delete", parseMaxDelete, "remove nothing at all when it would be more than `N` entries, or N% of what is in DST")
	cmd.Flags().StringVar(&backup, "backup-dir", "", "keep what is replaced or removed in `DIR` (a prefix, when DST is in S3)")
	return cmd
}
