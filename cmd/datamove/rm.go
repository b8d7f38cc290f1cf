package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/units"
	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/mover/plan"
)

func (a *app) rmCommand() *cobra.Command {
	t := &task{app: a, command: "rm"}
	var yes, recursive, root bool
	cmd := &cobra.Command{
		Use:     "rm [flags] LOCATION",
		Short:   "Remove a file, or with -r a folder or prefix",
		GroupID: groupLook,
		Long: `Rm counts what it would remove, asks, and then removes no more than it counted.
Without a terminal it needs --yes. A whole bucket or tier is removed only with
--root as well; / and what holds your home or the working directory never.`,
		Example: `  datamove rm -r s3://archive/run-6
  datamove rm -r --yes --max-delete 1000 /scratch/run-6`,
		Args: exactly(1, "one location"),
	}
	cmd.RunE = a.do(func(ctx context.Context, args []string) error {
		if err := a.refuseRoot(args[0], root); err != nil {
			return err
		}
		if err := t.ends("", args[0]); err != nil {
			return err
		}
		return t.remove(ctx, yes, recursive)
	})
	flags := cmd.Flags()
	formatVar(flags, &t.format, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	flags.BoolVarP(&recursive, "recursive", "r", false, "remove a folder and everything below it")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&root, "root", false, "allow a whole bucket or tier")
	flags.BoolVarP(&t.request.DryRun, "dry-run", "n", false, "say what would be removed, and do nothing")
	parsedVar(flags, &t.request.MaxDelete, "max-delete", parseMaxDelete, "remove nothing at all when it would be more than `N` entries")
	return cmd
}

// refuseRoot keeps a slip of the hand from being the end of everything. It looks
// at the words, before a tier is resolved.
func (a *app) refuseRoot(arg string, allowed bool) error {
	l, err := location.Parse(arg)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return &mover.Error{Op: "remove", Place: arg, Err: fmt.Errorf("%w: %s", mover.ErrRefused, why)}
	}
	switch {
	case l.Scheme == location.S3 && l.Prefix == "" && !allowed:
		return advise(refuse("it is a whole bucket"), "--root, if all of it is meant")
	case l.Scheme == location.InTier && l.Path == "" && !allowed:
		return advise(refuse("it is a whole tier"), "--root, if all of it is meant")
	}
	if l, err = a.locate(arg); err != nil || l.Scheme != location.POSIX {
		return err
	}
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	path := l.Path
	if _, link := isLink(l); !link {
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	for _, dear := range []string{"/", a.env("HOME"), here} {
		if dear != "" && mover.Within(strings.Trim(dear, "/"), strings.Trim(path, "/")) {
			return refuse(dear + " is in it")
		}
	}
	return nil
}

// isLink reports whether a location is a symbolic link, which is removed as such.
// With a slash at its end it is the folder that it leads to.
func isLink(l location.Location) (path string, link bool) {
	if l.Scheme != location.POSIX || l.TrailingSlash {
		return "", false
	}
	info, err := os.Lstat(l.Path)
	return l.Path, err == nil && info.Mode().Type() == fs.ModeSymlink
}

// unlink removes a symbolic link and nothing behind it.
func (t *task) unlink(path string, yes bool) error {
	if t.request.DryRun {
		fmt.Fprintf(t.app.out, "would remove the link %s\n", mover.Printable(t.target))
		return nil
	}
	if err := t.ask(yes, "the link"); err != nil {
		return err
	}
	return os.Remove(path)
}

// remove counts, asks, and removes at most what it counted.
func (t *task) remove(ctx context.Context, yes, recursive bool) error {
	if path, link := isLink(t.request.Target); link {
		return t.unlink(path, yes)
	}
	counted, err := t.app.du(ctx, t.target)
	if err != nil {
		return err
	}
	entries := counted.Files + counted.Dirs + counted.Others
	limit := &t.request.MaxDelete
	switch {
	case limit.Percent > 0:
		return usage("--max-delete of rm is a number of entries, not a percentage")
	case !recursive && (entries > 1 || !t.single(ctx)):
		return advise(usage("%s is a folder with %s", mover.Printable(t.target), counted.text()), "datamove rm -r")
	case limit.Set && entries > limit.Entries:
		return &mover.Error{Op: "remove", Place: t.target,
			Err: fmt.Errorf("%w: there are %s, and --max-delete allows %s", mover.ErrRefused, counted.text(), units.Count(limit.Entries))}
	}
	*limit = local.MaxDelete{Set: true, Entries: entries}
	if t.request.DryRun {
		return t.wouldRemove(counted, entries)
	}
	if err := t.ask(yes, counted.text()+" from"); err != nil {
		return err
	}
	return t.work(ctx, func(ctx context.Context, r local.Request, _ func(local.Live)) (local.Report, error) {
		report, err := local.RemoveAll(ctx, r.Target, r, t.app.open)
		if err == nil && report.Failed == 0 && r.Target.Scheme == location.POSIX {
			err = removeRoot(r.Target.Path)
		}
		return report, err
	})
}

// single reports whether the target is one entry that is no folder.
func (t *task) single(ctx context.Context) bool {
	l := t.request.Target
	folder, base, ok := l.Parent()
	if !ok || l.TrailingSlash {
		return false
	}
	place, err := t.app.open(ctx, folder, local.OpenOptions{})
	if err != nil {
		return false
	}
	defer place.Close()
	e, err := place.Stat(ctx, base)
	return err == nil && e.Kind != mover.Dir
}

// wouldRemove ends a dry run.
func (t *task) wouldRemove(counted usageView, entries int64) error {
	out := newLines(t.app.out)
	if t.format == formatTable {
		out.Printf("would remove %s from %s", counted.text(), mover.Printable(t.target))
	}
	return t.finish(out, local.Report{Planned: plan.Totals{Removes: entries, RemoveBytes: counted.Bytes}}, nil)
}

// removeRoot removes the folder itself, which is the root of a place and not one of
// its entries. It is empty, or else somebody has put something there meanwhile.
func removeRoot(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ask wants a yes from a person.
func (t *task) ask(yes bool, what string) error {
	if yes {
		return nil
	}
	if _, ok := t.app.terminal(t.app.in); !ok {
		return advise(usage("nobody is there to ask: there is no terminal"), "--yes")
	}
	fmt.Fprintf(t.app.err, "Remove %s %s? [y/N] ", what, mover.Printable(t.target))
	answer, err := bufio.NewReader(t.app.in).ReadString('\n')
	if err != nil && err != io.EOF { // the end of the input is no yes
		return err
	}
	if answer = strings.ToLower(strings.TrimSpace(answer)); answer != "y" && answer != "yes" {
		return &mover.Error{Op: "remove", Place: t.target, Err: fmt.Errorf("%w: the answer was not yes", mover.ErrRefused)}
	}
	return nil
}
