package quota

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
	"datamove.dev/mover/units"
)

// quotaWords are the flags of quota set. What was not said stays as it is.
type quotaWords struct {
	softBytes, hardBytes, softFiles, hardFiles limit
	project                                    projectID
	make                                       bool
}

// limit is a limit that was said; 0 is none.
type limit struct {
	said bool
	n    int64
}

// projectID is a project that was said.
type projectID struct {
	said bool
	id   uint32
}

func setCommand(a *cli.App) *cobra.Command {
	var (
		f cli.Format
		w quotaWords
	)
	cmd := &cobra.Command{
		Use:   "set [flags] DIR",
		Short: "Set what a project may hold",
		Long: `Set changes limits of the project that DIR is in; those that are not named stay. With
--project it is that project, and DIR is put into it: what is made in DIR from then on
belongs to it, and what is there already does not. On CephFS the limits are those of DIR.

With --make DIR is made. On btrfs and GPFS that is the only way for a directory to
become a project of its own.

It takes the rights of an administrator. What was set is read again.`,
		Example: `  datamove quota set --bytes 10TiB --files 1000000 /lustre/vision
  datamove quota set --project 4242 --bytes 10TiB /lustre/vision
  datamove quota set --make --bytes 100GiB /btrfs/vision
  datamove quota set --bytes none /lustre/vision`,
		Args: cli.Exactly(1, "a directory"),
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		if err := setQuota(ctx, a, args[0], &w); err != nil {
			return err
		}
		return showQuotas(ctx, a, f, args)
	})
	cli.FormatVar(cmd.Flags(), &f, formats...)
	w.flagsOf(cmd.Flags())
	return cmd
}

func (w *quotaWords) flagsOf(flags *pflag.FlagSet) {
	cli.ParsedVar(flags, &w.hardBytes, "bytes", parseByteLimit, "hold at most this `SIZE`, like 10TiB; none is no limit")
	cli.ParsedVar(flags, &w.softBytes, "soft-bytes", parseByteLimit, "hold more than this `SIZE` only for a while; none is no limit")
	cli.ParsedVar(flags, &w.hardFiles, "files", parseFileLimit, "hold at most this `NUMBER` of files and directories; none is no limit")
	cli.ParsedVar(flags, &w.softFiles, "soft-files", parseFileLimit, "hold more than this `NUMBER` only for a while; none is no limit")
	cli.ParsedVar(flags, &w.project, "project", parseProject, "put DIR into the project `ID`")
	flags.BoolVar(&w.make, "make", false, "make DIR, as a project of its own")
}

func parseByteLimit(s string) (limit, error) {
	if s == "none" {
		return limit{said: true}, nil
	}
	n, err := units.ParseBytes(s)
	return limit{true, n}, err
}

func parseFileLimit(s string) (limit, error) {
	if s == "none" {
		return limit{said: true}, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return limit{}, fmt.Errorf("want a number of files, or none")
	}
	return limit{true, n}, nil
}

func parseProject(s string) (projectID, error) {
	n, err := strconv.ParseUint(s, 10, 32)
	if err != nil || n == 0 || n == 1<<32-1 {
		return projectID{}, fmt.Errorf("want a number from 1 to %d", uint32(1<<32-2))
	}
	return projectID{true, uint32(n)}, nil
}

// over is old with what was said.
func (w *quotaWords) over(old lustre.Limits) lustre.Limits {
	for _, one := range []struct {
		said limit
		dst  *int64
	}{{w.softBytes, &old.SoftBytes}, {w.hardBytes, &old.HardBytes}, {w.softFiles, &old.SoftFiles}, {w.hardFiles, &old.HardFiles}} {
		if one.said.said {
			*one.dst = one.said.n
		}
	}
	return old
}

func (w *quotaWords) limits() bool {
	return w.softBytes.said || w.hardBytes.said || w.softFiles.said || w.hardFiles.said
}

// setQuota makes the directory if that is asked for, sets the limits, and puts the
// directory under them: in this order nothing is written without limits.
func setQuota(ctx context.Context, a *cli.App, arg string, w *quotaWords) error {
	if !w.limits() && !w.project.said && !w.make {
		return mover.Misusef("want a limit: --bytes, --soft-bytes, --files or --soft-files; or --project, --make")
	}
	path, err := a.Path(ctx, arg)
	if err != nil {
		return err
	}
	undo := func() error { return nil }
	if w.make {
		if undo, err = makeProject(ctx, a, path, w); err != nil {
			return cli.WithKernelKind(err)
		}
	}
	if err := limitPath(ctx, a, path, w); err != nil {
		return errors.Join(err, undo())
	}
	return nil
}

