package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"datamove.dev/mover"
	"datamove.dev/mover/backend/mem"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/location"
)

// runTask is one run of a whole task. The places of its two paths are the trees of
// the world.
func (w *world) runTask(ctx context.Context, r *running) {
	request := engine.Request{
		Work: engine.Sync, Source: at("source"), Target: at("target"),
		Delete: w.delete, CompareBy: w.compareBy, Verify: w.level, Jobs: w.jobs,
		StateDir: w.stateDir, Observer: taskObserver{r},
	}
	if w.failFull {
		request.OnNoSpace = engine.NoSpaceFail
	}
	task, err := engine.Start(ctx, request, r.open)
	if r.err = err; err != nil {
		return
	}
	report, err := task.Wait()
	r.err = err
	if !r.dead() {
		r.reported(report)
	}
}

func at(name string) location.Location {
	return location.Location{Scheme: location.POSIX, Path: "/sim/" + name}
}

func (r *running) open(_ context.Context, l location.Location, _ engine.OpenOptions) (mover.Backend, error) {
	from, to := r.patient()
	switch l {
	case at("source"):
		return from, nil
	case at("target"):
		return to, nil
	}
	return mem.New(r.world.back, mem.Options{}), nil
}

// home copies what came to a bucket to a tree again, which has to be like the
// source in everything, also in what only the manifest can have carried.
func (w *world) home() {
	if w.t.Failed() || !w.targetOptions.ObjectStore || w.sourceOptions.ObjectStore || !w.delete {
		return
	}
	time.Sleep(time.Minute)
	r := &running{world: w, stop: func(error) {}}
	r.places(weather{})
	w.back = mem.NewTree()
	task, err := engine.Start(context.Background(), engine.Request{Work: engine.Copy, Source: at("target"), Target: at("back"), StateDir: w.stateDir}, r.open)
	if err == nil {
		_, err = task.Wait()
	}
	if err != nil {
		w.t.Errorf("back from the bucket: %v", err)
		return
	}
	from, to := mem.New(w.source, mem.Options{}), mem.New(w.back, mem.Options{})
	for _, e := range entries(w.t, w.source, mem.Options{}) {
		s, serr := from.Stat(context.Background(), e.Name)
		b, berr := to.Stat(context.Background(), e.Name)
		if err := errors.Join(serr, berr); err != nil {
			w.t.Errorf("back from the bucket: %v", err)
			continue
		}
		if got, want := likeness(&b), likeness(&s); got != want {
			w.t.Errorf("back from the bucket %q is\n%s, and it was\n%s", e.Name, got, want)
		}
	}
}

// likeness is all of an entry that a copy keeps.
func likeness(e *mover.Entry) string {
	e.Atime, e.Ctime, e.Dev, e.Ino, e.Gen = mover.Time{}, mover.Time{}, 0, 0, 0
	return fmt.Sprintf("%+v", *e)
}

// reported checks the report against what was told.
func (r *running) reported(rep engine.Report) {
	t := r.world.t
	for _, note := range rep.Notes {
		_, _ = fmt.Sscanf(note, "hard links that are files of their own in the target: %d", &r.linksLost)
	}
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

func (o taskObserver) Item(it engine.Item) {
	moved := it.Err == nil && it.Kind == mover.File && (it.Op == plan.Create || it.Op == plan.Replace)
	o.told.add(result{it.Name, it.Kind, it.Bytes, moved, it.Err}, it.Op == plan.Remove)
}

func (taskObserver) State(engine.Phase, string) {}
