package files

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
	"datamove.dev/mover/units"
)

func rmCommand(a *cli.App) *cobra.Command {
	t := &task.Request{App: a, Command: "rm"}
	var yes, recursive, root bool
	cmd := &cobra.Command{
		Use:               "rm [flags] LOCATION",
		Short:             "Remove a file, or with -r a folder or prefix",
		ValidArgsFunction: a.CompleteLocations(),
		Long: `Rm counts what it would remove, asks, and then removes no more than it counted.
Without a terminal it needs --yes. A whole bucket or tier, and the home of an account, are
removed only with --root as well; / and what holds your home or the working
directory never. What is mounted below stays, and is named.

With a service, it counts and asks here and removes there; what can not be counted
from here it asks about all the same. ^C cancels the task, and what is removed is
gone.`,
		Example: `  datamove rm -r s3://archive/run-6
  datamove rm -r --yes --max-delete 1000 /scratch/run-6`,
		Args: cli.Exactly(1, "one location"),
	}
	cmd.RunE = a.Do(func(ctx context.Context, args []string) error {
		if err := t.ChooseProcess(""); err != nil {
			return err
		}
		if err := refuseRoot(t, args[0], root); err != nil {
			return err
		}
		if err := t.SetTarget(args[0]); err != nil {
			return err
		}
		return remove(ctx, t, yes, recursive)
	})
	flags := cmd.Flags()
	cli.FormatVar(flags, &t.Format, cli.FormatTable, cli.FormatJSON, cli.FormatJSONL, cli.FormatYAML, cli.FormatName)
	flags.BoolVarP(&recursive, "recursive", "r", false, "remove a folder and everything below it")
	flags.BoolVarP(&yes, "yes", "y", false, "do not ask")
	flags.BoolVar(&root, "root", false, "allow a whole bucket or tier, or the home of an account")
	flags.BoolVarP(&t.Engine.DryRun, "dry-run", "n", false, "say what would be removed, and do nothing")
	cli.ParsedVar(flags, &t.Engine.MaxDelete, "max-delete", parseMaxDelete, "remove nothing at all when it would be more than `N` entries")
	t.Service.Flags(flags)
	return cmd
}

// refuseRoot keeps a slip of the hand from being the end of everything. It looks
// at the words, before a tier is resolved.
func refuseRoot(t *task.Request, arg string, allowed bool) error {
	l, err := location.Parse(arg)
	if err != nil {
		return err
	}
	refuse := func(why string) error {
		return &mover.Error{Op: "remove", Location: arg, Err: fmt.Errorf("%w: %s", mover.ErrRefused, why)}
	}
	switch {
	case l.IsDataset() && t.At != "":
		return cli.Advise(mover.Misusef("%s is a dataset, which is on tiers", l), "datamove release "+l.String()+" --from TIER, or datamove dataset remove")
	case (l.InStore() || l.InTier()) && l.Below() == "" && !allowed:
		return cli.Advise(refuse("it is a whole "+map[bool]string{true: "tier", false: "bucket"}[l.InTier()]), "--root, if all of it is meant")
	}
	if last := filepath.Base(strings.TrimRight(arg, "/")); l.IsPath() && strings.Trim(arg, "/") != "" && (last == "." && l.Path != "." || last == "..") {
		return mover.Misusef("%s ends in %s: what that is can not be seen from its name", mover.Printable(arg), last)
	}
	if l, err = t.Locate(arg); err != nil || !l.IsPath() {
		return err
	}
	wd, err := os.Getwd()
	if err != nil {
		return err
	}
	path := l.Path
	if info, err := os.Lstat(path); err == nil && l.TrailingSlash && info.Mode().Type() == fs.ModeSymlink {
		return cli.Advise(mover.Misusef("%s is a symbolic link", mover.Printable(arg)), "its name without the slash to remove the link, or the folder that it leads to by its own name")
	}
	if _, link := isLink(l); !link {
		resolved, err := filepath.EvalSymlinks(path)
		switch {
		case err == nil:
			path = resolved
		case t.At == "" || !elsewhere(t):
			return err
		}
	}
	for _, dear := range []string{"/", t.App.Env("HOME"), wd} {
		if dear != "" && holds(path, dear) {
			return refuse(dear + " is in it")
		}
	}
	if name := homeIn(path); name != "" && !allowed {
		return cli.Advise(refuse("the home of "+name+" is in it"), "--root, if all of it is meant")
	}
	return nil
}

