package layout

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/lustre"
	"datamove.dev/mover"
)

func setCommand(a *cli.App) *cobra.Command {
	var (
		f cli.Format
		w layoutWords
		q requestWords
	)
	cmd := &cobra.Command{
		Use:   "set [flags] DIR|FILE...",
		Short: "Say how new files of a directory are striped, or stripe a file anew",
		Long: `Set says how the files are striped that will be made in a directory. Those that are
there keep their layout. A FILE that is not there is made, empty, with the layout; or,
with --mdt-count, a directory with entries on several metadata servers.

The content of a FILE that is there is moved to the layout, on OSTs that have room now
(Lustre; as lfs migrate does). The file stays the same one, with its owner, times and
links, and is never seen half moved. One that is open, or is
opened meanwhile, is left as it is (exit 5); with --block opens wait until it is done.
What the archive has of it counts as old then.

What was set is read again: Lustre takes some layouts and does something else.`,
		Example: `  datamove layout set --stripe-count 8 --stripe-size 4MiB /lustre/vision
  datamove layout set --component 64MiB,1 --component 4GiB,4,4MiB --component end,8,4MiB /lustre/vision
  datamove layout set --like /lustre/other/train.tar /lustre/vision/train.tar
  datamove layout set --advise --use dataset /lustre/vision
  lfs find /lustre/vision --ost 7 -size +10G -print0 | xargs -0 datamove layout set --stripe-count 8`,
		Args: cli.AtLeastOne("a directory, or a file"),
	}
	cmd.RunE = a.DoInSecondProcess(func(ctx context.Context, args []string) error {
		if err := w.check(cmd.Flags()); err != nil {
			return err
		}
		var done []string
		var errs []error
		for _, arg := range args {
			if err := setLayout(ctx, a, arg, &w, q); err != nil {
				errs = append(errs, err)
			} else {
				done = append(done, arg)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(done) > 0 {
			errs = append(errs, showLayouts(ctx, a, f, done))
		}
		return errors.Join(errs...)
	})
	cli.FormatVar(cmd.Flags(), &f, cli.ListFormats...)
	w.flagsOf(cmd.Flags())
	q.flagsOf(cmd.Flags())
	return cmd
}

// setLayout gives a directory a default or a file another layout, or makes one. q is
// what this one is asked advice for.
func setLayout(ctx context.Context, a *cli.App, arg string, w *layoutWords, q requestWords) error {
	path, err := a.Path(ctx, arg)
	if err != nil {
		return err
	}
	if w.mdts != 0 {
		return makeDir(ctx, a, path, w, &q)
	}
	m, err := striped(ctx, a, path)
	switch {
	case errors.Is(err, mover.ErrNotExist) && !w.remove:
		return makeFile(ctx, a, path, w, &q)
	case err != nil:
		return err
	case !m.Dir:
		return restripe(ctx, a, m, w, &q)
	}
	m.Close()
	return setDefault(ctx, a, path, w, &q)
}

func setDefault(ctx context.Context, a *cli.App, path string, w *layoutWords, q *requestWords) error {
	m, err := striped(ctx, a, path)
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := wanted(ctx, a, m, w, q)
	if err != nil {
		return err
	}
	if err := m.Layout.SetDefault(ctx, m.FD, l); err != nil {
		return notSet(a, path, err)
	}
	return nil
}

// makeDir makes a directory with spread entries, and returns how its files are striped.
func makeDir(ctx context.Context, a *cli.App, path string, w *layoutWords, q *requestWords) error {
	m, err := striped(ctx, a, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer m.Close()
	striper, ok := m.Layout.(lustre.DirStriper)
	if !ok {
		return fmt.Errorf("--mdt-count on %s (%s): %w: directories are not spread over servers there", mover.Printable(m.Mount), m.Kind, errors.ErrUnsupported)
	}
	s := lustre.Striping{Count: w.mdts, FirstMDT: lustre.AnyTarget} // which hash is best the servers know
	if err := striper.MakeDir(ctx, m.FD, filepath.Base(path), 0o755, s); err != nil {
		return notSet(a, path, err)
	}
	if w.only() {
		return nil
	}
	if err := setDefault(ctx, a, path, w, q); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func makeFile(ctx context.Context, a *cli.App, path string, w *layoutWords, q *requestWords) error {
	m, err := striped(ctx, a, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := wanted(ctx, a, m, w, q)
	if err != nil {
		return err
	}
	fd, err := m.Layout.Create(ctx, m.FD, filepath.Base(path), unix.O_RDWR|unix.O_EXCL, 0o666, l)
	if err != nil {
		return notSet(a, path, err)
	}
	if err := unix.Close(fd); err != nil {
		return &os.PathError{Op: "close", Path: path, Err: err}
	}
	return nil
}

// notSet is why a layout was not set.
func notSet(a *cli.App, path string, err error) error {
	if errors.Is(err, unix.EINVAL) {
		err = cli.WithKind(err, mover.ErrUsage)
	}
	if err = naming(path, cli.WithKernelKind(err)); errors.Is(err, lustre.ErrNotApplied) {
		return cli.Advise(err, "datamove layout show "+cli.ShellWord(path)+", for what is there; and whether the pool exists and the OSTs take new objects: datamove doctor "+cli.ShellWord(path))
	}
	return err
}

// naming says of which path an error is, if it does not say so itself.
func naming(path string, err error) error {
	if said := err.Error(); strings.Contains(said, path) || strings.Contains(said, mover.Printable(path)) {
		return err
	}
	return fmt.Errorf("layout of %s: %w", mover.Printable(path), err)
}

// striped opens a path of a file system that has layouts.
func striped(ctx context.Context, a *cli.App, path string) (*cli.Mounted, error) {
	m, err := a.Mounted(ctx, path)
	if err != nil {
		return nil, err
	}
	if m.Layout == nil {
		defer m.Close()
		return nil, m.Lack(lustre.AskLayout)
	}
	return m, nil
}

// wanted is the layout that flags say, for a file system.
func wanted(ctx context.Context, a *cli.App, m *cli.Mounted, w *layoutWords, q *requestWords) (lustre.Layout, error) {
	var l lustre.Layout
	switch {
	case w.remove:
		return l, nil
	case w.like != "":
		v, err := cli.ProbePath(ctx, a, w.like, layoutOf)
		if err != nil {
			return l, err
		}
		if v.Layout.IsZero() {
			return l, mover.Misusef("%s has no layout of its own to take over", mover.Printable(w.like))
		}
		l = v.Layout.Wanted()
	case w.advise:
		q.r.Pool = w.pool
		c, err := measured(ctx, a, m, &q.r)
		if err != nil {
			return l, err
		}
		advice := lustre.Advise(q.r, c)
		tellDoubts(a, advice.Reasons)
		if n := advice.Striping.Count; n > 1 && w.mdts == 0 {
			a.Note("a directory of so many files should be made over several MDTs: datamove layout set --mdt-count %d, with a new DIR", n)
		}
		return advice.Layout, nil
	default:
		var err error
		if l, err = w.layout(); err != nil {
			return l, err
		}
		if m.Kind == lustre.IsLustre { // others have limits of their own, and longer names of pools
			if err := l.Validate(); err != nil {
				return l, mover.Misusef("%w", err)
			}
		}
	}
	return l, checkTargets(ctx, a, m, &l)
}

// checkTargets refuses pools that are not there, which Lustre takes and leaves out, and
// says so where it has fewer targets than were asked for.
func checkTargets(ctx context.Context, a *cli.App, m *cli.Mounted, l *lustre.Layout) error {
	c, err := m.Layout.Cluster(ctx, m.FD)
	if err != nil || len(c.OSTs) == 0 {
		return nil // the call that sets the layout finds out
	}
	for i := range l.Components {
		one := &l.Components[i]
		members, there := c.Pools[one.Pool]
		if one.Pool != "" && !there {
			if len(c.Pools) == 0 {
				continue // not every account may see them; the call that sets the layout looks again
			}
			return cli.Advise(mover.Misusef("%s has no pool %q", mover.Printable(m.Mount), one.Pool), "one of: "+cli.OrDash(strings.Join(slices.Sorted(maps.Keys(c.Pools)), ", ")))
		}
		targets := len(c.OSTs)
		if one.Pool != "" {
			targets = len(members)
		}
		if one.Pattern == lustre.RAID0 && one.StripeCount > targets {
			a.Note("component %d: %d stripes were asked for, and there are %d OSTs for it: Lustre makes %d", i+1, one.StripeCount, targets, targets)
		}
	}
	return nil
}
