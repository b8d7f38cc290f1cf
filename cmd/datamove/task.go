package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/cmd/datamove/units"
	"datamove.dev/mover"
	"datamove.dev/mover/local"
)

// task is one request as the command line makes it: what to ask the mover, and
// how to tell what became of it.
type task struct {
	app     *app
	command string // copy, sync, verify or rm
	source  string // as the user wrote it; "" is none
	target  string
	request local.Request
	filter  filterFlags
	format  format
	detach  bool
}

// flags adds the flags of copy, sync and verify.
func (t *task) flags(flags *pflag.FlagSet) {
	formatVar(flags, &t.format, formatTable, formatJSON, formatJSONL, formatYAML, formatName)
	t.filter.flags(flags)
	r := &t.request
	parsedVar(flags, &r.Jobs, "jobs", parseJobs, "keep `N` calls in flight; default 0 finds a good number")
	parsedVar(flags, &r.Bandwidth, "bwlimit", units.ParseRate, "move at most `RATE`, like 100MiB/s, 1GB or 10Gbit; 0 is no limit")
	parsedVar(flags, &r.Memory, "memory", parseMemory, "use at most `SIZE` for buffers (default 128MiB)")
	parsedVar(flags, &r.Preserve, "preserve", parsePreserve,
		"compare and keep only these `FACTS`: mode,owner,group,mtime,atime,times,xattrs,acls,links,holes, or none but the content (default all)")
}

// writeFlags adds the flags of copy and sync.
func (t *task) writeFlags(flags *pflag.FlagSet) {
	t.flags(flags)
	r := &t.request
	flags.BoolVarP(&r.DryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	flags.BoolVar(&r.Checksum, "checksum", false, "compare contents instead of size and mtime")
	flags.BoolVar(&r.Full, "again", false, "copy everything again, also what is equal")
	flags.Var(&chosen[mover.Level]{dst: &r.Verify, choices: levelChoices}, "verify", "check at `LEVEL` at least: written, server, or read (read the target again)")
	flags.Var(&chosen[local.Reflink]{dst: &r.Reflink, choices: reflinkChoices}, "reflink", "`WHEN` to share blocks with the source: auto, where the file system can (default), or never")
	flags.Var(&chosen[local.OnFull]{dst: &r.OnFull, choices: onFullChoices}, "full", "`WHAT` to do when the target is full: wait for room (default) or fail")
	flags.BoolVar(&t.detach, "detach", false, "give the task to the service and return")
}

// run does the task and tells how it went.
func (t *task) run(ctx context.Context) error {
	if err := t.service(); err != nil {
		return err
	}
	var err error
	if t.request.Filter, err = t.filter.filter(t.app.in); err != nil {
		return err
	}
	if t.request.DryRun {
		return t.plan(ctx)
	}
	return t.work(ctx, func(ctx context.Context, r local.Request, sees func(local.Live)) (local.Report, error) {
		task, err := local.Start(ctx, r, t.app.open)
		if err != nil {
			return local.Report{}, err
		}
		sees(task)
		report, err := task.Wait()
		if r.Work == local.Verify { // nothing is moved: what counts is what was read
			report.Bytes = task.Snapshot().BytesDone
		}
		return report, err
	})
}

// service refuses what only a service can do.
func (t *task) service() error {
	if !t.detach {
		return nil
	}
	conf, err := t.app.config()
	if err != nil {
		return err
	}
	if conf.Service == "" {
		return advise(usage("--detach: no service configured"), "the command without --detach, or a line service: in the configuration")
	}
	return fmt.Errorf("--detach: %s: this datamove works in its own process only: %w", conf.Service, mover.ErrUnsupported)
}

// work does body while its progress is shown, and then tells how it ended.
func (t *task) work(ctx context.Context, body func(context.Context, local.Request, func(local.Live)) (local.Report, error)) error {
	out := newLines(t.app.out)
	w := &watcher{task: t, out: out}
	screen, stop := t.show(w)
	logger, err := t.app.logger(screen)
	if err != nil {
		stop()
		return err
	}
	w.screen = screen
	r := t.request
	r.Observer, r.Logger = w, logger
	report, err := body(ctx, r, func(live local.Live) { w.live.Store(&live) })
	stop()
	return t.finish(out, report, outcome(ctx, t.command, report, err))
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
func outcome(ctx context.Context, command string, r local.Report, err error) error {
	if ctx.Err() != nil && (err != nil || r.Failed > 0) {
		return errInterrupted
	}
	if r.Failed > 0 {
		return &partial{failed: r.Failed, err: err, differ: command == "verify"}
	}
	return err
}

// finish prints the report.
func (t *task) finish(out *lines, r local.Report, err error) error {
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