// makeProject makes a directory, as a project where projects are made so. undo removes it.
func makeProject(ctx context.Context, a *cli.App, path string, w *quotaWords) (undo func() error, err error) {
	m, err := accounted(ctx, a, filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	defer m.Close()
	maker, ok := m.Quota.(lustre.ProjectMaker)
	if !ok {
		if !w.project.said && m.Kind != lustre.IsCephFS {
			return nil, mover.Misusef("on this file system (%s) a project has a number: want --project, too", m.Kind)
		}
		return func() error { return os.Remove(path) }, os.Mkdir(path, 0o755)
	}
	if w.project.said {
		return nil, mover.Misusef("on this file system (%s) a project that is made has a number of its own: --make without --project", m.Kind)
	}
	p, err := maker.MakeProject(ctx, m.FD, filepath.Base(path), 0o755)
	if err != nil {
		return nil, err
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cli.ToolTime)
		defer cancel()
		return removeProject(ctx, a, path, p)
	}, nil
}

// removeProject removes what makeProject made.
func removeProject(ctx context.Context, a *cli.App, path string, p lustre.Project) error {
	m, err := accounted(ctx, a, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer m.Close()
	maker, ok := m.Quota.(lustre.ProjectMaker)
	if !ok {
		return m.Lack(lustre.AskQuota)
	}
	return maker.RemoveProject(ctx, m.FD, filepath.Base(path), p)
}

// accounted opens a path of a file system that has quotas.
func accounted(ctx context.Context, a *cli.App, path string) (*cli.Mounted, error) {
	m, err := a.Mounted(ctx, path)
	if err != nil {
		return nil, err
	}
	if m.Quota == nil {
		defer m.Close()
		return nil, m.Lack(lustre.AskQuota)
	}
	return m, nil
}

// limitPath sets the limits of the project of a directory, or of the one that it is put into.
func limitPath(ctx context.Context, a *cli.App, path string, w *quotaWords) error {
	m, err := accounted(ctx, a, path)
	if err != nil {
		return err
	}
	defer m.Close()
	if !m.Dir {
		return mover.Misusef("%s is a file: a project holds directories", mover.Printable(path))
	}
	p, err := m.Quota.Project(ctx, m.FD)
	if err != nil {
		return fmt.Errorf("project of %s: %w", mover.Printable(path), cli.WithKernelKind(err))
	}
	own := m.Kind == lustre.IsCephFS // where each directory can have limits: those of DIR are meant, and not of one above it
	if own {
		p = lustre.Project{}
	}
	moved := w.project.said && (p.ID != w.project.id || !p.Inherit)
	switch {
	case moved:
		p = lustre.Project{ID: w.project.id, Inherit: true}
	case p.ID == 0 && p.Name == "" && !own:
		if _, err := m.Quota.Quota(ctx, m.FD, p); errors.Is(err, errors.ErrUnsupported) {
			return cli.WithKernelKind(err) // a project would be of no use
		}
		return cli.Advise(mover.Misusef("%s is in no project", mover.Printable(path)), "--project ID, which puts it into one")
	}
	if _, settled := m.Quota.(lustre.ProjectMaker); moved && settled {
		// Directories stay where they are: the limits of another project are not touched before that is said.
		return cli.WithKernelKind(m.Quota.SetProject(ctx, m.FD, p))
	}
	if w.limits() {
		if err := setLimits(ctx, a, m, p, w); err != nil {
			return err
		}
	}
	if !moved {
		return nil
	}
	if err := m.Quota.SetProject(ctx, m.FD, p); err != nil {
		return cli.WithKernelKind(err)
	}
	if names, err := os.ReadDir(path); err == nil && len(names) > 0 {
		a.Note("%s is in project %d now; what was in it before is not: lfs project -p %d -rs DIR, or chattr -R -p %d +P DIR, or a copy", mover.Printable(path), p.ID, p.ID, p.ID)
	}
	return nil
}

// setLimits changes the limits that were said.
func setLimits(ctx context.Context, a *cli.App, m *cli.Mounted, p lustre.Project, w *quotaWords) error {
	q, err := m.Quota.Quota(ctx, m.FD, p)
	if err != nil {
		return cli.WithKernelKind(err)
	}
	l := w.over(q.Limits)
	switch {
	case !q.HasSoft && (w.softBytes.n > 0 || w.softFiles.n > 0):
		return fmt.Errorf("quota of %s (%s): %w: it has no soft limits", mover.Printable(m.Path), m.Kind, errors.ErrUnsupported)
	case !q.CountsFiles && (w.softFiles.n > 0 || w.hardFiles.n > 0):
		return fmt.Errorf("quota of %s (%s): %w: it does not count files", mover.Printable(m.Path), m.Kind, errors.ErrUnsupported)
	}
	if err := l.Validate(); err != nil {
		return mover.Misusef("%w", err)
	}
	if err := m.Quota.SetQuota(ctx, m.FD, p, l); err != nil {
		return cli.WithKernelKind(err)
	}
	if l.HardBytes > 0 && q.UsedBytes > l.HardBytes || l.HardFiles > 0 && q.UsedFiles > l.HardFiles {
		a.Note("%s holds more than that already: what is there stays, and nothing can be added", mover.Printable(m.Path))
	}
	return nil
}
