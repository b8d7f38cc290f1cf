package sim

import (
	"context"

	"datamove.dev/mover"
	"datamove.dev/mover/local"
	"datamove.dev/mover/location"
	"datamove.dev/mover/plan"
)

// runTask is one run of a whole task. The places of its two paths are the trees of
// the world.
func (w *world) runTask(ctx context.Context, r *running) {
	open := func(_ context.Context, l location.Location, _ local.OpenOptions) (mover.Place, error) {
		from, to := r.patient()
		if l.Path == "/sim/source" {
			return from, nil
		}
		return to, nil
	}
	request := local.Request{
		Work:   local.Sync,
		Source: location.Location{Scheme: location.POSIX, Path: "/sim/source"},
		Target: location.Location{Scheme: location.POSIX, Path: "/sim/target"},
		Delete: w.delete, Checksum: w.checksum, Verify: w.level, Jobs: w.jobs,
		StateDir: w.stateDir, Observer: taskObserver{r},
	}
	if w.failFull {
		request.OnFull = local.FullFail
	}
	task, err := local.Start(ctx, request, open)
	if r.err = err; err != nil {
		return
	}
	report, err := task.Wait()
	r.err = err
	if !r.dead() {
		r.reported(report)
	}
}

// reported checks the report against what was told.
func (r *running) reported(rep local.Report) {
	t := r.world.t
	if rep.Failed != int64(r.told.failures()) {
		t.Errorf("run %d: %d failures reported, %d told", r.number, rep.Failed, r.told.failures())
	}
	if (rep.Failed > 0 || len(rep.Failures) > 0) && r.err == nil {
		t.Errorf("run %d: %d failures, and no error", r.number, rep.Failed)
	}
	var files, bytes int64
	for _, res := range r.told.all {
		if res.moved {
			files, bytes = files+1, bytes+res.size
		}
	}
	if rep.Files != files || rep.Bytes != bytes {
		t.Errorf("run %d: %d files of %d bytes reported, %d of %d told", r.number, rep.Files, rep.Bytes, files, bytes)
	}
	p := rep.Planned
	planned := p.Changes() + p.Keeps + p.Conflicts
	if done := rep.Files + rep.Others + rep.Updated + rep.Removed + rep.Kept + rep.Failed; r.err == nil && done != planned {
		t.Errorf("run %d: %d actions planned, %d ended: %+v", r.number, planned, done, rep)
	}
}

// taskObserver hears of a task.
type taskObserver struct{ *running }

func (o taskObserver) Item(it local.Item) {
	moved := it.Err == nil && it.Kind == mover.File && (it.Op == plan.Create || it.Op == plan.Replace)
	o.told.add(result{it.Name, it.Kind, it.Bytes, moved, it.Err}, it.Op == plan.Remove)
}

func (taskObserver) State(local.Phase, string) {}
