package cli

import (
	"cmp"
	"context"
	"errors"

	"datamove.dev/mover"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/units"
)

// plan prints what the task would do.
func (t *task) plan(ctx context.Context) error {
	out := newLines(t.app.out)
	logger, err := t.app.logger(t.app.err)
	if err != nil {
		return err
	}
	r := t.request
	r.Logger, r.Observer = logger, &watcher{task: t, out: out, screen: t.app.err}
	var totals plan.Totals
	var report engine.Report
	for a, err := range engine.Plan(ctx, r, t.app.open) {
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
		if a.Op != plan.Keep || t.app.verbose {
			t.action(out, &a)
		}
	}
	report.Planned = totals
	return t.planned(ctx, out, report)
}

// action prints one line of a plan.
func (t *task) action(out *lines, a *plan.Action) {
	name, bytes := a.Name(), a.Source.Size
	if a.Op == plan.Remove {
		bytes = a.Target.Size
	}
	switch t.format {
	case formatJSONL:
		out.JSON(itemView{Schema: schemaAction, nameView: viewName(name), Op: a.Op.String(), Kind: a.Kind().String(), Bytes: bytes, Why: a.Why})
	case formatName:
		out.Printf("%s", mover.Printable(name))
	case formatTable:
		if !t.app.quiet {
			out.Printf("%-8s %10s  %s%s", a.Op, size(a.Kind(), bytes), mover.Printable(cmp.Or(name, ".")), why(a.Why))
		}
	}
}

// planned ends a dry run.
func (t *task) planned(ctx context.Context, out *lines, r engine.Report) error {
	var err error
	for _, it := range r.Failures {
		err = engine.Gravest(err, it.Err)
	}
	kept := r.Planned.Removes
	if r.Failed > 0 { // nothing is removed then
		r.Planned.Removes, r.Planned.RemoveBytes = 0, 0
	}
	err = outcome(ctx, t.command, r, err)
	if n := r.Planned.Conflicts; n > 0 && ctx.Err() == nil { // the run itself would end so
		err = &partial{failed: r.Failed + n, err: errors.Join(mover.ErrConflict, err)}
	}
	if t.format == formatTable {
		out.Printf("would %s: %s", t.command, r.Planned)
		if werr := out.Flush(); werr != nil {
			return werr
		}
		printFailures(t.app.err, t.command, r)
		if r.Failed > 0 && kept > 0 {
			t.app.note("nothing would be removed while there are errors: %s", units.Plural(kept, "entry", "entries"))
		}
		return err
	}
	return t.finish(out, r, err)
}

const schemaAction = "datamove.action/v1"
