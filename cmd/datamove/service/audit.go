package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/mover"
	"datamove.dev/mover/server/auditlog"
	"datamove.dev/mover/units"
)

// auditDir is where the service keeps its audit log by default.
const auditDir = "/var/lib/datamove/audit"

func auditCommand(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Check the log of decisions of the service",
		Args:  cobra.NoArgs,
	}
	cmd.RunE = a.Do(func(context.Context, []string) error { return cmd.Help() })
	cmd.AddCommand(auditVerifyCommand(a))
	return cmd
}

func auditVerifyCommand(a *cli.App) *cobra.Command {
	var f cli.Format
	var heads []auditlog.Head
	cmd := &cobra.Command{
		Use:   "verify [flags] [DIR]",
		Short: "Find the first place where the audit log was changed",
		Long: `Verify reads the audit log in DIR, ` + auditDir + ` by default, and looks
whether each record continues the one before it. It names the first place where
records were changed, removed, inserted or reordered, and ends with 9 then. It
writes nothing, and may run while the service does.

An account that can write in DIR can remove records at the end, or write all of
them anew. So keep a head elsewhere: it stands for all records up to it, and with
--head they must be the same. When the oldest files were moved away, the head of
their last record must be given.`,
		Example: `  datamove audit verify
  datamove audit verify --head 1203:9c1d…e07a
  datamove audit verify -o json /mnt/backup/audit`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		dir := auditDir
		if len(args) == 1 {
			dir = args[0]
		}
		s, err := auditlog.Verify(ctx, dir, heads...)
		var broken *auditlog.Break
		if err != nil && !errors.As(err, &broken) {
			return adviseAudit(err)
		}
		printed := printAudit(a, viewAudit(dir, s, broken), f, len(heads) == 0)
		return cmp.Or(adviseAudit(err), printed)
	})
	cmd.Flags().Func("head", "a record that is known from elsewhere, as `SEQUENCE:HASH`; may be repeated", func(s string) error {
		head, err := auditlog.ParseHead(s)
		if err != nil {
			return errors.New("want SEQUENCE:HASH, as verify prints it")
		}
		heads = append(heads, head)
		return nil
	})
	cli.FormatVar(cmd.Flags(), &f, cli.FormatTable, cli.FormatJSON, cli.FormatYAML)
	return cmd
}

func adviseAudit(err error) error {
	switch {
	case errors.Is(err, mover.ErrCorrupt):
		return cli.Advise(err, "the same on a backup of the log, and a comparison of the two around the named line")
	case errors.Is(err, mover.ErrNotExist):
		return cli.Advise(err, "the folder audit below the --data of the service")
	case errors.Is(err, mover.ErrPermission):
		return cli.Advise(err, "as root, or as the user that the service runs as")
	}
	return err
}

// auditView is what an audit log contains, up to its end or the first break.
type auditView struct {
	Schema    string     `json:"schema"`
	Log       string     `json:"log"`
	Whole     bool       `json:"whole"`
	Files     int        `json:"files"`
	Decisions int64      `json:"decisions"`
	Denied    int64      `json:"denied"`
	Cuts      int64      `json:"cuts"`            // half-written ends that were cut off
	First     uint64     `json:"first,omitempty"` // the sequence of the first record
	Since     *time.Time `json:"since,omitempty"`
	Until     *time.Time `json:"until,omitempty"`
	Head      string     `json:"head,omitempty"` // the last record
	InUse     bool       `json:"in_use"`
	Break     *breakView `json:"break,omitempty"`
}

type breakView struct {
	File string `json:"file"`
	Line int64  `json:"line"`
	Why  string `json:"why"`
}

func viewAudit(dir string, s auditlog.Summary, b *auditlog.Break) auditView {
	v := auditView{Schema: "datamove.audit/v1", Log: dir, Whole: b == nil, Files: s.Files, Decisions: s.Decisions, Denied: s.Denied,
		Cuts: s.Cuts, First: s.First, InUse: s.InUse}
	if s.First > 0 {
		v.Since, v.Until, v.Head = &s.Since, &s.Until, s.Head.String()
	}
	if b != nil {
		v.Break = &breakView{b.File, b.Line, b.Why}
	}
	return v
}

// printAudit prints the view. A break is told as an error is, so the table has
// nothing to say of it.
func printAudit(a *cli.App, v auditView, f cli.Format, noHead bool) error {
	switch {
	case f != cli.FormatTable:
		return cli.WriteObject(a.Out, f, v)
	case !v.Whole || a.Quiet:
		return nil
	}
	return v.table(a.Out, noHead)
}

func (v *auditView) table(w io.Writer, noHead bool) error {
	fmt.Fprintf(w, "%s is whole: %s, %s of them denied, in %s\n", mover.Printable(v.Log),
		units.Plural(v.Decisions, "decision", "decisions"), units.Count(v.Denied), units.Plural(int64(v.Files), "file", "files"))
	fmt.Fprintf(w, "  from: %s\n  to:   %s\n  head: %s\n", v.Since.Format(time.RFC3339), v.Until.Format(time.RFC3339), v.Head)
	if v.First > 1 {
		fmt.Fprintf(w, "  note: it begins with record %d, the older files are elsewhere\n", v.First)
	}
	if v.Cuts > 0 {
		fmt.Fprintf(w, "  note: %s cut off when the service started after a kill or a power cut\n",
			units.Plural(v.Cuts, "half-written end was", "half-written ends were"))
	}
	if v.InUse {
		fmt.Fprintf(w, "  note: the service is writing to it\n")
	}
	if noHead {
		_, err := fmt.Fprintf(w, "  note: without --head records may be missing at the end; keep this head elsewhere\n")
		return err
	}
	return nil
}
