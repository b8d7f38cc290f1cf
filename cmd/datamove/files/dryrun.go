package files

import (
	"cmp"
	"context"
	"errors"

	"datamove.dev/cmd/datamove/cli"
	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

const schemaAction = "datamove.action/v1"

// printPlan prints what the task would do.
func printPlan(ctx context.Context, t *task.Request) error {
	out := cli.NewLines(t.App.Out)
	logger, err := t.App.Logger(t.App.Err)
	if err != nil {
		return err
	}
	r := t.Engine
	r.Logger, r.Observer = logger, &task.Watcher{Task: t, Out: out, Screen: t.App.Err}
	var totals plan.Totals
	var report engine.Report
	for a, err := range engine.Plan(ctx, r, t.App.Open) {
		if err != nil && a.Name() == "" && totals == (plan.Totals{}) && report.Failed == 0 {
			return err // there is no plan
		}
		if err != nil {
			report.Failed++
			report.Failures = append(report.Failures, engine.Item{Name: a.Name(), Err: err})
			if len(report.Failures) > 1000 || a.Name() == "" {
				break
			}
			continue
		}
		totals.Add(&a)
		if a.Op != plan.Keep || t.App.Verbose {
			action(t, out, &a)
		}
	}
	report.Planned = totals
	return planned(ctx, t, out, report)
}

// action prints one line of a plan.
func action(t *task.Request, out *cli.Lines, a *plan.Action) {
	name, bytes := a.Name(), a.Source.Size
	if a.Op == plan.Remove {
		bytes = a.Target.Size
	}
	switch t.Format {
	case cli.FormatJSONL:
		out.JSON(task.ItemView{Schema: schemaAction, NameView: cli.ViewName(name), Op: a.Op.String(), Kind: a.Kind().String(), Bytes: bytes, Why: a.Why})
	case cli.FormatName:
		out.Printf("%s", mover.Printable(name))
	case cli.FormatTable:
		if !t.App.Quiet {
			out.Printf("%-8s %10s  %s%s", a.Op, task.SizeText(a.Kind(), bytes), mover.Printable(cmp.Or(name, ".")), task.WhyText(a.Why))
		}
	}
}

// planned ends a dry run.
func planned(ctx context.Context, t *task.Request, out *cli.Lines, r engine.Report) error {
	var err error
	for _, it := range r.Failures {
		err = engine.Gravest(err, it.Err)
	}
	kept := r.Planned.Removes
	if r.Failed > 0 { // nothing is removed then
		r.Planned.Removes, r.Planned.RemoveBytes = 0, 0
	}
	err = task.Outcome(ctx, t.Command, r, err)
	if n := r.Planned.Conflicts; n > 0 && ctx.Err() == nil { // the run itself would end so
		err = &cli.PartialError{Failed: r.Failed + n, Err: errors.Join(mover.ErrConflict, err)}
	}
	if t.Format == cli.FormatTable {
		out.Printf("would %s: %s", t.Command, r.Planned)
		if werr := out.Flush(); werr != nil {
			return werr
		}
		task.PrintFailures(t.App.Err, t.Command, r)
		if r.Failed > 0 && kept > 0 {
			t.App.Note("nothing would be removed while there are errors: %s", units.Plural(kept, "entry", "entries"))
		}
		return err
	}
	return t.Finish(out, r, err)
}
