package cli

import (
	"context"

	"datamove.dev/mover/engine"
)

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
