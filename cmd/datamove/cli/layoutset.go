package cli

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

	"datamove.dev/lustre"
	"datamove.dev/mover"
)

func (a *app) layoutSet() *cobra.Command {
	var (
		f format
		w layoutWords
		q requestWords
	)
	cmd := &cobra.Command{
		Use:   "set [flags] DIR|FILE...",
		Short: "Say how new files of a directory are striped, or stripe a file anew",
		Long: `Set says how the files are striped that will be made in a directory. Those that are
there keep their layout. A FILE that is not there is made, empty, with the layout; or,
with --mdt-count, a directory whose entries are spread over several metadata servers.

The content of a FILE that is there is moved to the layout, on OSTs that have room now
(Lustre; as lfs migrate does). The file stays the same one, with its owner, times and
links, and is never seen half moved. One that is open somewhere is left as it is, and one
that somebody opens meanwhile, too (exit 5); with --block they wait until it is done.
What the archive has of it counts as old then.

What was set is read again: Lustre takes some layouts and does something else.`,
		Example: `  datamove layout set --stripe-count 8 --stripe-size 4MiB /lustre/vision
  datamove layout set --component 64MiB,1 --component 4GiB,4,4MiB --component end,8,4MiB /lustre/vision
  datamove layout set --like /lustre/other/train.tar /lustre/vision/train.tar
  datamove layout set --advise --use dataset /lustre/vision
  lfs find /lustre/vision --ost 7 -size +10G -print0 | xargs -0 datamove layout set --stripe-count 8`,
		Args: some("a directory, or a file"),
	}
	cmd.RunE = a.doApart(func(ctx context.Context, args []string) error {
		if err := w.check(cmd.Flags()); err != nil {
			return err
		}
		var done []string
		var errs []error
		for _, arg := range args {
			if err := a.setLayout(ctx, arg, &w, q); err != nil {
				errs = append(errs, err)
			} else {
				done = append(done, arg)
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if len(done) > 0 {
			errs = append(errs, a.showLayouts(ctx, f, done))
		}
		return errors.Join(errs...)
	})
	formatVar(cmd.Flags(), &f, listFormats...)
	w.flagsOf(cmd.Flags())
	q.flagsOf(cmd.Flags())
	return cmd
}

// setLayout gives a directory a default or a file another layout, or makes one. q is
// what this one is asked advice for.
func (a *app) setLayout(ctx context.Context, arg string, w *layoutWords, q requestWords) error {
	path, err := a.path(ctx, arg)
	if err != nil {
		return err
	}
	if w.mdts != 0 {
		return a.makeDir(ctx, path, w, &q)
	}
	m, err := a.striped(ctx, path)
	switch {
	case errors.Is(err, mover.ErrNotExist) && !w.remove:
		return a.makeFile(ctx, path, w, &q)
	case err != nil:
		return err
	case !m.dir:
		return a.restripe(ctx, m, w, &q)
	}
	m.Close()
	return a.setDefault(ctx, path, w, &q)
}

func (a *app) setDefault(ctx context.Context, path string, w *layoutWords, q *requestWords) error {
	m, err := a.striped(ctx, path)
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := a.wanted(ctx, m, w, q)
	if err != nil {
		return err
	}
	if err := m.Layout.SetDefault(ctx, m.fd, l); err != nil {
		return a.notSet(path, err)
	}
	return nil
}

// makeDir makes a directory with spread entries, and returns how its files are striped.
func (a *app) makeDir(ctx context.Context, path string, w *layoutWords, q *requestWords) error {
	m, err := a.striped(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer m.Close()
	striper, ok := m.Layout.(lustre.DirStriper)
	if !ok {
		return fmt.Errorf("--mdt-count on %s (%s): %w: directories are not spread over servers there", mover.Printable(m.Mount), m.Kind, errors.ErrUnsupported)
	}
	s := lustre.Striping{Count: w.mdts, FirstMDT: lustre.AnyTarget} // which hash is best the servers know
	if err := striper.MakeDir(ctx, m.fd, filepath.Base(path), 0o755, s); err != nil {
		return a.notSet(path, err)
	}
	if w.only() {
		return nil
	}
	if err := a.setDefault(ctx, path, w, q); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

func (a *app) makeFile(ctx context.Context, path string, w *layoutWords, q *requestWords) error {
	m, err := a.striped(ctx, filepath.Dir(path))
	if err != nil {
		return err
	}
	defer m.Close()
	l, err := a.wanted(ctx, m, w, q)
	if err != nil {
		return err
	}
	fd, err := m.Layout.Create(ctx, m.fd, filepath.Base(path), unix.O_RDWR|unix.O_EXCL, 0o666, l)
	if err != nil {
		return a.notSet(path, err)
	}
	if err := unix.Close(fd); err != nil {
		return &os.PathError{Op: "close", Path: path, Err: err}
	}
	return nil
}

// notSet is why a layout was not set.
func (a *app) notSet(path string, err error) error {
	if errors.Is(err, unix.EINVAL) {
		err = withKind(err, mover.ErrUsage)
	}
	if err = naming(path, kindly(err)); errors.Is(err, lustre.ErrNotApplied) {
		return advise(err, "datamove layout show "+shellWord(path)+", for what is there; and whether the pool exists and the OSTs take new objects: datamove doctor "+shellWord(path))
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
func (a *app) striped(ctx context.Context, path string) (*mounted, error) {
	m, err := a.mounted(ctx, path)
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
func (a *app) wanted(ctx context.Context, m *mounted, w *layoutWords, q *requestWords) (lustre.Layout, error) {
	var l lustre.Layout
	switch {
	case w.remove:
		return l, nil
	case w.like != "":
		v, err := question(ctx, a, w.like, layoutOf)
		if err != nil {
			return l, err
		}
		if v.Layout.IsZero() {
			return l, mover.Misusef("%s has no layout of its own to take over", mover.Printable(w.like))
		}
		l = v.Layout.Wanted()
	case w.advise:
		q.r.Pool = w.pool
		c, err := a.measured(ctx, m, &q.r)
		if err != nil {
			return l, err
		}
		advice := lustre.Advise(q.r, c)
		a.tellDoubts(advice.Reasons)
		if n := advice.Striping.Count; n > 1 && w.mdts == 0 {
			a.note("a directory of so many files should be made over several MDTs: datamove layout set --mdt-count %d, with a new DIR", n)
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
	return l, a.checkTargets(ctx, m, &l)
}

// checkTargets refuses pools that are not there, which Lustre takes and leaves out, and
// says so where it has fewer targets than were asked for.
func (a *app) checkTargets(ctx context.Context, m *mounted, l *lustre.Layout) error {
	c, err := m.Layout.Cluster(ctx, m.fd)
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
			return advise(mover.Misusef("%s has no pool %q", mover.Printable(m.Mount), one.Pool), "one of: "+known(strings.Join(slices.Sorted(maps.Keys(c.Pools)), ", ")))
		}
		targets := len(c.OSTs)
		if one.Pool != "" {
			targets = len(members)
		}
		if one.Pattern == lustre.RAID0 && one.StripeCount > targets {
			a.note("component %d: %d stripes were asked for, and there are %d OSTs for it: Lustre makes %d", i+1, one.StripeCount, targets, targets)
		}
	}
	return nil
}
