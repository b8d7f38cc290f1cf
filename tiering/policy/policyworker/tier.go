package policyworker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"sync"
	"time"

	agentv1 "datamove.dev/api/datamove/agent/v1"
	pb "datamove.dev/api/datamove/v1"
	"datamove.dev/mover"
	"datamove.dev/mover/agent/worker"
	"datamove.dev/mover/backend/throttle"
	"datamove.dev/mover/engine"
	"datamove.dev/mover/engine/plan"
	"datamove.dev/mover/engine/transfer"
	"datamove.dev/mover/location"
	"datamove.dev/mover/task/convert"
	"datamove.dev/tiering/policy/run"
)

// runPart is a part of a run of a policy: some files, of which each is looked at before, and once more when it is taken away.
type runPart struct {
	*worker.Job
	source, target location.Location
	copies         bool                // there is a target
	back           bool                // it undoes a run
	ops            *throttle.Bandwidth // of all files; nil is no limit
	items          map[string]*pb.PlanItem
	there          map[string]mover.Entry // items that are what they were

	mu     sync.Mutex      // guards all below
	copied map[string]bool // by this task, and checked as well as it has to be
	failed map[string]bool
	report engine.Report
}

// failuresMost are named in a report.
const failuresMost = 1000

// checkpoints is the part of a Runner of policies that says which paths a component recorded: those of a checkpoint.
type checkpoints struct{}

// Strict implements worker.Runner.
func (checkpoints) Strict(j *worker.Job, l location.Location) bool {
	return j.Spec().GetTiering().GetCheckpoint() != nil && l.IsPath()
}

// Tier is the Runner that does a part of a run of a policy.
type Tier struct{ checkpoints }

// Run implements worker.Runner.
func (Tier) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	return forRun(ctx, j, false)
}

// Undo is the Runner that gives back what a part of a run took away.
type Undo struct{ checkpoints }

// Run implements worker.Runner.
func (Undo) Run(ctx context.Context, j *worker.Job) (engine.Report, error) {
	return forRun(ctx, j, true)
}

func forRun(ctx context.Context, j *worker.Job, back bool) (engine.Report, error) {
	if j.Spec().GetTiering().GetCheckpoint() != nil {
		return moveCheckpoint(ctx, j, back)
	}
	begun := time.Now()
	t := &runPart{Job: j, back: back, ops: throttle.NewBandwidth(j.Spec().GetTiering().GetOpsPerSecond()), items: map[string]*pb.PlanItem{}, there: map[string]mover.Entry{}, copied: map[string]bool{}, failed: map[string]bool{}}
	err := t.run(ctx)
	t.report.Elapsed = time.Since(begun)
	if err == nil && t.report.Failed > 0 {
		err = worker.ItemsFailed(t.report.Failed, t.gravest())
	}
	return t.report, err
}

func (t *runPart) run(ctx context.Context) (err error) {
	spec := t.Spec()
	if t.source, err = t.At(spec.GetSource()); err != nil {
		return err
	}
	if t.copies = spec.GetTarget() != ""; t.copies {
		if t.target, err = t.At(spec.GetTarget()); err != nil {
			return err
		}
	}
	if err := t.receive(ctx); err != nil || len(t.items) == 0 {
		return err
	}
	options := engine.OpenOptions{Write: convert.ChangesSource(spec), StateDir: t.Order().GetStateDir(), Logger: t.Log()}
	if keep := spec.GetTiering().GetKeep(); keep != "" {
		options.Backup = filepath.Join(t.source.Path, keep)
	}
	return engine.VisitWith(ctx, t.source, options, t.Open, func(place mover.Backend) error { return t.do(ctx, place) })
}

// do does what is asked for with the items at the source.
func (t *runPart) do(ctx context.Context, place mover.Backend) error {
	spec := t.Spec()
	if t.back {
		return t.undo(ctx, place)
	}
	if err := t.look(ctx, place); err != nil {
		return err
	}
	switch words := spec.GetTiering().GetLayout(); {
	case words != "":
		return change(ctx, t, place, "restripe", func(r restriper, e mover.Entry) error { return r.Restripe(ctx, e, words) })
	case spec.GetTiering().GetRelease():
		return change(ctx, t, place, "release", func(r releaser, e mover.Entry) error { return r.Release(ctx, e) })
	}
	if t.copies {
		if err := t.copy(ctx); err != nil {
			return err
		}
	}
	if spec.GetTiering().GetRemove() {
		return t.remove(ctx, place)
	}
	return nil
}

