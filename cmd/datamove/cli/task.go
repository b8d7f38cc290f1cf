package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover/engine"
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
	defer t.app.ShowHung(w.hangs)()
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
		if werr := writeObject(out, t.format, view); werr != nil {
			return werr
		}
	case formatJSONL:
		view.Failures = nil // each had its line
		out.JSON(view)
	case formatTable:
		if !t.app.quiet && r.Elapsed > 0 { // 0: it did not begin
			printSummary(out, t.command, r)
		}
	}
	if werr := out.Flush(); werr != nil {
		return errors.Join(err, fmt.Errorf("write the report: %w", werr))
	}
	printFailures(t.app.err, t.command, r)
	return err
}
