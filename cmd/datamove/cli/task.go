package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

// task is one request as the command line makes it: what to ask the mover, here or
// at a service, and how to tell what became of it.
type task struct {
	app     *app
	command string // copy, sync, verify or rm; or another one that begins a task of a service
	source  string // as the user wrote it; "" is none
	target  string
	request engine.Request
	filter  filterFlags
	format  format
	by      struct{ checksum, size bool } // what files are compared by; all false is the usual
	order   orderFlags
	at      string   // the service that does it; "" is this process
	id      string   // that the service gave it; "" before
	key     string   // under which it was asked to
	last    *pb.Task // as it ended there; nil before

	// tell prints the report in another way; nil is the usual one.
	tell func(context.Context, engine.Report, error) error
}

// flags adds the flags of copy, sync and verify.
func (t *task) flags(flags *pflag.FlagSet) {
	formatVar(flags, &t.format, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	t.filter.flags(flags)
	r := &t.request
	parsedVar(flags, &r.Jobs, "jobs", parseJobs, "keep `N` calls in flight; default 0 finds a good number")
	parsedVar(flags, &r.Bandwidth, "bwlimit", units.ParseRate, "move at most `RATE`, like 100MiB/s, 1GB or 10Gbit, without a unit bytes per second; 0 is no limit; with a service, on all nodes that work on it together")
	parsedVar(flags, &r.Memory, "memory", parseMemory, "use at most `SIZE` for buffers (default 128MiB)")
	parsedVar(flags, &r.Preserve, "preserve", parsePreserve,
		"compare and keep only these `FACTS`: mode,owner,group,mtime,atime,times,xattrs,acls,links,holes, of objects headers,metadata,tags,class, or none but the content (default all); beside all others, layout on file systems with stripes, and privileges from a bucket whose writers are believed: setuid and setgid of files, attributes of security.* and trusted.*, devices")
	flags.BoolVarP(&r.Follow, "follow", "L", false, "copy what links in the source lead to, also outside of it")
	t.order.flags(flags)
}

// serviceHelp says of a command how it goes with a service.
const serviceHelp = `With a service, the work is done there, as you, and the command waits: it goes on
over restarts of the service, prints the same report and ends with the same code.
Single items are not sent to it: -v names none, and -o jsonl prints failures and
the report. ^C cancels the task, and what is done stays; with --detach it goes on
without you, see datamove task. A dry run is done in this process.`

// writeFlags adds the flags of copy and sync.
func (t *task) writeFlags(flags *pflag.FlagSet) {
	t.flags(flags)
	r := &t.request
	flags.BoolVarP(&r.DryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	flags.BoolVar(&t.by.checksum, "checksum", false, "compare contents instead of size and mtime")
	flags.BoolVar(&t.by.size, "size-only", false, "compare size alone: a file of equal size stays as it is, whatever its mtime and content; other facts are brought over, see --preserve")
	flags.BoolVar(&r.CopyAll, "again", false, "copy everything again, also what is equal")
	flags.Var(&chosen[mover.Level]{dst: &r.Verify, choices: levelChoices}, "verify", "check at `LEVEL` at least: written, server, or read (read the target again)")
	flags.Var(&chosen[engine.Reflink]{dst: &r.Reflink, choices: reflinkChoices}, "reflink", "`WHEN` to share blocks with the source: auto, where the file system can (default), or never")
	flags.Var(&chosen[engine.Released]{dst: &r.Released, choices: releaseChoices}, "released", "`WHAT` to do with files whose content is in the archive of their file system only: restore them first (default), skip, or fail")
	flags.Var(&chosen[engine.OnNoSpace]{dst: &r.OnNoSpace, choices: onFullChoices}, "full", "`WHAT` to do when the target is full: wait for room (default) or fail")
}

// compareBy takes what files are compared by from its flags.
func (t *task) compareBy() error {
	switch {
	case t.by.checksum && t.by.size:
		return mover.Misusef("--checksum and --size-only exclude each other")
	case t.by.checksum:
		t.request.CompareBy = plan.ByContent
	case t.by.size:
		t.request.CompareBy = plan.BySize
	}
	return nil
}

// run does the task and tells how it went.
func (t *task) run(ctx context.Context) error {
	if err := t.compareBy(); err != nil {
		return err
	}
	if t.at != "" {
		return t.runRemote(ctx)
	}
	var err error
	if t.request.Filter, err = t.filter.filter(t.app.in); err != nil {
		return err
	}
	if t.request.DryRun {
		return t.plan(ctx)
	}
	return t.work(ctx, func(ctx context.Context, r engine.Request, w *watcher) (engine.Report, error) {
		task, err := engine.Start(ctx, r, t.app.open)
		if err != nil {
			return engine.Report{}, err
		}
		w.sees(task)
		report, err := task.Wait()
		if r.Work == engine.Verify { // nothing is moved: what counts is what was read
			report.Bytes = task.Snapshot().BytesDone
		}
		return report, err
	})
}

// work does body while its progress is shown, and then tells how it ended.
func (t *task) work(ctx context.Context, body func(context.Context, engine.Request, *watcher) (engine.Report, error)) error {
	out := newLines(t.app.out)
	w := &watcher{task: t, out: out}
	screen, stop := t.show(w)
	logger, err := t.app.logger(screen)
	if err != nil {
		stop()
		return err
	}
	w.screen = screen
	t.app.watched.Store(w)
	defer t.app.watched.Store(nil)
	r := t.request
	r.Observer, r.Logger = w, logger
	report, err := body(ctx, r, w)
	stop()
	err = outcome(ctx, t.command, report, err)
	if t.tell == nil {
		return t.finish(out, report, err)
	}
	if werr := t.tell(ctx, report, err); err == nil {
		err = werr
	}
	printFailures(t.app.err, t.command, report)
	return err
}

// show starts the display of progress. Everything for stderr goes through screen
// until stop is called.
func (t *task) show(w *watcher) (screen io.Writer, stop func()) {
	if t.app.quiet {
		return t.app.err, func() {}
	}
	o := progress.Options{Tick: func() { _ = w.out.Flush() }} // the error stays and is found at the end
	if f, ok := t.app.terminal(t.app.err); ok {
		o.Terminal, o.Width = true, columns(f)
	}
	d := progress.Start(t.app.err, o, w.sample)
	return d, d.Stop
}

// outcome turns the end of a task into the error that decides the exit code.
func outcome(ctx context.Context, command string, r engine.Report, err error) error {
	if ctx.Err() != nil && (err != nil || r.Failed > 0) {
		return errInterrupted
	}
	if r.Failed > 0 {
		return &partial{failed: r.Failed, err: err, differ: command == "verify"}
	}
	return err
}

// finish prints the report.
func (t *task) finish(out *lines, r engine.Report, err error) error {
	view := t.viewReport(r, err)
	switch t.format {
	case formatJSON, formatYAML:
		if werr := writeObject(out.buf, t.format, view); werr != nil {
			return werr
		}
	case formatJSONL:
		view.Failures = nil // each had its line
		out.JSON(view)
	case formatTable:
		if !t.app.quiet && r.Elapsed > 0 { // 0: it did not begin
			printSummary(out.buf, t.command, r)
		}
	}
	if werr := out.Flush(); werr != nil {
		return errors.Join(err, fmt.Errorf("write the report: %w", werr))
	}
	printFailures(t.app.err, t.command, r)
	return err
}