// receive gets the items. What the coordinator holds back counts as skipped.
func (t *runPart) receive(ctx context.Context) error {
	stream, err := t.Agent().Items(ctx, &agentv1.ItemsRequest{})
	held := int64(0)
	for err == nil {
		var some *agentv1.ReadItemsResponse
		if some, err = stream.Recv(); err != nil {
			break
		}
		held = some.GetHeld()
		for _, item := range some.GetItems() {
			if name := string(item.GetName()); mover.ValidName(name) && name != "" {
				t.items[name] = item
				t.report.Planned.Files++
				t.report.Planned.Bytes += item.GetBytes()
			}
		}
	}
	t.report.Kept += held
	if errors.Is(err, io.EOF) {
		return nil
	}
	return worker.FromAgent(ctx, err)
}

// look leaves out what is gone, is another one by now, was read since, is in use, or is on another file system although it has to be on that of the root.
func (t *runPart) look(ctx context.Context, place mover.Backend) error {
	one := t.Spec().GetTiering().GetOneFileSystem()
	root := mover.Entry{}
	if one {
		var err error
		if root, err = place.Stat(ctx, ""); err != nil {
			return err
		}
	}
	for name, item := range t.items {
		if err := t.allowed(ctx, 1); err != nil {
			return err
		}
		e, err := place.Stat(ctx, name)
		if err == nil {
			err = run.Same(item, &e)
		}
		if err == nil && one && e.Dev != root.Dev {
			err = fmt.Errorf("%w: it is on another file system", mover.ErrChanged)
		}
		if err == nil && t.Spec().GetTiering().GetRemove() {
			err = unused(ctx, place, e)
		}
		switch {
		case err == nil:
			t.there[name] = e
		case errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrChanged):
			t.report.Kept++
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			t.fail(name, item, err)
		}
	}
	return nil
}

// unused is an error when a file is in use on this node: a removal by a policy is not urgent.
func unused(ctx context.Context, place mover.Backend, e mover.Entry) error {
	p, ok := mover.As[mover.UseTeller](place)
	if !ok || e.Kind != mover.File {
		return nil
	}
	used, err := p.InUse(ctx, e)
	if used {
		err = fmt.Errorf("%w: it is open, or mapped", mover.ErrChanged)
	}
	return err
}

func (t *runPart) fail(name string, item *pb.PlanItem, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.failed[name] {
		return
	}
	t.failed[name] = true
	if t.report.Failed++; len(t.report.Failures) < failuresMost {
		t.report.Failures = append(t.report.Failures, engine.Item{Name: name, Kind: mover.File, Bytes: item.GetBytes(), Err: err})
	}
}

func (t *runPart) gravest() (err error) {
	for _, f := range t.report.Failures {
		err = engine.Gravest(err, f.Err)
	}
	return err
}

// names are those that are there, and did not fail, as far as also says so; nil is all.
func (t *runPart) names(also func(name string) bool) (names []string) {
	for name := range t.there {
		if !t.failed[name] && (also == nil || also(name)) {
			names = append(names, name)
		}
	}
	return names
}

// copy brings what is there to the target. What is to be removed then has to be checked: what was there already is read.
func (t *runPart) copy(ctx context.Context) error {
	if err := t.work(ctx, engine.Copy, t.source, t.target, t.names(nil)); err != nil {
		return err
	}
	if t.Spec().GetTiering().GetRemove() {
		if err := t.work(ctx, engine.Verify, t.source, t.target, t.names(func(name string) bool { return !t.copied[name] })); err != nil {
			return err
		}
	} else {
		t.count(t.names(nil))
	}
	return nil
}

func (t *runPart) count(names []string) {
	for _, name := range names {
		t.report.Files++
		t.report.Bytes += t.items[name].GetBytes()
	}
}

// work copies or compares some names. That some of them failed is no error.
func (t *runPart) work(ctx context.Context, what engine.Work, from, to location.Location, names []string) error {
	if len(names) == 0 {
		return nil
	}
	list, err := plan.NewNames(names)
	if err != nil {
		return err
	}
	r, err := t.Request()
	if err != nil {
		return err
	}
	r.Work, r.Source, r.Target = what, from, to
	if r.Filter, err = plan.NewFilter(nil, list); err != nil {
		return err
	}
	watch := &watched{runPart: t, copies: what == engine.Copy, level: r.Verify}
	r.Observer = watch
	if what == engine.Verify {
		r.Verify, r.Preserve = mover.Unchecked, mover.FactCRC // facts that a store does not keep are no difference in content
	}
	r.Lead.AcquireSlot = t.paced
	task, err := engine.Start(ctx, r, t.Open)
	if err != nil {
		return err
	}
	t.Progress(task)
	report, err := task.Wait()
	if err != nil && report.Failed == 0 || ctx.Err() != nil {
		return err
	}
	return nil
}