// holds reports whether a folder lies in a path, or is it: by its name, or by what the path is, which a mount may show under another name.
func holds(path, folder string) bool {
	if mover.Within(strings.Trim(folder, "/"), strings.Trim(path, "/")) {
		return true
	}
	is, err := os.Stat(path)
	for dir := filepath.Clean(folder); err == nil; dir = filepath.Dir(dir) {
		if at, err := os.Stat(dir); err == nil && os.SameFile(is, at) {
			return true
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	return false
}

// homeIn names an account with its home in a path, or is it: of people and of root, and whatever is directly below /home, where a directory
// service may know its account.
func homeIn(path string) (name string) {
	inside := strings.Trim(path, "/")
	if inside == "home" {
		return "everybody"
	}
	if up, base := filepath.Split(path); up == "/home/" {
		return base
	}
	accounts, err := os.ReadFile("/etc/passwd")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(accounts)) {
		const fields, uidField, homeField, firstPerson = 7, 2, 5, 1000 // passwd(5)
		f := strings.Split(line, ":")
		if len(f) != fields {
			continue
		}
		uid, err := strconv.ParseUint(f[uidField], 10, 32)
		if home := filepath.Clean(f[homeField]); err == nil && (uid == 0 || uid >= firstPerson) && home != "/" && holds(path, home) {
			if info, err := os.Stat(home); err == nil && info.IsDir() { // "/nonexistent"
				return f[0]
			}
		}
	}
	return ""
}

// isLink reports whether a location is a symbolic link, which is removed as such.
// With a slash at its end it is the folder that it leads to.
func isLink(l location.Location) (path string, link bool) {
	if !l.IsPath() || l.TrailingSlash {
		return "", false
	}
	info, err := os.Lstat(l.Path)
	return l.Path, err == nil && info.Mode().Type() == fs.ModeSymlink
}

// unlink removes a symbolic link and nothing behind it.
func unlink(t *task.Request, path string, yes bool) error {
	if t.Engine.DryRun {
		fmt.Fprintf(t.App.Out, "would remove the link %s\n", mover.Printable(t.Target))
		return nil
	}
	if err := ask(t, yes, "the link"); err != nil {
		return err
	}
	return os.Remove(path)
}

// remove counts, asks, and removes at most what it counted.
func remove(ctx context.Context, t *task.Request, yes, recursive bool) error {
	if path, link := isLink(t.Engine.Target); link && (t.At == "" || !elsewhere(t)) {
		return unlink(t, path, yes)
	}
	counted, known, err := count(ctx, t)
	if err != nil {
		return err
	}
	what := "everything in"
	switch limit := &t.Engine.MaxDelete; {
	case limit.Percent > 0:
		return mover.Misusef("--max-delete of rm is a number of entries, not a percentage")
	case known:
		if err := within(ctx, t, counted, recursive); err != nil {
			return err
		}
		what = counted.text() + " from"
	case !recursive:
		return cli.Advise(mover.Misusef("whether %s is a folder can not be seen from here", mover.Printable(t.Target)), "datamove rm -r")
	}
	if t.Engine.DryRun {
		return wouldRemove(t, counted)
	}
	if err := ask(t, yes, what); err != nil {
		return err
	}
	return removeAll(ctx, t)
}

// count counts what is there. A service may have what can not be seen from here.
func count(ctx context.Context, t *task.Request) (v usageView, known bool, err error) {
	if t.At != "" && elsewhere(t) {
		return v, false, nil
	}
	v, err = du(ctx, t.App, t.Target)
	if t.At != "" && err != nil && ctx.Err() == nil && !errors.Is(err, mover.ErrNotExist) {
		return v, false, nil
	}
	return v, err == nil, err
}

// elsewhere reports whether the target may be another one here than there.
func elsewhere(t *task.Request) bool {
	conf, err := t.App.Config()
	return t.Service.Node != "" || err != nil || conf.Tiers[t.Engine.Target.Tier].NodeLocal
}

// within refuses what is more than was allowed, and allows no more than was counted.
func within(ctx context.Context, t *task.Request, counted usageView, recursive bool) error {
	limit := &t.Engine.MaxDelete
	switch {
	case !recursive && (counted.entries() > 1 || !single(ctx, t)):
		return cli.Advise(mover.Misusef("%s is a folder with %s", mover.Printable(t.Target), counted.text()), "datamove rm -r")
	case limit.Set && counted.entries() > limit.Entries:
		return &mover.Error{Op: "remove", Location: t.Target,
			Err: fmt.Errorf("%w: there are %s, and --max-delete allows %s", mover.ErrRefused, counted.text(), units.Count(limit.Entries))}
	}
	*limit = engine.MaxDelete{Set: true, Entries: counted.entries()}
	return nil
}

// removeAll removes, here or at the service.
func removeAll(ctx context.Context, t *task.Request) error {
	if t.At != "" {
		spec, err := convert.Remove(&t.Engine)
		if err != nil {
			return err
		}
		return t.Submit(ctx, spec)
	}
	return t.Work(ctx, func(ctx context.Context, r engine.Request, _ *task.Watcher) (engine.Report, error) {
		report, err := engine.RemoveAll(ctx, r.Target, r, t.App.Open)
		if err == nil && report.Failed == 0 && r.Target.IsPath() {
			err = removeRoot(r.Target.Path)
		}
		return report, err
	})
}

// single reports whether the target is one entry that is no folder.
func single(ctx context.Context, t *task.Request) bool {
	l, err := t.App.Locate(t.Target)
	if err != nil {
		return false
	}
	folder, base, ok := l.Parent()
	if !ok || l.TrailingSlash {
		return false
	}
	var e mover.Entry
	err = engine.Visit(ctx, folder, t.App.Open, func(place mover.Backend) (err error) { e, err = place.Stat(ctx, base); return err })
	return err == nil && e.Kind != mover.Dir
}

// wouldRemove ends a dry run.
func wouldRemove(t *task.Request, counted usageView) error {
	out := cli.NewLines(t.App.Out)
	if t.Format == cli.FormatTable {
		out.Printf("would remove %s from %s", counted.text(), mover.Printable(t.Target))
	}
	return t.Finish(out, engine.Report{Planned: plan.Totals{Removes: counted.entries(), RemoveBytes: counted.Bytes}}, nil)
}

// removeRoot removes the folder itself, which is the root of a place and not one of
// its entries. It is empty, or else another process has put something there meanwhile.
func removeRoot(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// ask wants a yes from a person.
func ask(t *task.Request, yes bool, what string) error {
	return t.App.Confirm("Remove "+what+" "+mover.Printable(t.Target), t.Target, yes)
}
