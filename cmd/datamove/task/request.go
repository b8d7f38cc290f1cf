package task

import (
	"context"
	"errors"
	"fmt"
	"io"

	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/progress"
	"datamove.dev/mover/engine"
)

// Request is one request as the command line makes it: what to ask the mover, here or
// at a service, and how to tell what became of it.
type Request struct {
	App     *cli.App
	Command string // copy, sync, verify or rm; or another one that begins a task of a service
	Source  string // as the user wrote it; "" is none
	Target  string
	Engine  engine.Request
	Filter  FilterFlags
	Format  cli.Format
	Service ServiceFlags
	At      string   // the service that does it; "" is this process
	ID      string   // that the service gave it; "" before
	key     string   // under which it was asked to
	Last    *pb.Task // as it ended there; nil before

	// Tell prints the report in another way; nil is the usual one.
	Tell func(context.Context, engine.Report, error) error
}

// Work does body while its progress is shown, and then tells how it ended.
func (t *Request) Work(ctx context.Context, body func(context.Context, engine.Request, *Watcher) (engine.Report, error)) error {
	out := cli.NewLines(t.App.Out)
	w := &Watcher{Task: t, Out: out}
	screen, stop := t.show(w)
	logger, err := t.App.Logger(screen)
	if err != nil {
		stop()
		return err
	}
	w.Screen = screen
	defer t.App.ShowHung(w.hangs)()
	r := t.Engine
	r.Observer, r.Logger = w, logger
	report, err := body(ctx, r, w)
	stop()
	err = Outcome(ctx, t.Command, report, err)
	if t.Tell == nil {
		return t.Finish(out, report, err)
	}
	if werr := t.Tell(ctx, report, err); err == nil {
		err = werr
	}
	PrintFailures(t.App.Err, t.Command, report)
	return err
}

// show starts the display of progress. Everything for stderr goes through screen
// until stop is called.
func (t *Request) show(w *Watcher) (screen io.Writer, stop func()) {
	if t.App.Quiet {
		return t.App.Err, func() {}
	}
	o := progress.Options{Tick: func() { _ = w.Out.Flush() }} // the error stays and is found at the end
	if f, ok := t.App.Terminal(t.App.Err); ok {
		o.Terminal, o.Width = true, cli.TerminalWidth(f)
	}
	d := progress.Start(t.App.Err, o, w.sample)
	return d, d.Stop
}

// Outcome turns the end of a task into the error that decides the exit code.
func Outcome(ctx context.Context, command string, r engine.Report, err error) error {
	if ctx.Err() != nil && (err != nil || r.Failed > 0) {
		return cli.ErrInterrupted
	}
	if r.Failed > 0 {
		return &cli.PartialError{Failed: r.Failed, Err: err, Differ: command == "verify"}
	}
	return err
}

// Finish prints the report.
func (t *Request) Finish(out *cli.Lines, r engine.Report, err error) error {
	view := t.ViewReport(r, err)
	switch t.Format {
	case cli.FormatJSON, cli.FormatYAML:
		if werr := cli.WriteObject(out, t.Format, view); werr != nil {
			return werr
		}
	case cli.FormatJSONL:
		view.Failures = nil // each had its line
		out.JSON(view)
	case cli.FormatTable:
		if !t.App.Quiet && r.Elapsed > 0 { // 0: it did not begin
			PrintSummary(out, t.Command, r)
		}
	}
	if werr := out.Flush(); werr != nil {
		return errors.Join(err, fmt.Errorf("write the report: %w", werr))
	}
	PrintFailures(t.App.Err, t.Command, r)
	return err
}