// allowed waits until so many operations have passed at the rate that the policy lets its runs have.
func (t *runPart) allowed(ctx context.Context, n int64) error {
	if _, err := t.ops.Wait(ctx, n); err != nil {
		return err
	}
	return context.Cause(ctx) // nil while ctx goes on
}

// paced is AcquireSlot, at the rate of operations that the policy lets its runs have.
func (t *runPart) paced(ctx context.Context, ask transfer.SlotRequest) (transfer.Slot, error) {
	if err := t.allowed(ctx, ask.Ops); err != nil {
		return transfer.Slot{}, err
	}
	return t.AcquireSlot(ctx, ask)
}

// watched hears what becomes of each name.
type watched struct {
	*runPart
	copies bool
	level  mover.Level
}

// Item implements engine.Observer.
func (w *watched) Item(it engine.Item) {
	w.runPart.Item(it)
	item := w.items[it.Name]
	if item == nil {
		return
	}
	if it.Err != nil {
		w.fail(it.Name, item, it.Err)
		return
	}
	if w.copies && it.Level >= w.level && it.Level > mover.Unchecked {
		w.mu.Lock()
		w.copied[it.Name] = true
		w.mu.Unlock()
	}
}

// State implements engine.Observer.
func (w *watched) State(phase engine.Phase, why string) { w.runPart.State(phase, why) }

// askMine is after how many names it is asked whether the task is still this one's.
const askMine = 100

// remove takes away what is still the very entry that was looked at.
func (t *runPart) remove(ctx context.Context, place mover.Backend) error {
	t.State(engine.Removing, "")
	owner := mover.WriterID{Task: "tiering", Epoch: t.Order().GetEpoch()}
	for i, name := range t.names(nil) {
		if i%askMine == 0 {
			if err := t.Confirm(ctx); err != nil {
				return err
			}
			t.Touch()
		}
		if err := t.allowed(ctx, 1); err != nil {
			return err
		}
		item := t.items[name]
		switch err := place.Remove(ctx, t.there[name], owner); {
		case err == nil:
			t.count([]string{name})
		case errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrChanged):
			t.report.Kept++
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			t.fail(name, item, err)
		}
	}
	return place.Sync(ctx)
}

// restriper is a backend that can give a file another layout.
type restriper interface {
	Restripe(ctx context.Context, e mover.Entry, words string) error
}

// releaser is a backend that can give back the space of what is in its archive.
type releaser interface {
	Release(ctx context.Context, e mover.Entry) error
}

// change does something to files that stay. What is another one by now, or in use, stays as it is.
func change[P any](ctx context.Context, t *runPart, place mover.Backend, what string, do func(P, mover.Entry) error) error {
	p, ok := mover.As[P](place)
	if !ok {
		return &mover.Error{Op: what, Location: place.String(), Err: mover.ErrUnsupported}
	}
	for _, name := range t.names(nil) {
		if err := t.allowed(ctx, 1); err != nil {
			return err
		}
		switch err := do(p, t.there[name]); {
		case err == nil:
			t.count([]string{name})
		case errors.Is(err, mover.ErrNotExist), errors.Is(err, mover.ErrChanged):
			t.report.Kept++
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			t.fail(name, t.items[name], err)
		}
	}
	return nil
}

// restorer is a backend that can give back what it has kept.
type restorer interface {
	Restore(ctx context.Context, name string) error
}

// undo gives back what was taken away, where nothing has its name by now.
func (t *runPart) undo(ctx context.Context, place mover.Backend) error {
	if t.copies {
		return t.copyBack(ctx, place)
	}
	back, ok := mover.As[restorer](place)
	if !ok {
		return &mover.Error{Op: "undo", Location: place.String(), Err: mover.ErrUnsupported}
	}
	for name, item := range t.items {
		switch err := back.Restore(ctx, name); {
		case err == nil:
			t.count([]string{name})
		case errors.Is(err, mover.ErrNotExist): // it was not taken away
			t.report.Kept++
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			t.fail(name, item, err)
		}
	}
	return place.Sync(ctx)
}

// copyBack copies what is not there any more from where it was copied to.
func (t *runPart) copyBack(ctx context.Context, place mover.Backend) error {
	for name, item := range t.items {
		e, err := place.Stat(ctx, name)
		switch {
		case errors.Is(err, mover.ErrNotExist):
			t.there[name] = e
		case err == nil:
			t.report.Kept++ // it, or another one: nothing is replaced
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			t.fail(name, item, err)
		}
	}
	if err := t.work(ctx, engine.Copy, t.target, t.source, t.names(nil)); err != nil {
		return err
	}
	t.count(t.names(nil))
	return nil
}
