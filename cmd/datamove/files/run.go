package files

import (
	"context"

	"datamove.dev/cmd/datamove/task"
	"datamove.dev/mover/engine"
)

// run does the task and tells how it went.
func run(ctx context.Context, t *task.Request) error {
	if t.At != "" {
		return t.RunRemote(ctx)
	}
	var err error
	if t.Engine.Filter, err = t.Filter.Filter(t.App.In); err != nil {
		return err
	}
	if t.Engine.DryRun {
		return printPlan(ctx, t)
	}
	return t.Work(ctx, func(ctx context.Context, r engine.Request, w *task.Watcher) (engine.Report, error) {
		task, err := engine.Start(ctx, r, t.App.Open)
		if err != nil {
			return engine.Report{}, err
		}
		w.Show(task)
		report, err := task.Wait()
		if r.Work == engine.Verify { // nothing is moved: what counts is what was read
			report.Bytes = task.Snapshot().BytesDone
		}
		return report, err
	})
}
